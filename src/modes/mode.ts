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

/** What to write; `apply` carries it out, once. */
export interface ModePlan extends Plan {
  /** Write it. What failed is in the report, never thrown; only an abort is. */
  apply(signal: AbortSignal): Promise<ApplyReport>;
}

/** Questions to the kernel between syncs. */
export interface KernelProbe {
  /** Whether what was written is still installed, as far as a cheap question can tell. */
  stands(signal: AbortSignal): Promise<boolean>;
  /**
   * Whether something installed may differ from what was written, although `stands` found it: another program wrote since it was
   * read, or that is unknown. Only `differs` finds out, at some cost.
   */
  mayDiffer(): Promise<boolean>;
  /**
   * Read, and compare with what was written; what is believed stays the same. It may go on beside a sync, but must begin between
   * two. Undefined: a write of ours went on meanwhile, so the reading says nothing. Throws when the kernel cannot be read.
   */
  differs(signal: AbortSignal): Promise<boolean | undefined>;
}

/** What is counted in the kernel. */
export interface ModeMetrics {
  /** Of what is believed to be installed; none of a family that is unknown. */
  ruleCounts(): readonly RuleCount[];
  /** None in modes that cannot count, or were not asked to. Throws when the kernel does not answer. */
  connectionCounts(): Promise<readonly ConnectionCount[]>;
  /** None in modes without such rules, and none of a rule that is not installed as it was written. Throws when the kernel does not answer. */
  packetCounts(signal: AbortSignal): Promise<readonly PacketCount[]>;
}

export interface Mode {
  readonly name: ModeName;
  /** False until the kernel was read, and after a write whose outcome is unknown. */
  readonly isObserved: boolean;
  /** Something ends by itself, such as connections of endpoints that drain. There will be more to do without any change. */
  readonly isWaiting: boolean;
  /** A reading does not depend on what is desired: the sync loop may call `desire` while it goes on. */
  readonly readsApart: boolean;
  /** Counts since the mode was made. */
  readonly work: ModeWork;
  readonly probe: KernelProbe;
  readonly metrics: ModeMetrics;
  /** Take in changes of the model. Pure. */
  desire(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void;
  /** Render what the changes share. `plan` does it too; calling it before holds the event loop for less. Pure. */
  settle(): void;
  /** Read the kernel. Plans leave out what could not be read (invariant 2); `unknown` when nothing could. */
  observe(signal: AbortSignal): Promise<Observed<ObserveReport>>;
  /** Read again what changes by itself, such as the connections of what drains: cheap. Throws when it cannot be read. */
  refresh(signal: AbortSignal): Promise<void>;
  /** What to write now, in the parts of the kernel that were read. Pure. */
  plan(setAside?: SetAside): ModePlan;
  /** Remove all that is ours and nothing else; returns what was removed, as lines. Throws when part of it failed, after the rest was done. */
  cleanup(signal: AbortSignal): Promise<readonly string[]>;
}
