/**
 * One engine for the work that every mode does for each family. It records which families could not be read and why, routes
 * changes to their family, merges reports, and tries again when another program wrote in between. A mode gives it a
 * `FamilyMode` for each family, and a `NodePart` if it has objects that belong to the node.
 */

import { type Family, familyOf } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import type { Committer } from '../../kernel/ruleset-notices.ts';
import type { Drift } from '../model/drift.ts';
import type { GoneEndpoint } from '../model/gone-endpoints.ts';
import type { Limit } from '../model/limits.ts';
import type { ModeName } from '../model/modes.ts';
import { familyOfPort, type ServicePort, type ServicePortKey } from '../model/service-port.ts';
import type { UdpFrontend } from '../model/udp-flows.ts';
import {
  type ApplyReport,
  failedReport,
  mergeReports,
  type Observed,
  type Plan,
  type Step,
} from '../reconcile/step.ts';
import type { ModeWork } from '../reconcile/work.ts';
import { inspectionOf } from './inspect.ts';
import type { FamilyInspection, ModeInspection } from './inspection.ts';
import {
  type CleanupPart,
  type ConnectionCount,
  type CounterReading,
  cleanUp,
  type EnlargedSet,
  type Heard,
  type IsServed,
  type KernelProbe,
  type LimitCount,
  type LimitedPort,
  type Met,
  type Mode,
  type ModeMetrics,
  type ModePlan,
  NOTHING_SET_ASIDE,
  type ObserveReport,
  type PacketCount,
  type RuleCount,
  type SetAside,
  type StopBefore,
} from './mode.ts';
import { NO_NODE_PART, type NodePart, type NodePlan } from './node-part.ts';

/** The result of reading one family. */
export interface SeenFamily {
  /** See `ObserveReport`. */
  readonly isAsLeft?: boolean;
  /** Kernel objects that another program changed. */
  readonly drift: readonly Drift[];
  /** The program that changed them; undefined when unknown. */
  readonly by?: Committer | undefined;
  readonly udpFrontends: readonly UdpFrontend[];
}

export const NOTHING_SEEN: SeenFamily = { drift: [], udpFrontends: [] };

export interface FamilyReport extends ApplyReport {
  /** The kernel's state was not the believed one. It must be read again, and planned again. */
  readonly isMistaken?: boolean;
}

export interface FamilyPlan extends Plan {
  /** After this plan, nothing of this family needs the node's part. */
  readonly removesAll?: boolean;
  /** Write it. Failures are in the report; only an abort is thrown. */
  apply(signal: AbortSignal): Promise<FamilyReport>;
}

/** ServicePorts of one family that changed; a removed one is undefined. */
export type PortChanges = Iterable<readonly [ServicePortKey, ServicePort | undefined]>;

/** The part of a mode for one family. */
export interface FamilyMode {
  readonly family: Family;
  /** False until the kernel is read, and after a write whose outcome is unknown. */
  readonly isKnown: boolean;
  /** No rules of a service proxy are installed. Only meaningful when `isKnown`. */
  readonly isEmpty: boolean;
  /** See `Mode.isWaiting`. */
  readonly isWaiting?: boolean;
  /** Counts since this object was made; see `ModeWork`. */
  readonly rendered: number;
  readonly compared: number;
  /** Accept changes of this family. Pure. */
  desire(changes: PortChanges, before: ReadonlyMap<ServicePortKey, ServicePort>): void;
  /** See `Mode.end`. */
  end?(gone: readonly GoneEndpoint[]): void;
  /** See `Mode.settle`. */
  settle?(): void;
  /** Throws when the family cannot be read; `isKnown` is then true if an older reading still counts. */
  observe(signal: AbortSignal): Promise<SeenFamily>;
  /** See `Mode.refresh`. */
  refresh?(signal: AbortSignal): Promise<void>;
  /** See `Mode.retire`. Only called when the family is known. */
  retire?(isServed: IsServed, signal: AbortSignal): Promise<FamilyReport>;
  /** Pure. Only called when the family is known. */
  plan(setAside: SetAside, mayBePart: boolean): FamilyPlan;
  /** Discard the believed state. */
  forget?(): void;
  /** See `KernelProbe`. */
  isInstalled(signal: AbortSignal): Promise<boolean>;
  heard?(): Promise<Heard>;
  mayDiffer?(): Promise<boolean>;
  differs?(signal: AbortSignal): Promise<boolean | undefined>;
  /** See `ModeMetrics`. */
  ruleCounts?(): readonly RuleCount[];
  enlargedSets?(): readonly EnlargedSet[];
  connectionCounts?(look: CounterReading): Promise<readonly ConnectionCount[]>;
  packetCounts?(signal: AbortSignal): Promise<readonly PacketCount[]>;
  /** Packets that the rules of each port's limits counted, in the order of its limits; none where they are not written. */
  limitCounts?(
    ports: readonly LimitedPort[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<LimitedPort, readonly number[]>>;
  /** Predecessors have none. */
  readonly inspection?: FamilyInspection;
  /** The removal of all our objects of this family. */
  removal(signal: AbortSignal): CleanupPart;
}

export interface FamiliesOptions {
  readonly name: ModeName;
  /** See `Mode.readsApart`. */
  readonly readsApart: boolean | (() => boolean);
  readonly families: readonly FamilyMode[];
  readonly node?: NodePart;
}

export function familiesMode(options: FamiliesOptions): Mode {
  return new FamiliesMode(options);
}

/** The plans of the families and of the node. An unknown family has none. */
interface FamilyPlans {
  readonly node: NodePlan;
  readonly families: ReadonlyMap<FamilyMode, FamilyPlan | undefined>;
  readonly steps: readonly Step[];
}

interface WrittenFamilies {
  readonly report: ApplyReport;
  /** Families whose kernel state was not as it was believed to be. */
  readonly mistaken: readonly FamilyMode[];
}

class FamiliesMode implements Mode {
  readonly name: ModeName;
  readonly probe: KernelProbe;
  readonly metrics: ModeMetrics;
  readonly inspection: ModeInspection;
  readonly retire: Mode['retire'];
  readonly #families: readonly FamilyMode[];
  /** The ServicePorts with limits; usually none. */
  readonly #limited = new Map<ServicePortKey, LimitedPort>();
  readonly #whole: { readonly node: NodePart; readonly readsApart: FamiliesOptions['readsApart'] };
  /** The families whose last reading failed, with the reason. */
  readonly #unread = new Map<FamilyMode, string>();
  #steps = 0;
  #met: Met | undefined;

  constructor({ name, readsApart, families, node = NO_NODE_PART }: FamiliesOptions) {
    this.name = name;
    this.#families = families;
    this.#whole = { node, readsApart };
    this.probe = probeOf(families, node);
    this.metrics = metricsOf(families, this.#limited);
    this.inspection = inspectionOf(families, node);
    this.retire = families.some((family) => family.retire !== undefined)
      ? (isServed, signal) => this.#retire(isServed, signal)
      : undefined;
  }

  takeMet(): Met | undefined {
    const met = this.#met;
    this.#met = undefined;
    return met;
  }

  get readsApart(): boolean {
    const { readsApart } = this.#whole;
    return typeof readsApart === 'function' ? readsApart() : readsApart;
  }

  get isObserved(): boolean {
    return this.#whole.node.isKnown && this.#families.every(({ isKnown }) => isKnown);
  }

  get isObservedInPart(): boolean {
    return this.#whole.node.isKnown && this.#families.some(({ isKnown }) => isKnown);
  }

  get isWaiting(): boolean {
    return this.#whole.node.isWaiting || this.#families.some(({ isWaiting = false }) => isWaiting);
  }

  get work(): ModeWork {
    let [rendered, compared] = [0, this.#whole.node.compared];
    for (const family of this.#families) {
      rendered += family.rendered;
      compared += family.compared;
    }
    return { rendered, compared, steps: this.#steps };
  }

  desire(
    changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ): void {
    for (const [key, port] of changes) {
      if (port?.limits !== undefined) this.#limited.set(key, limitedPort(port, port.limits));
      else if (this.#limited.size > 0) this.#limited.delete(key);
    }
    const byFamily = Map.groupBy(changes, ([key]) => familyOfPort(key));
    for (const mode of this.#families) mode.desire(byFamily.get(mode.family) ?? [], before);
  }

  end(gone: readonly GoneEndpoint[]): void {
    const byFamily = Map.groupBy(gone, ({ address }) => familyOf(address));
    for (const mode of this.#families) mode.end?.(byFamily.get(mode.family) ?? []);
  }

  settle(): void {
    for (const mode of this.#families) mode.settle?.();
  }

  async observe(signal: AbortSignal): Promise<Observed<ObserveReport>> {
    try {
      await this.#whole.node.observe();
    } catch (error) {
      if (signal.aborted) throw error;
      const cause = causeOf(error);
      for (const mode of this.#families) {
        mode.forget?.();
        this.#unread.set(mode, cause);
      }
      return { kind: 'unknown', cause };
    }
    const { isAsLeft = false, drift, udpFrontends } = await readFamilies(this.#families, this.#unread, signal);
    const unread = [...this.#unread.values()];
    if (unread.length > 0 && unread.length === this.#families.length) {
      return { kind: 'unknown', cause: unread.join('; ') };
    }
    const isBare = unread.length === 0 && this.#families.every(({ isEmpty }) => isEmpty);
    return { kind: 'known', value: { isBare, isAsLeft, drift, unread, udpFrontends } };
  }

  async refresh(signal: AbortSignal): Promise<void> {
    for (const mode of this.#families) if (mode.isKnown) await mode.refresh?.(signal);
  }

  plan(setAside: SetAside = NOTHING_SET_ASIDE, mayBePart = false): ModePlan {
    const parts = partsOf(this.#families, this.#whole.node, setAside, mayBePart);
    this.#steps += parts.steps.length;
    const isPart = parts.families.values().some((plan) => plan?.isPart === true);
    return { steps: parts.steps, isPart, apply: (signal, stop) => this.#apply(parts, setAside, signal, stop) };
  }

  async cleanup(signal: AbortSignal): Promise<readonly string[]> {
    const ofNode = this.#whole.node.removal(signal);
    const parts = this.#families.map((mode) => mode.removal(signal));
    return await cleanUp(parts, signal, ofNode);
  }

  async #retire(isServed: IsServed, signal: AbortSignal): Promise<ApplyReport> {
    const reports: ApplyReport[] = [];
    for (const mode of this.#families) {
      const report = mode.isKnown ? await mode.retire?.(isServed, signal) : undefined;
      if (report !== undefined) reports.push(report);
    }
    const report = mergeReports(reports);
    this.#steps += report.applied;
    return report;
  }

  async #readAgain(mistaken: readonly FamilyMode[], signal: AbortSignal): Promise<Pick<SeenFamily, 'drift' | 'by'>> {
    if (this.#whole.node === NO_NODE_PART) return await readFamilies(mistaken, this.#unread, signal);
    const seen = await this.observe(signal);
    return seen.kind === 'known' ? seen.value : { drift: [] };
  }

  async #apply(parts: FamilyPlans, setAside: SetAside, signal: AbortSignal, stop?: StopBefore): Promise<ApplyReport> {
    const first = await write(parts, this.#unread, signal, stop);
    if (first.mistaken.length === 0) return first.report;
    // Another program wrote in between. Read the kernel again and plan the remaining work from its state now. A family that
    // has nothing in common with the others and was not mistaken is left for the next reading, which reports its drift.
    const { drift, by } = await this.#readAgain(first.mistaken, signal);
    if (drift.length > 0) this.#met = { drift: [...(this.#met?.drift ?? []), ...drift], by: by ?? this.#met?.by };
    if (this.#unread.size === this.#families.length) {
      const causes = new Set(this.#unread.values());
      return mergeReports([first.report, kernelFailure(`the kernel: ${[...causes].join('; ')}`)]);
    }
    const rest = partsOf(this.#families, this.#whole.node, setAside);
    this.#steps += rest.steps.length;
    const second = await write(rest, this.#unread, signal, stop);
    const applied = first.report.applied + second.report.applied;
    // A failure that the kernel names is more precise, and names the Service.
    const isNamed = second.report.failed.some(({ blame }) => blame === 'environment');
    if (second.mistaken.length === 0 || isNamed) return { ...second.report, applied };
    const { failed } = kernelFailure('another program changes objects of slicewire while slicewire writes them');
    return { ...second.report, outcome: 'partial', applied, failed: [...second.report.failed, ...failed] };
  }
}

function partsOf(modes: readonly FamilyMode[], ofNode: NodePart, setAside: SetAside, mayBePart = false): FamilyPlans {
  for (const mode of modes) mode.settle?.();
  const families = new Map(modes.map((mode) => [mode, mode.isKnown ? mode.plan(setAside, mayBePart) : undefined]));
  const plans = [...families.values()].filter((plan) => plan !== undefined);
  const node = ofNode.plan(plans.every(({ removesAll = false }) => removesAll));
  return { node, families, steps: [...node.steps, ...plans.flatMap((plan) => plan.steps)] };
}

async function write(
  { node, families }: FamilyPlans,
  unread: ReadonlyMap<FamilyMode, string>,
  signal: AbortSignal,
  stop?: StopBefore,
): Promise<WrittenFamilies> {
  const { reports: before, isBlocked } = await node.before(signal);
  const reports: ApplyReport[] = [...before];
  const mistaken: FamilyMode[] = [];
  if (isBlocked) return { report: mergeReports(reports), mistaken };
  for (const [mode, plan] of families) {
    const stopped = await stop?.();
    if (stopped !== undefined) return { report: mergeReports([...reports, stopped]), mistaken };
    const { family } = mode;
    const name = { key: `${family} read`, family, kind: 'kernel' } as const;
    const report: FamilyReport = await (plan?.apply(signal) ?? failedReport(name, unread.get(mode) ?? 'not read yet'));
    reports.push(report);
    if (report.isMistaken === true) mistaken.push(mode);
  }
  reports.push(...(await node.after(signal)));
  return { report: mergeReports(reports), mistaken };
}

/** Read these families. The cause of a family that cannot be read goes into `unread`. Throws only an abort. */
async function readFamilies(
  families: readonly FamilyMode[],
  unread: Map<FamilyMode, string>,
  signal: AbortSignal,
): Promise<SeenFamily> {
  const drift: Drift[] = [];
  const udpFrontends: UdpFrontend[] = [];
  let by: Committer | undefined;
  let isAsLeft = families.length > 0;
  for (const mode of families) {
    unread.delete(mode);
    try {
      const seen = await mode.observe(signal);
      isAsLeft &&= seen.isAsLeft === true;
      drift.push(...seen.drift);
      by ??= seen.by;
      udpFrontends.push(...seen.udpFrontends);
    } catch (error) {
      if (signal.aborted) throw error;
      isAsLeft = false;
      unread.set(mode, causeOf(error));
    }
  }
  return { isAsLeft, drift, by, udpFrontends };
}

function kernelFailure(cause: string): ApplyReport {
  return failedReport({ key: 'the kernel', family: undefined, kind: 'kernel' }, cause);
}

function probeOf(all: readonly FamilyMode[], node: NodePart): KernelProbe {
  /** The next sync reads the others anyway. Before the first one nothing is known, and all are asked. */
  const known = () => {
    const read = all.filter(({ isKnown }) => isKnown);
    return read.length > 0 ? read : all;
  };
  return {
    async isInstalled(signal) {
      if (!(await node.isInstalled())) return false;
      const asked = await inTurn(known(), (mode) => mode.isInstalled(signal));
      return answersOf(asked, (isThere) => !isThere).every((isThere) => isThere);
    },
    async heard() {
      const asked = await inTurn(known(), async (mode) => (await mode.heard?.()) ?? ({ kind: 'unknown' } as Heard));
      const answers = answersOf(asked, ({ kind }) => kind === 'something');
      const of = (kind: Heard['kind']) => answers.find((answer) => answer.kind === kind);
      const nothing = answers.find(({ by }) => by !== undefined) ?? { kind: 'nothing' };
      return of('something') ?? of('unknown') ?? nothing;
    },
    async mayDiffer() {
      const asked = await inTurn(known(), async (mode) => (await mode.mayDiffer?.()) === true);
      return answersOf(asked, (mayDiffer) => mayDiffer).includes(true);
    },
    async differs(signal) {
      // The reading of one family is waited for where that of another failed: its process would outlive an agent that ends.
      const readings = await Promise.allSettled(known().map((mode) => mode.differs?.(signal) ?? false));
      const answers = answersOf(readings, (isOther) => isOther === true);
      if (answers.includes(true)) return true;
      return answers.includes(undefined) ? undefined : false;
    },
  };
}

type Settled<T> = readonly PromiseSettledResult<T>[];

async function inTurn<T>(families: readonly FamilyMode[], ask: (mode: FamilyMode) => Promise<T>): Promise<Settled<T>> {
  const settled: PromiseSettledResult<T>[] = [];
  for (const mode of families) settled.push(...(await Promise.allSettled([ask(mode)])));
  return settled;
}

/** Throws the failure of a family, unless the answer of another one is enough: it counts whatever the others say. */
function answersOf<T>(settled: Settled<T>, isEnough: (answer: T) => boolean): T[] {
  const answers = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const failed = settled.find((one) => one.status === 'rejected');
  if (failed !== undefined && !answers.some(isEnough)) throw failed.reason;
  return answers;
}

/** Limit of the ServicePorts whose limits' counters are read: a Service may have thousands of ports, and each is a listing. */
export const MAX_COUNTED = 1000;

function limitedPort({ service, id, protocol, family, frontends }: ServicePort, limits: readonly Limit[]): LimitedPort {
  return { service, id, protocol, family, port: frontends[0]?.port ?? 0, limits };
}

function metricsOf(families: readonly FamilyMode[], limited: ReadonlyMap<ServicePortKey, LimitedPort>): ModeMetrics {
  return {
    ruleCounts: () => families.flatMap((mode) => mode.ruleCounts?.() ?? []),
    enlargedSets: () => families.flatMap((mode) => mode.enlargedSets?.() ?? []),
    async connectionCounts(look) {
      const counts: ConnectionCount[] = [];
      for (const mode of families) counts.push(...((await mode.connectionCounts?.(look)) ?? []));
      return counts;
    },
    async limitCounts(signal, only) {
      const counts: LimitCount[] = [];
      for (const mode of families) {
        const asked = [...limited].filter(([key]) => only === undefined || key === only).map(([, port]) => port);
        const ports = asked.filter(({ family }) => family === mode.family).slice(0, MAX_COUNTED);
        const found = ports.length === 0 ? undefined : await mode.limitCounts?.(ports, signal);
        for (const [port, packets] of found ?? []) {
          if (packets.length !== port.limits.length) continue;
          for (const [i, { name }] of port.limits.entries()) counts.push({ port, limit: name, count: packets[i] ?? 0 });
        }
      }
      return counts;
    },
    async packetCounts(signal) {
      const counts: PacketCount[] = [];
      for (const mode of families) counts.push(...((await mode.packetCounts?.(signal)) ?? []));
      return counts;
    },
  };
}
