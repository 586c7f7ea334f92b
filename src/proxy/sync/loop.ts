/**
 * One sync: take the changes, update the model, let the mode plan and apply, and report (docs/architecture.md). At run time
 * the stages meet only in this file.
 */
import { causeOf } from '../../base/cause.ts';
import { breath, type Clock } from '../../base/clock.ts';
import { inPortions } from '../../base/portions.ts';
import { writtenChanges } from '../ledger/change-ledger.ts';
import type { Drift } from '../model/drift.ts';
import type { SourceKind } from '../model/events.ts';
import { FaultBook } from '../model/fault-book.ts';
import type { Flows } from '../model/flows.ts';
import type { GoneEndpoint } from '../model/gone-endpoints.ts';
import { type Fault, isNeededFirst, type NodeView, type ServiceKey } from '../model/objects.ts';
import type { ModelChanges, ModelObjects, ProxyModel } from '../model/proxy-model.ts';
import type { ServicePort, ServicePortKey } from '../model/service-port.ts';
import type { Mode } from '../modes/mode.ts';
import type { ApplyReport, FailedStep, Plan } from '../reconcile/step.ts';
import { type Work, workBetween } from '../reconcile/work.ts';
import { applyIsolating, type OnPlan, type RefusedOwners, thrownReport, unreadReport } from './isolate.ts';
import type { SyncReport } from './sync-results.ts';

/** Services whose desired state is rendered before the event loop runs again. */
const SERVICES_AT_ONCE = 50;

const noop = () => undefined;

/** The objects as they are now, and those of them that changed. */
export interface CachedObjects extends ModelObjects {
  /** All initial lists are complete (invariant 1). */
  readonly isSynced: boolean;
  /** Kinds whose initial list is not complete yet. */
  readonly waitingFor: readonly SourceKind[];
  readonly node: NodeView | undefined;
  /** Nodes that do not answer this one. */
  readonly own: { readonly suspects: readonly string[] };
  /** The Services that changed since the last call; each is returned once. */
  takeChanges(): ReadonlySet<ServiceKey>;
  /** The endpoints that are gone since the last call (`--reset-gone`). */
  takeGone(): readonly GoneEndpoint[];
}

export interface SyncParts {
  readonly cache: CachedObjects;
  readonly model: ProxyModel;
  /** Receives the changes of the model and the UDP frontends found in the kernel. */
  readonly flows: Flows;
  readonly mode: Mode;
  readonly clock: Clock;
  readonly nodeName: string;
  /** Milliseconds after which a refused Service is tried again. */
  readonly retry: number;
  /** Called with each new fault that the model found, for example two Services that want one address. */
  readonly onFault: (fault: Fault) => void;
  /** Called with the changed ServicePorts, undefined for a deleted one, and the values before. */
  readonly onPorts?: (
    ports: ReadonlyMap<ServicePortKey, ServicePort | undefined>,
    before: ReadonlyMap<ServicePortKey, ServicePort>,
  ) => void;
  /** Awaited before plans are made and applied. Nothing is written where it returns a report, which is then that of the sync. A rejection makes the sync fail. */
  readonly beforeWrite?: () => Promise<ApplyReport | undefined>;
  /** Called with each plan before it is applied. */
  readonly onPlan?: OnPlan;
  /** Called with the Services that were written before all others. */
  readonly onFirst?: (services: readonly ServiceKey[]) => void;
  /** Called when a part of the kernel could not be read. */
  readonly onUnread: (cause: string) => void;
  /** Called with an unexpected error. It made the sync fail, and the report says so. */
  readonly onThrown?: (error: unknown) => void;
}

export class SyncLoop {
  /** Faults between objects. The cache has those within one object. */
  readonly faults = new FaultBook();
  readonly #parts: SyncParts;
  readonly #refused: RefusedServices;
  #zone = '';
  #mustObserve = true;
  #hasBegun = false;
  /** Touched Services whose desired state is not rendered yet. */
  readonly #unrendered = new Set<ServiceKey>();
  /** Each receives a change once, also when another one throws: the mode counts the holders of objects that Services share. */
  readonly #receivers: readonly Receiver[];
  readonly #ofFlows: Receiver;

  constructor(parts: SyncParts) {
    this.#parts = parts;
    const { mode, flows, onPorts } = parts;
    this.#ofFlows = { receive: ({ ports, before }) => flows.update(ports, before), waiting: noChanges() };
    this.#receivers = [
      { receive: ({ ports, before }) => mode.desire(ports, before), waiting: noChanges() },
      this.#ofFlows,
      { receive: ({ ports, before }) => onPorts?.(ports, before), waiting: noChanges() },
    ];
    this.#refused = new RefusedServices(parts.retry);
  }

  /** The Services that the kernel refuses now, each with its failure. */
  get refused(): ReadonlyMap<string, FailedStep> {
    return this.#refused.services;
  }

  /** The next sync reads the kernel, whatever the believed state is. */
  distrust(): void {
    this.#mustObserve = true;
  }

  /** Takes the last changes of the objects and writes nothing: flows to what they removed are handed to a successor (`Flows.handOver`). */
  end(): void {
    try {
      this.#updateModel(this.#take());
      handOut(this.#ofFlows);
    } catch (error) {
      this.#parts.onThrown?.(error);
    }
  }

  /** Updates the desired state, which is never written. Throws when a source is not synced yet (invariant 1). */
  async desire(): Promise<void> {
    await this.#desire(this.#take());
    this.#parts.flows.forget();
  }

  /** Updates the desired state, reads the kernel if needed, and returns the plan. Throws KernelNotRead when a part is unread. */
  async plan(signal: AbortSignal): Promise<{ plan: Plan; drift: readonly Drift[] }> {
    await this.desire();
    const { drift } = await this.#observe(signal);
    if (!this.#parts.mode.isObserved) throw new KernelNotRead('part of the kernel could not be read; see the log');
    return { plan: this.#parts.mode.plan(), drift };
  }

  /**
   * One sync. Throws when a source is not synced yet (invariant 1), and when aborted. Any other error (of the kernel, a tool,
   * or a bug) becomes the report of a failed sync: the kernel is read again at the next sync, and no touched Service is lost.
   */
  async sync(signal: AbortSignal): Promise<SyncReport> {
    const { clock, onThrown } = this.#parts;
    const start = clock.now();
    const before = workOf(this.#parts);
    const touched = this.#take();
    try {
      return await this.#syncTaken(touched, { start, before }, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      this.#mustObserve = true;
      const isUnread = error instanceof KernelNotRead;
      if (!isUnread) onThrown?.(error);
      const duration = clock.now() - start;
      const nothing = {
        drift: [],
        desiring: 0,
        writing: 0,
        work: workBetween(before, workOf(this.#parts)),
      };
      const report = isUnread ? unreadReport(error.message) : thrownReport(error);
      return { ...report, ...nothing, duration, reading: isUnread ? duration : 0 };
    }
  }

  async #syncTaken(
    touched: readonly ServiceKey[],
    { start, before }: SyncStart,
    signal: AbortSignal,
  ): Promise<SyncReport> {
    const { mode, clock } = this.#parts;
    const begun = this.#hasBegun ? undefined : await this.#begin(touched, signal);
    const desire = clock.now();
    await this.#desire(begun?.left ?? touched);
    const desiring = clock.now() - desire;
    const { drift, isAsLeft, reading } = (await begun?.reading) ?? (await this.#observe(signal));
    this.#refused.retry(start);
    try {
      await mode.refresh(signal);
    } catch (error) {
      if (signal.aborted) throw error;
      // Unknown state stays as it is (invariant 2).
      this.#parts.onUnread(causeOf(error));
    }
    const write = clock.now();
    const report = await this.#write(signal);
    const writing = clock.now() - write;
    const { flows } = this.#parts;
    const { hasWritten, without } = writtenChanges(report);
    if (hasWritten) flows.written(without);
    else if (report.outcome !== 'failed') flows.writtenInPart();
    this.#refused.written(start);
    const work = workBetween(before, workOf(this.#parts));
    const met = mode.takeMet();
    const found = { drift: [...drift, ...(met?.drift ?? [])], by: met?.by };
    return { ...report, duration: clock.now() - start, ...found, isAsLeft, reading, desiring, writing, work };
  }

  /**
   * The first sync. If no rules are installed, DNS and the API server's own Service are written before all others, because pods
   * cannot start without them. If rules are installed, the sync does not wait for that.
   */
  async #begin(touched: readonly ServiceKey[], signal: AbortSignal): Promise<Begun> {
    const { cache, mode, onFirst } = this.#parts;
    const probing = new AbortController();
    const installed = mode.probe.isInstalled(AbortSignal.any([signal, probing.signal])).catch(() => false);
    // This early reading stays valid only if it does not depend on the desired state.
    const isEarly = mode.readsApart || !(await installed);
    const reading = isEarly ? this.#observe(signal) : undefined;
    // A failed reading is reported after the touched Services are in the desired state: they must not be lost.
    const known = reading?.catch(() => undefined);
    // The probe is not waited for either: a lock may delay it. It must not outlast the agent.
    const early = await Promise.race([known, installed.then((isInstalled) => (isInstalled ? undefined : known))]);
    probing.abort();
    signal.throwIfAborted();
    this.#hasBegun = true;
    if (!mode.readsApart) this.#mustObserve = true;
    const begun = { left: touched, reading: mode.readsApart ? reading : undefined };
    if (early?.isBare !== true) return begun;
    const first: ServiceKey[] = [];
    const visit = (key: ServiceKey) => {
      if (isNeededFirst(cache.service(key))) first.push(key);
    };
    await inPortions(touched, visit, signal);
    first.splice(SERVICES_AT_ONCE);
    if (first.length === 0 || first.length === touched.length) return begun;
    this.#desirePortion(first);
    const { outcome } = await this.#write(signal);
    if (outcome === 'complete') onFirst?.(first);
    const isFirst = new Set(first);
    return { ...begun, left: touched.filter((key) => !isFirst.has(key)) };
  }

  async #write(signal: AbortSignal) {
    const { mode, beforeWrite, onPlan = noop } = this.#parts;
    const instead = await beforeWrite?.();
    if (instead !== undefined) return instead;
    return await applyIsolating(mode, this.#refused.services, { onPlan, signal });
  }

  /** The Services touched since the last call, and those that an earlier sync took and did not process. */
  #take(): readonly ServiceKey[] {
    const { cache, flows, mode } = this.#parts;
    if (!cache.isSynced) throw new Error(`not synced yet: ${cache.waitingFor.join(', ')}`);
    // After the Node is deleted, its last zone stays in use (docs/semantics.md 9.2).
    this.#zone = cache.node?.zone ?? this.#zone;
    for (const key of cache.takeChanges()) this.#unrendered.add(key);
    const gone = cache.takeGone();
    if (gone.length > 0) {
      flows.end(gone);
      mode.end(gone);
    }
    return [...this.#unrendered];
  }

  /** Updates the desired state in portions, between which the event loop runs. It is complete before the first write (invariant 3). */
  async #desire(touched: readonly ServiceKey[]): Promise<void> {
    for (let i = 0; i === 0 || i < touched.length; i += SERVICES_AT_ONCE) {
      if (i > 0) await breath();
      this.#desirePortion(touched.slice(i, i + SERVICES_AT_ONCE));
    }
    if (touched.length > SERVICES_AT_ONCE) await breath();
    this.#parts.mode.settle();
    if (touched.length > SERVICES_AT_ONCE) await breath();
  }

  #desirePortion(portion: readonly ServiceKey[]): void {
    // A changed or deleted Service is no longer the refused one.
    for (const key of portion) this.#refused.services.delete(key);
    const faults = this.#updateModel(portion);
    for (const [key, found] of faults) for (const fault of this.faults.set(key, found)) this.#parts.onFault(fault);
    for (const receiver of this.#receivers) handOut(receiver);
    for (const key of portion) this.#unrendered.delete(key);
  }

  /** The changes wait for the receivers. */
  #updateModel(portion: readonly ServiceKey[]): ModelChanges['faults'] {
    const { cache, model, nodeName } = this.#parts;
    const location = { nodeName, zone: this.#zone, suspects: cache.own.suspects };
    const { ports, before, faults } = model.update(portion, cache, location);
    for (const { waiting } of this.#receivers) {
      // A ServicePort that waits already has its earlier value: the receiver saw no later one.
      for (const [key, port] of before) if (!waiting.ports.has(key)) waiting.before.set(key, port);
      for (const [key, port] of ports) waiting.ports.set(key, port);
    }
    return faults;
  }

  /** Reads the kernel if needed. Throws KernelNotRead. */
  async #observe(signal: AbortSignal): Promise<Observation> {
    const { mode, flows, clock } = this.#parts;
    if (!this.#mustObserve && mode.isObserved) return { drift: [], isBare: false, isAsLeft: false, reading: 0 };
    // Cleared before the reading: a `distrust` during it must not be lost.
    this.#mustObserve = false;
    const start = clock.now();
    const observed = await mode.observe(signal);
    if (observed.kind === 'unknown') {
      this.#mustObserve = true;
      throw new KernelNotRead(observed.cause);
    }
    for (const cause of observed.value.unread) this.#parts.onUnread(cause);
    flows.found(observed.value.udpFrontends);
    flows.distrust();
    const { drift, isBare, isAsLeft = false } = observed.value;
    return { drift, isBare, isAsLeft, reading: clock.now() - start };
  }
}

/** Changes of the model, with the values before. */
interface ModelDelta {
  readonly ports: Map<ServicePortKey, ServicePort | undefined>;
  readonly before: Map<ServicePortKey, ServicePort>;
}

interface Receiver {
  readonly receive: (changes: ModelDelta) => void;
  /** Changes that it has not received yet. */
  waiting: ModelDelta;
}

function handOut(receiver: Receiver): void {
  receiver.receive(receiver.waiting);
  receiver.waiting = noChanges();
}

function noChanges(): ModelDelta {
  return { ports: new Map(), before: new Map() };
}

/** The work so far. */
function workOf({ model, mode }: SyncParts): Work {
  return { services: model.visited, ...mode.work };
}

/** The time when a sync began, and the work until then. */
interface SyncStart {
  readonly start: number;
  readonly before: Work;
}

/** The rest of the first sync: the remaining Services, and the reading of the kernel in progress. */
interface Begun {
  readonly left: readonly ServiceKey[];
  readonly reading: Promise<Observation> | undefined;
}

/** The result of a reading. `reading`: its milliseconds, 0 if the kernel was not read. */
interface Observation {
  readonly drift: readonly Drift[];
  readonly isBare: boolean;
  readonly isAsLeft: boolean;
  readonly reading: number;
}

/** The kernel could not be read; nothing was written (invariant 2). */
export class KernelNotRead extends Error {
  readonly code = 'KERNEL_NOT_READ';
}

/** The Services that the kernel refused. All of them are tried again after a while, because the kernel may have changed. */
class RefusedServices {
  readonly services: RefusedOwners = new Map();
  readonly #period: number;
  /** Time of the first refusal, on the monotonic clock. */
  #since: number | undefined;

  /** `period`: milliseconds until the Services are tried again. */
  constructor(period: number) {
    this.#period = period;
  }

  /** Called at the start of a sync: forgets the Services when the period is over. */
  retry(now: number): void {
    if (this.#since === undefined || now - this.#since < this.#period) return;
    this.services.clear();
    this.#since = undefined;
  }

  /** Called after a sync that began at this time has written. */
  written(startedAt: number): void {
    if (this.services.size > 0) this.#since ??= startedAt;
  }
}
