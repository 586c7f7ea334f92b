/**
 * The interface of every mode: desire, observe, plan, apply, cleanup. A mode holds its desired and applied state.
 * It writes to the kernel only by its plans and by `cleanup`.
 */
import type { Address, Family, Protocol } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import type { Mutex } from '../../base/mutex.ts';
import type { Committer } from '../../kernel/ruleset-notices.ts';
import type { Drift } from '../model/drift.ts';
import type { GoneEndpoint } from '../model/gone-endpoints.ts';
import type { Limit, LimitName } from '../model/limits.ts';
import type { ModeName } from '../model/modes.ts';
import type { ServiceKey } from '../model/objects.ts';
import type { ServicePort, ServicePortKey } from '../model/service-port.ts';
import type { UdpFrontend } from '../model/udp-flows.ts';
import type { ApplyReport, Observed, Plan } from '../reconcile/step.ts';
import type { ModeWork } from '../reconcile/work.ts';
import type { ModeInspection } from './inspection.ts';

/** The result of reading the kernel. */
export interface ObserveReport {
  /** No rules of any service proxy are installed, so a write cannot break a Service that works. */
  readonly isBare: boolean;
  /** Nothing was read: an agent left everything as it is desired, and no program has written since. */
  readonly isAsLeft?: boolean;
  /** Kernel objects of ours that another program changed: they differ from the believed state. */
  readonly drift: readonly Drift[];
  /** Why parts of the kernel could not be read. */
  readonly unread: readonly string[];
  /** UDP frontends that the installed rules translate, ours or those of an earlier proxy. */
  readonly udpFrontends: readonly UdpFrontend[];
}

/** Number of our rules in one table: all of them, and those of the last write. */
export interface RuleCount {
  readonly family: Family;
  readonly table: string;
  readonly total: number;
  readonly last: number;
  /** nftables mode: elements of maps and sets. */
  readonly elements?: number;
}

/** Connections to a frontend, from the kernel's counter. The counter starts at 0 when the frontend is new or gets its first endpoint. */
export interface ConnectionCount {
  readonly service: ServiceKey;
  readonly family: Family;
  /** Undefined for a node port. In IPVS mode a node port has one count for each address of the node. */
  readonly address: Address | undefined;
  readonly protocol: Protocol | undefined;
  readonly port: number;
  readonly count: number;
  /** From clients, and to them. Only virtual servers of IPVS count bytes. */
  readonly bytes?: { readonly in: number; readonly out: number };
  /** The counter of a rule, beside that of a virtual server: some senders are balanced by rules, the others by IPVS. */
  readonly isBesideServer?: boolean;
  /** The counter was read right before its removal. Another count of the frontend is that of a new counter. */
  readonly hasEnded?: boolean;
}

/** A ServicePort with limits. */
export interface LimitedPort extends Pick<ServicePort, 'service' | 'id' | 'protocol' | 'family'> {
  /** The port of the Service. */
  readonly port: number;
  readonly limits: readonly Limit[];
}

/** New connections of a ServicePort beyond a limit, which were refused. A limit that is written anew starts at 0. */
export interface LimitCount {
  readonly port: LimitedPort;
  readonly limit: LimitName;
  readonly count: number;
}

/** How to read counters. */
export interface CounterReading {
  readonly signal: AbortSignal;
  /** Runs a part of the reading while no sync writes. */
  readonly between: Mutex;
}

/** A set of IPVS mode that is larger than kube-proxy's, so that kube-proxy cannot take it over. */
export interface EnlargedSet {
  readonly set: string;
  /** The largest number of its entries. */
  readonly maxelem: number;
}

/** Packets that our rules counted, by purpose. Only in iptables mode; kube-proxy counts the same with nfacct. */
export interface PacketCount {
  readonly what: 'invalid-dropped' | 'localhost-node-ports';
  readonly family: Family;
  /** Since the last write of the rule. */
  readonly packets: number;
}

/** Whether a Service has a frontend there. A node port is one at each address. */
export type IsServed = (at: {
  readonly protocol: Protocol;
  readonly address: Address;
  readonly port: number;
}) => boolean;

/** Owners, and keys of shared objects, that the kernel refused. A plan does not touch them. */
export type SetAside = ReadonlySet<string>;
export const NOTHING_SET_ASIDE: SetAside = new Set();

/** Some of our objects could not be removed; the others were. */
export class CleanupIncomplete extends Error {
  readonly code = 'CLEANUP_INCOMPLETE';
}

/** Virtual servers of ours are left, or may be. Packets would reach them without the rules before them. */
export class ServersLeft extends CleanupIncomplete {}

/** The writes to make. `apply` may be called once. */
export interface ModePlan extends Plan {
  /** Write it. Failures are in the report; only an abort is thrown. `stop` is asked before each family: with its report the writing ends. */
  apply(signal: AbortSignal, stop?: StopBefore): Promise<ApplyReport>;
}

/** Resolves with a report that says why nothing more may be written, or with undefined. */
export type StopBefore = () => Promise<ApplyReport | undefined>;

/** Changes of other programs that writes met, after which they began anew from what the kernel had. */
export interface Met {
  readonly drift: readonly Drift[];
  /** undefined when unknown. */
  readonly by: Committer | undefined;
}

/** Transactions of other programs, as the kernel's notices name them. */
export interface Heard {
  /** Whether they touched objects of ours. After `unknown` only a reading finds out. */
  readonly kind: 'nothing' | 'something' | 'unknown';
  /** The last program that touched objects of ours, or else the last that wrote at all. Undefined when unknown or none. */
  readonly by?: Committer | undefined;
}

/** Probes of the kernel between syncs. */
export interface KernelProbe {
  /**
   * Returns whether other programs touched objects of ours since the last reading or write, by the kernel's notices. After `something` the
   * next `observe` reads only those. Must be called while no object of ours is being written. Throws when the kernel does not answer.
   */
  heard(): Promise<Heard>;
  /** Whether our objects are still installed, as far as a cheap probe can find out. */
  isInstalled(signal: AbortSignal): Promise<boolean>;
  /**
   * Whether installed objects may differ from the written ones although `isInstalled` found them: another program wrote since the
   * last reading, or that is unknown. Only `differs` finds out, at some cost.
   */
  mayDiffer(): Promise<boolean>;
  /**
   * Read the kernel and compare it with the written state; the believed state stays the same. The reading may run beside a sync, but must
   * start between two syncs. Undefined when we wrote during the reading, so that it proves nothing. Throws when the kernel cannot be read.
   */
  differs(signal: AbortSignal): Promise<boolean | undefined>;
}

/** Counts for the metrics. */
export interface ModeMetrics {
  /** Counts of the rules believed to be installed; none for an unknown family. */
  ruleCounts(): readonly RuleCount[];
  /** None in other modes, or while the sets are not known. */
  enlargedSets(): readonly EnlargedSet[];
  /** None where counting is off. A frontend may be missing where we wrote during the reading. Throws when the kernel does not answer. */
  connectionCounts(look: CounterReading): Promise<readonly ConnectionCount[]>;
  /** None for limits that are not written yet, and of at most 1,000 ports. Throws when the kernel does not answer. */
  limitCounts(signal: AbortSignal, only?: ServicePortKey): Promise<readonly LimitCount[]>;
  /** None in modes without such rules, or for a rule that another program changed. Throws when the kernel does not answer. */
  packetCounts(signal: AbortSignal): Promise<readonly PacketCount[]>;
}

export interface Mode {
  readonly name: ModeName;
  /** False until the kernel is read, and after a write whose outcome is unknown. */
  readonly isObserved: boolean;
  /** The same for one family at least: a probe asks about those that were read. */
  readonly isObservedInPart: boolean;
  /** More work will come without any change, for example when the connections of draining endpoints end. */
  readonly isWaiting: boolean;
  /** A reading does not depend on the desired state: the sync loop may call `desire` during it. */
  readonly readsApart: boolean;
  /** Counts since the mode was made. */
  readonly work: ModeWork;
  readonly probe: KernelProbe;
  readonly metrics: ModeMetrics;
  readonly inspection: ModeInspection;
  /**
   * Accept changes of the model; a deleted ServicePort is undefined. `before` has the value that each changed or deleted ServicePort had in
   * the last call. Pure.
   */
  desire(
    changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ): void;
  /** Endpoints that are gone: a mode that waits for connections does not wait for theirs. Pure. */
  end(gone: readonly GoneEndpoint[]): void;
  /** Render the objects that the changes share. `plan` does it too; an earlier call blocks the event loop for less time. Pure. */
  settle(): void;
  /** Read the kernel. Plans leave out the parts that could not be read (invariant 2). The result is `unknown` when no part could be read. */
  observe(signal: AbortSignal): Promise<Observed<ObserveReport>>;
  /** Read again the state that changes by itself, such as the connections of draining endpoints. Cheap. Throws on failure. */
  refresh(signal: AbortSignal): Promise<void>;
  /**
   * The writes that are needed now, in the parts of the kernel that were read. With `mayBePart` only the first of very many new objects may
   * be planned (`Plan.isPart`). Pure.
   */
  plan(setAside?: SetAside, mayBePart?: boolean): ModePlan;
  /**
   * As the predecessor of another mode: remove what serves frontends that nobody serves any more, and leave all else. Only IPVS mode has it.
   * Parts of the kernel that were not read are left out. Failures are in the report; only an abort is thrown.
   */
  readonly retire?: ((isServed: IsServed, signal: AbortSignal) => Promise<ApplyReport>) | undefined;
  /** A mode that takes over: look again for objects of its predecessor, which may have come back, and remove them in the next sync. */
  lookForPredecessor?(): void;
  /** The changes that writes met since the last call; undefined for none. */
  takeMet(): Met | undefined;
  /** Remove all our objects and nothing else; returns a line for each. When a part fails, the rest is removed before it throws. */
  cleanup(signal: AbortSignal): Promise<readonly string[]>;
}

/** A part of the removal of a mode. */
export interface CleanupPart {
  /** The name of the part in messages. */
  readonly name: string;
  /** Returns a line for each removed object. */
  readonly remove: () => Promise<readonly string[]>;
}

/**
 * Returns a line for each removed object. A part that fails does not stop the others; at the end CleanupIncomplete names it, or ServersLeft where a
 * part threw that. `last` is removed only after all parts: by it the next cleanup finds the rest.
 */
export async function cleanUp(
  parts: readonly CleanupPart[],
  signal: AbortSignal,
  last?: CleanupPart,
): Promise<readonly string[]> {
  const removed: string[] = [];
  const problems: string[] = [];
  let Incomplete = CleanupIncomplete;
  const attempt = async ({ name, remove }: CleanupPart) => {
    try {
      removed.push(...(await remove()));
    } catch (error) {
      if (signal.aborted) throw error;
      if (error instanceof ServersLeft) Incomplete = ServersLeft;
      problems.push(`${name}: ${causeOf(error)}`);
    }
  };
  for (const part of parts) await attempt(part);
  if (last !== undefined && problems.length === 0) await attempt(last);
  if (problems.length > 0) throw new Incomplete(`some objects could not be removed: ${problems.join('; ')}`);
  return removed;
}
