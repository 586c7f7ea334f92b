/**
 * The kernel's objects of IPVS mode beside rules: a dummy device with addresses, sets, virtual servers and their destinations. Writes are a
 * list, and so are their outcomes. `ipvs-netlink.ts` carries them out over netlink.
 */
import type { IpsetSpec } from '../../native/ipset.ts';
import type { Timeouts } from '../../native/ipvs.ts';
import type { Address, Family, Protocol } from '../base/address.ts';

export type { IpsetSpec, SetType } from '../../native/ipset.ts';
export type { Timeouts } from '../../native/ipvs.ts';

/** The identity of a virtual server. */
export interface ServerId {
  readonly protocol: Protocol;
  readonly address: Address;
  readonly port: number;
}

/** A virtual server of IPVS. */
export interface Server extends ServerId {
  readonly scheduler: string;
  /** IP_VS_SVC_F_…, without the flags that only the kernel sets. */
  readonly flags: number;
  /** Seconds of session affinity; 0 for none. */
  readonly timeout: number;
}

/** A server that no client uses, in TEST-NET-2 (RFC 5737): it tries whether the kernel has a scheduler. kube-proxy has the same one. */
export const TRIAL_SERVER: ServerId = { protocol: 'TCP', address: '198.51.100.0' as Address, port: 20_000 };

/**
 * An endpoint of a virtual server. A field of it is written by native/ipvs.ts (and in abi-probe.c), read by `observe.ts` of
 * proxy/modes/virtual-servers, and compared and printed by its `tracked-objects.ts`.
 */
export interface Destination {
  readonly address: Address;
  readonly port: number;
  readonly weight: number;
}

/** A destination as the kernel has it. */
export interface SeenDestination extends Destination {
  /** Active and inactive connections. */
  readonly connections: number;
  /** Whether packets reach it by NAT (IP_VS_CONN_F_MASQ), as they reach all destinations of slicewire. */
  readonly isMasqueraded: boolean;
}

/** The destination that the next connections of a client get. */
export interface Template {
  readonly server: ServerId;
  readonly destination: Pick<Destination, 'address' | 'port'>;
  /** Seconds until the kernel forgets it, if the client sends nothing more. */
  readonly seconds: number;
}

/** IPVS's counts since the server was created. */
export interface ServerCounts extends ServerId {
  readonly connections: number;
  /** `in` is from clients, `out` to them. */
  readonly bytes: { readonly in: number; readonly out: number };
}

/** A set as the kernel has it. */
export interface SeenSet {
  readonly type: string;
  /** The largest number of entries; undefined for a bitmap. */
  readonly maxelem: number | undefined;
  /** In the form of `ipset list`: `10.96.0.10,tcp:80`. */
  readonly entries: readonly string[];
}

/** A write. Entries have the form of `ipset list`. */
export type KernelWrite =
  | { readonly kind: 'add-device' | 'remove-device' }
  | { readonly kind: 'add-address' | 'remove-address'; readonly address: Address }
  | { readonly kind: 'add-set'; readonly set: IpsetSpec }
  | { readonly kind: 'remove-set'; readonly set: string }
  /** Rules that name one of them find the entries of the other from then on. */
  | { readonly kind: 'swap-set'; readonly set: string; readonly with: string }
  | { readonly kind: 'add-entry' | 'remove-entry'; readonly set: string; readonly entry: string }
  | { readonly kind: 'add-server' | 'change-server'; readonly server: Server }
  | { readonly kind: 'remove-server'; readonly server: ServerId }
  | {
      readonly kind: 'add-destination' | 'change-destination' | 'remove-destination';
      readonly server: ServerId;
      readonly destination: Destination;
    };

/**
 * `exists`: the object to create exists. `missing`: the object to change or remove, or its parent, does not exist. `refused`: the kernel does
 * not accept the object. `environment`: the write is impossible now.
 */
export type IpvsFailure = 'exists' | 'missing' | 'refused' | 'environment';

/** A write failed. */
export class KernelError extends Error {
  readonly code = 'KERNEL';
  readonly failure: IpvsFailure;

  constructor(failure: IpvsFailure, message: string) {
    super(message);
    this.failure = failure;
  }
}

/** The kernel lacks IPVS or a part that IPVS mode needs; the message has the remedy. */
export class IpvsUnusable extends Error {
  readonly code = 'IPVS_UNUSABLE';
}

/** Reads of the kernel. They throw when the kernel refuses, or when a listing never settles. */
export interface IpvsReader {
  hasDevice(): Promise<boolean>;
  /** Addresses on the device of Services, and those of all other devices without loopback and link-local ones. */
  addresses(family: Family): Promise<{ readonly ours: readonly Address[]; readonly others: readonly Address[] }>;
  /** Virtual servers of both families; without those by firewall mark. */
  servers(): Promise<readonly Server[]>;
  /** The counts of the servers of both families. */
  counts(): Promise<readonly ServerCounts[]>;
  destinations(server: ServerId): Promise<readonly SeenDestination[]>;
  setNames(): Promise<readonly string[]>;
  /** undefined when the set does not exist. */
  readSet(name: string): Promise<SeenSet | undefined>;
  /** The kernel's memory of a client for session affinity, read anew. */
  templates(client: Address): Promise<readonly Template[]>;
  /** Seconds. */
  timeouts(): Promise<Timeouts>;
}

/** The kernel for syncs, and for checks in their turn. */
export interface IpvsKernel extends IpvsReader {
  /** Writes in this order; returns the outcome of each write, undefined for success. Throws only the signal's reason. */
  write(writes: readonly KernelWrite[], signal: AbortSignal): Promise<(KernelError | undefined)[]>;
  setTimeouts(timeouts: Timeouts): Promise<void>;
}

/**
 * The kernel for questions, which come at any time: in the middle of a sync, and several together. Each reads over sockets of its own, so that
 * none is between the parts of another's listing. A sync's kernel does not have this type.
 */
export interface IpvsQuestions {
  /** The kernel can be read until the promise settles. Rejects with IpvsUnusable, and as the question. */
  ask<T>(question: (kernel: IpvsReader) => Promise<T>): Promise<T>;
}
