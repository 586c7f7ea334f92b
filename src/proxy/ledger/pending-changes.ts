/** The changes that are not in the kernel yet, one by one: for their latency, and for the number of the oldest one. Pure. */
import type { ServiceKey } from '../model/objects.ts';

/** Changes that are kept while writes fail. The oldest half is dropped when there are more. */
const MAX_CHANGES_KEPT = 5000;
/** Bytes of one change: an object with four fields, and its place in the list. The text of its Service is shared. */
const BYTES_A_CHANGE = 72;

/** The memory limit of the list. */
export const MAX_PENDING_BYTES = MAX_CHANGES_KEPT * BYTES_A_CHANGE;

/** Numbers changes one after another, from 1 on, over all sources of a process. */
export class ChangeNumbers {
  #last = 0;

  /** The number of the latest change; 0 before the first. */
  get last(): number {
    return this.#last;
  }

  next(): number {
    this.#last += 1;
    return this.#last;
  }
}

export interface PendingChange {
  readonly number: number;
  /** On the clock that never goes backwards. */
  readonly receivedAt: number;
  /** Milliseconds since 1970 of the change that a slice was written for, from its annotation; 0 without one, before the agent's start, and once it was taken. */
  triggeredAt: number;
  /** "" for the Node. */
  readonly service: ServiceKey | '';
}

export class PendingChanges {
  #changes: PendingChange[] = [];
  /** The number of the oldest change that was dropped from the list and is not written; undefined when there is none. */
  #dropped: number | undefined;

  /** Bytes that are held. */
  get bytes(): number {
    return this.#changes.length * BYTES_A_CHANGE;
  }

  add(change: PendingChange): void {
    this.#changes.push(change);
    if (this.#changes.length <= MAX_CHANGES_KEPT) return;
    const [oldest] = this.#changes.splice(0, MAX_CHANGES_KEPT / 2);
    this.#dropped ??= oldest?.number;
  }

  /** The number of the oldest change that is not written; `next` when all are. */
  oldest(next: number): number {
    return this.#dropped ?? this.#changes[0]?.number ?? next;
  }

  /** Whether the Service has a change that is not in the kernel, among those that are kept. */
  has(service: ServiceKey): boolean {
    return this.#changes.some((change) => change.service === service);
  }

  /** The Services of the changes that were received until a time; of all changes by default. */
  services(until = Number.POSITIVE_INFINITY): ReadonlySet<ServiceKey> {
    const services = new Set<ServiceKey>();
    for (const { receivedAt, service } of this.#changes)
      if (receivedAt <= until && service !== '') services.add(service);
    return services;
  }

  /** The Services of the changes after one number and up to another, each once, up to a limit. */
  servicesBetween(after: number, upTo: number, limit: number): ServiceKey[] {
    const services = new Set<ServiceKey>();
    for (const { number, service } of this.#changes) {
      if (number > after && number <= upTo && service !== '') services.add(service);
      if (services.size === limit) break;
    }
    return [...services];
  }

  /** The times in `triggeredAt` of the changes up to a number, each once. */
  takeTriggers(upTo: number): number[] {
    const triggers: number[] = [];
    for (const change of this.#changes) {
      if (change.number > upTo) break;
      if (change.triggeredAt > 0) triggers.push(change.triggeredAt);
      change.triggeredAt = 0;
    }
    return triggers;
  }

  /** Removes the changes up to a number, except for those of some Services, and returns them in their order. */
  written(upTo: number, without: ReadonlyMap<ServiceKey, unknown>): PendingChange[] {
    const written: PendingChange[] = [];
    const left: PendingChange[] = [];
    for (const change of this.#changes) {
      const { number, service } = change;
      if (number <= upTo && !without.has(service)) written.push(change);
      else left.push(change);
    }
    this.#changes = left;
    if (without.size === 0) this.#dropped = undefined;
    return written;
  }
}
