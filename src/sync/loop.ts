/**
 * One sync: take the changes, update the model, let the mode plan and apply, and report (docs/architecture.md). The only place
 * where the stages meet while running.
 */
import type { Cache } from '../cache/cache.ts';
import { breath, type Clock } from '../host/clock.ts';
import { causeOf } from '../model/cause.ts';
import { FaultBook } from '../model/fault-book.ts';
import type { Flows } from '../model/flows.ts';
import { isNeededFirst } from '../model/needed-first.ts';
import type { Fault, ServiceKey } from '../model/objects.ts';
import type { ProxyModel } from '../model/proxy-model.ts';
import type { ServicePort, ServicePortKey } from '../model/service-port.ts';
import type { Mode } from '../modes/mode.ts';
import type { Plan } from '../reconcile/step.ts';
import { type Work, workBetween } from '../reconcile/work.ts';
import { applyIsolating, type OnPlan, thrownReport, unreadReport } from './isolate.ts';
import { RefusedServices } from './refused.ts';
import type { SyncReport } from './status.ts';
import { Triggers } from './triggers.ts';

/** Services whose desired state is made between two breaths of the event loop. */
const PORTION = 50;

const noop = () => undefined;

export interface SyncParts {
  readonly cache: Cache;
  readonly model: ProxyModel;
  /** Told of what changed in the model and of what was found in the kernel. */
  readonly flows: Flows;
  readonly mode: Mode;
  readonly clock: Clock;
  readonly nodeName: string;
  /** Milliseconds after which a Service that was refused is tried again. */
  readonly retry: number;
  /** A fault that the model found (two Services want one address), when it is new. */
  readonly onFault: (fault: Fault) => void;
  /** ServicePorts that changed; undefined for one that is gone. */
  readonly onPorts?: (ports: ReadonlyMap<ServicePortKey, ServicePort | undefined>) => void;
  /** Called with each plan before it is applied. */
  readonly onPlan?: OnPlan;
  /** These Services were written before all others. */
  readonly onFirst?: (services: readonly ServiceKey[]) => void;
  /** Part of the kernel could not be read; the rest was. */
  readonly onUnread: (cause: string) => void;
  /** Something was thrown that nobody expected; the sync failed of it, and its report says so. */
  readonly onThrown?: (error: unknown) => void;
}

export class SyncLoop {
  /** Faults between objects, beside those within one object that the cache knows. */
  readonly faults = new FaultBook();
  readonly #parts: SyncParts;
  readonly #refused: RefusedServices;
  #zone = '';
  #mustObserve = true;
  #hasBegun = false;
  readonly #triggers: Triggers;
  /** Services that were touched, and whose desired state was not made yet. */
  readonly #owed = new Set<ServiceKey>();
  #unreported = noChanges();

  constructor(parts: SyncParts) {
    this.#parts = parts;
    this.#refused = new RefusedServices(parts.retry);
    this.#triggers = new Triggers(parts.clock.wall());
  }

  /** Read the kernel at the next sync, whatever is believed. */
  distrust(): void {
    this.#mustObserve = true;
  }

  /** Bring the desired state up to date, read the kernel where that is needed, and say what would be written. */
  async plan(signal: AbortSignal): Promise<{ plan: Plan; drift: readonly string[] }> {
    await this.#desire(this.#take());
    const { drift } = await this.#observe(signal);
    if (!this.#parts.mode.isObserved) throw new KernelNotRead('not all of the kernel could be read; see the log');
    return { plan: this.#parts.mode.plan(), drift };
  }

  /**
   * One sync. Throws when a source is not synced yet (invariant 1), and when aborted. Whatever else is thrown, by the kernel,
   * a tool or a mistake, is a report of a sync that failed: what is believed is not trusted any more, and what was touched is not lost.
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
      const nothing = { drift: [], writing: 0, triggers: [], work: workBetween(before, workOf(this.#parts)) };
      const report = isUnread ? unreadReport(error.message) : thrownReport(error);
      return { ...report, ...nothing, duration, reading: isUnread ? duration : 0 };
    }
  }

  async #syncTaken(
    touched: readonly ServiceKey[],
    { start, before }: Beginning,
    signal: AbortSignal,
  ): Promise<SyncReport> {
    const { mode, clock, onPlan = noop } = this.#parts;
    const begun = this.#hasBegun ? undefined : await this.#begin(touched, signal);
    await this.#desire(begun?.left ?? touched);
    const { drift, reading } = (await begun?.reading) ?? (await this.#observe(signal));
    this.#refused.retry(start);
    try {
      await mode.refresh(signal);
    } catch (error) {
      if (signal.aborted) throw error;
      // What is not known now stays as it is (invariant 2).
      this.#parts.onUnread(causeOf(error));
    }
    const write = clock.now();
    const report = await applyIsolating(mode, this.#refused.services, { onPlan, signal });
    const writing = clock.now() - write;
    const { flows } = this.#parts;
    // A refusal tells who was not written; a failure of the environment (a lock, a family) does not.
    if (report.failed.every((step) => step.blame === 'content')) flows.written(this.#refused.services);
    else if (report.outcome !== 'failed') flows.writtenInPart();
    this.#refused.written(start);
    // Those of a sync that failed are in the kernel with the next that does not.
    const triggers = report.outcome === 'failed' ? [] : this.#triggers.take();
    const work = workBetween(before, workOf(this.#parts));
    return { ...report, duration: clock.now() - start, drift, reading, writing, triggers, work };
  }

  /**
   * The first time: where nothing stands yet, DNS and the API server's own Service are written before all others, for pods
   * cannot start without them. Where something stands, that is not waited for.
   */
  async #begin(touched: readonly ServiceKey[], signal: AbortSignal): Promise<Begun> {
    const { cache, mode, onFirst, onPlan = noop } = this.#parts;
    const standing = mode.probe.stands(signal).catch(() => false);
    // What is read goes on to count only where it does not depend on what is desired.
    const isEarly = mode.readsApart || !(await standing);
    const reading = isEarly ? this.#observe(signal) : undefined;
    // That it could not be read is told when what was touched is taken in, which must not be lost.
    const known = reading?.catch(() => undefined);
    // Nor is the look waited for, which a lock may hold up.
    const seen = await Promise.race([known, standing.then((stands) => (stands ? undefined : known))]);
    signal.throwIfAborted();
    this.#hasBegun = true;
    if (!mode.readsApart) this.#mustObserve = true;
    const begun = { left: touched, reading: mode.readsApart ? reading : undefined };
    const first = touched.filter((key) => isNeededFirst(cache.service(key))).slice(0, PORTION);
    if (seen?.isBare !== true || first.length === 0 || first.length === touched.length) return begun;
    this.#desirePortion(first);
    const { outcome } = await applyIsolating(mode, this.#refused.services, { onPlan, signal });
    if (outcome === 'complete') onFirst?.(first);
    const isFirst = new Set(first);
    return { ...begun, left: touched.filter((key) => !isFirst.has(key)) };
  }

  /** The Services touched since the last time, and those that a sync took in before and did not come to. */
  #take(): readonly ServiceKey[] {
    const { cache } = this.#parts;
    if (!cache.isSynced) throw new Error(`not synced yet: ${cache.waitingFor.join(', ')}`);
    const { services, triggers } = cache.takeChanges();
    this.#triggers.add(triggers);
    // A Node that is deleted keeps its zone for us (docs/semantics.md 9.2).
    this.#zone = cache.node?.zone ?? this.#zone;
    for (const key of services) this.#owed.add(key);
    return [...this.#owed];
  }

  /** Bring the desired state up to date, in portions with a breath between: all of it before the first write (invariant 3). */
  async #desire(touched: readonly ServiceKey[]): Promise<void> {
    for (let i = 0; i === 0 || i < touched.length; i += PORTION) {
      if (i > 0) await breath();
      this.#desirePortion(touched.slice(i, i + PORTION));
    }
    if (touched.length > PORTION) await breath();
    this.#parts.mode.settle();
    if (touched.length > PORTION) await breath();
  }

  #desirePortion(portion: readonly ServiceKey[]): void {
    const { cache, model, mode, flows, nodeName, onFault, onPorts } = this.#parts;
    // What changed, or is gone, is no longer what was refused.
    for (const key of portion) this.#refused.services.delete(key);
    const { ports, before, faults } = model.update(portion, cache, { nodeName, zone: this.#zone });
    const changes = this.#unreported;
    for (const [key, port] of ports) changes.ports.set(key, port);
    for (const [key, port] of before) if (!changes.before.has(key)) changes.before.set(key, port);
    for (const [key, found] of faults) for (const fault of this.faults.set(key, found)) onFault(fault);
    mode.desire(changes.ports);
    flows.update(changes.ports, changes.before);
    onPorts?.(changes.ports);
    this.#unreported = noChanges();
    for (const key of portion) this.#owed.delete(key);
  }

  /** Read the kernel, where that is needed. Throws KernelNotRead. */
  async #observe(signal: AbortSignal): Promise<Seen> {
    const { mode, flows, clock } = this.#parts;
    if (!this.#mustObserve && mode.isObserved) return { drift: [], isBare: false, reading: 0 };
    // Cleared before the read: who loses trust while it goes on is heard.
    this.#mustObserve = false;
    const start = clock.now();
    const seen = await mode.observe(signal);
    if (seen.kind === 'unknown') {
      this.#mustObserve = true;
      throw new KernelNotRead(seen.cause);
    }
    for (const cause of seen.value.unread) this.#parts.onUnread(cause);
    flows.found(seen.value.udpFrontends);
    flows.distrust();
    return { drift: seen.value.drift, isBare: seen.value.isBare, reading: clock.now() - start };
  }
}

/** What changed in the model and was not reported to all yet, and what was there before. */
interface Changes {
  readonly ports: Map<ServicePortKey, ServicePort | undefined>;
  readonly before: Map<ServicePortKey, ServicePort>;
}

function noChanges(): Changes {
  return { ports: new Map(), before: new Map() };
}

/** All that was done so far. */
function workOf({ model, mode }: SyncParts): Work {
  return { services: model.visited, ...mode.work };
}

/** When a sync began, and the work that was done by then. */
interface Beginning {
  readonly start: number;
  readonly before: Work;
}

/** What the first sync goes on with: the Services that are still to come, and the reading of the kernel that goes on. */
interface Begun {
  readonly left: readonly ServiceKey[];
  readonly reading: Promise<Seen> | undefined;
}

/** What a look at the kernel found; `reading`: the milliseconds that it took, 0 when what is believed was not questioned. */
interface Seen {
  readonly drift: readonly string[];
  readonly isBare: boolean;
  readonly reading: number;
}

/** The kernel's state could not be read; nothing was written (invariant 2). */
export class KernelNotRead extends Error {
  readonly code = 'KERNEL_NOT_READ';
}
