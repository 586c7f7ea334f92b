/** What every mode implements: desire, observe, plan, apply, cleanup. A mode holds its desired and applied state; what it does to the kernel is in the plan it made. */
import type { Address, Family } from '../model/address.ts';
import type { Protocol, ServiceKey } from '../model/objects.ts';
import type { ServicePort, ServicePortKey } from '../model/service-port.ts';
import type { UdpFrontend } from '../model/udp-flows.ts';
import type { Observed } from '../reconcile/observed.ts';
import type { ApplyReport, Plan } from '../reconcile/step.ts';
import type { ModeWork } from '../reconcile/work.ts';

export type ModeName = 'iptables' | 'ipvs' | 'nftables';

/** What reading the kernel found. */
export interface ObserveReport {
  /** Nothing of a service proxy stands, ours or another: what is written cannot take anything from anybody. */
  readonly isBare: boolean;
  /** Kernel objects of ours which differ from what was believed to be there: another program changed them. */
  readonly drift: readonly string[];
  /** Why parts of the kernel could not be read. */
  readonly unread: readonly string[];
  /** UDP frontends that what was read translates, ours or those of a proxy before us. */
  readonly udpFrontends: readonly UdpFrontend[];
}

/** Rules of ours in one table: all, and those of the last write. */
export interface RuleCount {
  readonly family: Family;
  readonly table: string;
  readonly total: number;
  readonly last: number;
  /** nftables mode: elements of maps and sets. */
  readonly elements?: number;
}

/** Connections that came to a frontend, by the kernel's own counter, which begins anew whenever it is written. */
export interface ConnectionCount {
  readonly service: ServiceKey;
  readonly family: Family;
  /** undefined: a node port. */
  readonly address: Address | undefined;
  readonly protocol: Protocol | undefined;
  readonly port: number;
  readonly count: number;
}

/** Packets that rules of ours counted, by what they do: of iptables mode, as kube-proxy's counters of nfacct. */
export interface PacketCount {
  readonly what: 'invalid-dropped' | 'localhost-node-ports';
  readonly family: Family;
  /** Since the rule was written last. */
  readonly packets: number;
}

/** Owners, and keys of shared objects, that a plan leaves as they are because they were refused. */
export type SetAside = ReadonlySet<string>;
export const NOBODY: SetAside = new Set();

/** Part of what is ours could not be removed; the rest was. */
export class CleanupIncomplete extends Error {
  readonly code = 'CLEANUP_INCOMPLETE';
}

export interface Mode<P extends Plan = Plan> {
  readonly name: ModeName;
  /** False until the kernel was read, and after a write whose outcome is not known. */
  readonly isObserved: boolean;
  /** Something ends by itself, connections of what drains: there will be more to do, though nothing changes. */
  readonly isWaiting: boolean;
  /** What a read finds does not depend on what is desired: `desire` may be called while it goes on. */
  readonly readsApart: boolean;
  /** What was done since the mode was built. */
  readonly work: ModeWork;
  /** Take in changes of the model. Pure. */
  desire(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void;
  /** Render what the changes share: `plan` does it too, but the event loop is held for less when it is done before. Pure. */
  settle(): void;
  /** Read the kernel. What could not be read is left out of plans (invariant 2); `unknown` when that is all of it. */
  observe(signal: AbortSignal): Promise<Observed<ObserveReport>>;
  /** Read again what changes by itself, such as the connections of what drains: cheap. Throws when it cannot be read. */
  refresh(signal: AbortSignal): Promise<void>;
  /** What to write now, in the parts of the kernel that were read. Pure. */
  plan(setAside?: SetAside): P;
  /** Write it. What failed is in the report, never thrown; only an abort is. */
  apply(plan: P, signal: AbortSignal): Promise<ApplyReport>;
  /** Whether what was written still stands, as far as a cheap look can tell. */
  probe(signal: AbortSignal): Promise<boolean>;
  /**
   * Whether something of what stands may be another than was written, though `probe` found it standing: another program wrote since
   * it was read, or that cannot be told. Only `differs` tells, which may cost much. A mode that does not say it needs no such reading.
   */
  mayDiffer?(): Promise<boolean>;
  /**
   * Read, and compare with what was written; nothing else is believed than before. It may go on beside a sync, but is to begin between
   * two. Undefined: a write of ours went on meanwhile, so that what was read says nothing. Throws when it cannot be read.
   */
  differs?(signal: AbortSignal): Promise<boolean | undefined>;
  /** Of what is believed to stand; none of a family that is not known. */
  ruleCounts(): readonly RuleCount[];
  /** In modes that can count, and none where that is not asked for. Throws when the kernel does not say. */
  connectionCounts?(): Promise<readonly ConnectionCount[]>;
  /** In modes that have such rules; none of a rule that does not stand as it was written. Throws when the kernel does not say. */
  packetCounts?(signal: AbortSignal): Promise<readonly PacketCount[]>;
  /** Remove all that is ours and nothing else; returns what was removed, as lines. Throws when part of it failed, after the rest was done. */
  cleanup(signal: AbortSignal): Promise<readonly string[]>;
}
