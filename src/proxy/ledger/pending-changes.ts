/** The changes that are not in the kernel yet, one by one: for their latency, and for the number of the oldest one. Pure. */
import type { ServiceKey } from '../model/objects.ts';

/** Most changes that are kept while writes fail. Their memory is counted. */
const MAX_CHANGES_KEPT = 5000;
/** Bytes of one: an object with four fields, and its place in the list; the text of its Service is shared. */
const BYTES = 72;

/** Bytes that the list holds at most. */
export const MAX_PENDING_BYTES = MAX_CHANGES_KEPT * BYTES;

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
  /** Milliseconds since 1970 of the change behind a slice, from its annotation; 0 where there is none, and from before the agent's start. */
  readonly triggeredAt: number;
  /** "" for the Node. */
  readonly service: ServiceKey | '';
}

export class PendingChanges {
  #changes: PendingChange[] = [];
  /** The number of the oldest change that was dropped from the list and is not written; undefined: there is none. */
  #dropped: number | undefined;

  /** Bytes that are held. */
  get bytes(): number {
    return this.#changes.length * BYTES;
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

  /** Whether a change of the Service is kept. */
  has(service: ServiceKey): boolean {
    return this.#changes.some((change) => change.service === service);
  }

  /** The Services of the changes that were received until then; of all by default. */
  services(until = Number.POSITIVE_INFINITY): ReadonlySet<ServiceKey> {
    const services = new Set<ServiceKey>();
    for (const { receivedAt, service } of this.#changes)
      if (receivedAt <= until && service !== '') services.add(service);
    return services;
  }

  /** The Services of the changes after the first number and up to the second, each once. */
  servicesBetween(after: number, upTo: number, most: number): ServiceKey[] {
    const services = new Set<ServiceKey>();
    for (const { number, service } of this.#changes) {
      if (number > after && number <= upTo && service !== '') services.add(service);
      if (services.size === most) break;
    }
    return [...services];
  }

  /** Takes out the changes up to a number, except for those of some Services, in their order. */
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
