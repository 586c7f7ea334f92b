/** One sync: take the changes, update the model, let the mode plan and apply, and report (design 2). The only place where the stages meet while running. */
import type { Cache } from '../cache/cache.ts';
import type { Clock } from '../host/clock.ts';
import { sameData } from '../model/equal.ts';
import type { Fault } from '../model/objects.ts';
import type { ProxyModel } from '../model/proxy-model.ts';
import type { Mode } from '../modes/mode.ts';
import { mergeReports, type Plan } from '../reconcile/step.ts';
import { applyIsolating } from './isolate.ts';
import type { SyncReport } from './status.ts';

export interface SyncParts {
  readonly cache: Cache;
  readonly model: ProxyModel;
  readonly mode: Mode;
  readonly clock: Clock;
  readonly nodeName: string;
  /** A fault that the model found (two Services want one address), when it is new. */
  readonly onFault: (fault: Fault) => void;
}

export class SyncLoop {
  readonly #parts: SyncParts;
  readonly #faults = new Map<string, readonly Fault[]>();
  #mustObserve = true;

  constructor(parts: SyncParts) {
    this.#parts = parts;
  }

  /** Faults between objects, beside those within one object that the cache knows. */
  get faults(): Fault[] {
    return [...this.#faults.values()].flat();
  }

  /** Read the kernel at the next sync, whatever is believed. */
  distrust(): void {
    this.#mustObserve = true;
  }

  /** Bring the desired state up to date, read the kernel where that is needed, and say what would be written. */
  async plan(signal: AbortSignal): Promise<{ plan: Plan; drift: readonly string[] }> {
    this.#desire();
    const drift = await this.#observe(signal);
    return { plan: this.#parts.mode.plan(), drift };
  }

  /** One sync. Nothing is written before every source is synced (invariant 1). Rejects only when aborted. */
  async sync(signal: AbortSignal): Promise<SyncReport> {
    const { mode, clock } = this.#parts;
    const start = clock.now();
    this.#desire();
    let drift: readonly string[] = [];
    try {
      drift = await this.#observe(signal);
    } catch (error) {
      if (signal.aborted || !(error instanceof KernelNotRead)) throw error;
      const step = { key: 'read the kernel', owner: undefined, line: undefined, blame: 'environment' } as const;
      const failed = mergeReports([
        { outcome: 'failed', applied: 0, failed: [{ ...step, cause: error.message }], skipped: [] },
      ]);
      return { ...failed, duration: clock.now() - start, planned: 0, drift };
    }
    const planned = mode.plan().steps.length;
    const report = await applyIsolating(mode, signal);
    return { ...report, duration: clock.now() - start, planned, drift };
  }

  #desire(): void {
    const { cache, model, mode, nodeName } = this.#parts;
    if (!cache.isSynced) throw new Error(`not synced yet: ${cache.waitingFor.join(', ')}`);
    const { services } = cache.takeChanges();
    const location = { nodeName, zone: cache.node?.zone ?? '' };
    const { ports, faults } = model.update(services, cache, location);
    mode.desire(ports);
    for (const [key, found] of faults) this.#setFaults(key, found);
  }

  async #observe(signal: AbortSignal): Promise<readonly string[]> {
    const { mode } = this.#parts;
    if (!this.#mustObserve && mode.isObserved) return [];
    const seen = await mode.observe(signal);
    if (seen.kind === 'unknown') throw new KernelNotRead(seen.cause);
    this.#mustObserve = false;
    return seen.value.drift;
  }

  #setFaults(key: string, found: readonly Fault[]): void {
    const before = this.#faults.get(key) ?? [];
    if (found.length > 0) this.#faults.set(key, found);
    else this.#faults.delete(key);
    for (const fault of found) if (!before.some((old) => sameData(old, fault))) this.#parts.onFault(fault);
  }
}

/** The kernel's state could not be read; nothing was written (invariant 2). */
export class KernelNotRead extends Error {
  readonly code = 'KERNEL_NOT_READ';
}
