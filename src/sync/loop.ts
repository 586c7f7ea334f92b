/** One sync: take the changes, update the model, let the mode plan and apply, and report (design 2). The only place where the stages meet while running. */
import { setImmediate as breath } from 'node:timers/promises';
import type { Cache } from '../cache/cache.ts';
import type { Clock } from '../host/clock.ts';
import { FaultBook } from '../model/fault-book.ts';
import type { Fault } from '../model/objects.ts';
import type { ProxyModel } from '../model/proxy-model.ts';
import type { ServicePort, ServicePortKey } from '../model/service-port.ts';
import type { UdpFlows } from '../model/udp-flows.ts';
import type { Mode } from '../modes/mode.ts';
import type { Plan } from '../reconcile/step.ts';
import { applyIsolating, type Refused, unreadReport } from './isolate.ts';
import type { SyncReport } from './status.ts';

/** Services whose desired state is made between two breaths of the event loop. */
const PORTION = 250;

export interface SyncParts {
  readonly cache: Cache;
  readonly model: ProxyModel;
  /** Told of what changed in the model and of what was found in the kernel. */
  readonly flows: UdpFlows;
  readonly mode: Mode;
  readonly clock: Clock;
  readonly nodeName: string;
  /** Milliseconds after which a Service that was refused is tried again. */
  readonly retry: number;
  /** A fault that the model found (two Services want one address), when it is new. */
  readonly onFault: (fault: Fault) => void;
  /** ServicePorts that changed; undefined for one that is gone. */
  readonly onPorts?: (ports: ReadonlyMap<ServicePortKey, ServicePort | undefined>) => void;
  /** Part of the kernel could not be read; the rest was. */
  readonly onUnread: (cause: string) => void;
}

export class SyncLoop {
  /** Faults between objects, beside those within one object that the cache knows. */
  readonly faults = new FaultBook();
  readonly #parts: SyncParts;
  readonly #refused: Refused = new Map();
  #refusedAt: number | undefined;
  #zone = '';
  #mustObserve = true;
  readonly #triggers: number[] = [];
  /** Wall time. */
  readonly #begun: number;

  constructor(parts: SyncParts) {
    this.#parts = parts;
    this.#begun = parts.clock.wall();
  }

  /** Read the kernel at the next sync, whatever is believed. */
  distrust(): void {
    this.#mustObserve = true;
  }

  /** Bring the desired state up to date, read the kernel where that is needed, and say what would be written. */
  async plan(signal: AbortSignal): Promise<{ plan: Plan; drift: readonly string[] }> {
    await this.#desire();
    const drift = await this.#observe(signal);
    if (!this.#parts.mode.isObserved) throw new KernelNotRead('not all of the kernel could be read; see the log');
    return { plan: this.#parts.mode.plan(), drift };
  }

  /** One sync. Throws when a source is not synced yet (invariant 1), and when aborted. */
  async sync(signal: AbortSignal): Promise<SyncReport> {
    const { mode, clock } = this.#parts;
    const start = clock.now();
    await this.#desire();
    let drift: readonly string[] = [];
    const read = clock.now();
    const mustRead = this.#mustObserve || !mode.isObserved;
    try {
      drift = await this.#observe(signal);
    } catch (error) {
      if (signal.aborted || !(error instanceof KernelNotRead)) throw error;
      const now = clock.now();
      const nothing = { drift, writing: 0, triggers: [] };
      return { ...unreadReport(error.message), ...nothing, duration: now - start, reading: now - read };
    }
    const reading = mustRead ? clock.now() - read : 0;
    this.#pardon(start);
    try {
      await mode.refresh(signal);
    } catch (error) {
      if (signal.aborted) throw error;
      // What is not known now stays as it is (invariant 2).
      this.#parts.onUnread((error as Error).message);
    }
    const write = clock.now();
    const report = await applyIsolating(mode, this.#refused, signal);
    const writing = clock.now() - write;
    const { flows } = this.#parts;
    // A refusal tells who was not written; a failure of the environment (a lock, a family) does not.
    if (report.failed.every((step) => step.blame === 'content')) flows.written(this.#refused);
    else if (report.outcome !== 'failed') flows.writtenInPart();
    if (this.#refused.size > 0) this.#refusedAt ??= start;
    // Those of a sync that failed are in the kernel with the next that does not.
    const triggers = report.outcome === 'failed' ? [] : this.#triggers.splice(0);
    return { ...report, duration: clock.now() - start, drift, reading, writing, triggers };
  }

  /** Those who were refused are tried again when the retry is due. */
  #pardon(now: number): void {
    if (this.#refusedAt === undefined || now - this.#refusedAt < this.#parts.retry) return;
    this.#refused.clear();
    this.#refusedAt = undefined;
  }

  /** Bring the desired state up to date, in portions with a breath between: all of it before the first write (invariant 3). */
  async #desire(): Promise<void> {
    const { cache, model, mode, flows, nodeName, onFault, onPorts } = this.#parts;
    if (!cache.isSynced) throw new Error(`not synced yet: ${cache.waitingFor.join(', ')}`);
    const { services, triggers } = cache.takeChanges();
    // What happened before this agent began is not its own slowness.
    for (const at of triggers) if (at >= this.#begun) this.#triggers.push(at);
    // A Node that is deleted keeps its zone for us (reference 1.8).
    this.#zone = cache.node?.zone ?? this.#zone;
    const location = { nodeName, zone: this.#zone };
    const touched = [...services];
    for (let i = 0; i === 0 || i < touched.length; i += PORTION) {
      if (i > 0) await breath();
      const portion = touched.slice(i, i + PORTION);
      // What changed, or is gone, is no longer what was refused.
      for (const key of portion) this.#refused.delete(key);
      const { ports, faults } = model.update(portion, cache, location);
      mode.desire(ports);
      flows.update(ports);
      onPorts?.(ports);
      for (const [key, found] of faults) for (const fault of this.faults.set(key, found)) onFault(fault);
    }
  }

  async #observe(signal: AbortSignal): Promise<readonly string[]> {
    const { mode, flows } = this.#parts;
    if (!this.#mustObserve && mode.isObserved) return [];
    // Cleared before the read: who loses trust while it goes on is heard.
    this.#mustObserve = false;
    const seen = await mode.observe(signal);
    if (seen.kind === 'known') {
      for (const cause of seen.value.unread) this.#parts.onUnread(cause);
      flows.found(seen.value.udpFrontends);
      flows.distrust();
      return seen.value.drift;
    }
    this.#mustObserve = true;
    throw new KernelNotRead(seen.cause);
  }
}

/** The kernel's state could not be read; nothing was written (invariant 2). */
export class KernelNotRead extends Error {
  readonly code = 'KERNEL_NOT_READ';
}
