/** Queues Services whose slices another program changed; the controller's own writes are skipped. */
import type { ObjectKey, SliceObject } from '../cluster/producers/objects.ts';
import type { Expectations } from './expectations.ts';
import type { WorkQueue } from './queue.ts';
import { counts, serviceOf } from './slice-shelf.ts';

export interface SliceEventsOptions {
  /** Whose slices count. */
  readonly manager: string;
  readonly queue: WorkQueue;
  readonly expectations: Expectations;
  readonly isStale: (service: ObjectKey) => boolean;
  /** Milliseconds. */
  readonly batchPeriod: number;
}

/** Milliseconds that a foreign change of a slice waits for further changes, at least (kube-controller-manager). */
const LEAST_WAIT = 1000;

export class SliceEvents {
  readonly #options: SliceEventsOptions;

  constructor(options: SliceEventsOptions) {
    this.#options = options;
  }

  /** A slice changed in the cache; undefined: it was not there before, or is gone. */
  on(before: SliceObject | undefined, after: SliceObject | undefined): void {
    const { manager, expectations, queue, isStale } = this.#options;
    const [was, is] = [before, after].map((slice) => (slice && counts(slice, manager) ? slice : undefined));
    const [from, to] = [was && serviceOf(was), is && serviceOf(is)];
    // After a gap in the watch another slice may have the same name.
    const isAnother = was?.metadata.uid !== is?.metadata.uid;
    if (was && from !== undefined && (from !== to || isAnother)) {
      const isNews = expectations.seenGone(from, was);
      // Another program deleted the slice, moved it to another Service, or took it from this controller.
      if (isNews || after !== undefined) this.queue(from);
    }
    if (is && to !== undefined) {
      const wasElsewhere = before !== undefined && from !== to;
      if (expectations.seen(to, is) || wasElsewhere) this.queue(to);
    }
    // A Service that waited for the cache need not wait for its retry.
    const service = to ?? from;
    if (service !== undefined && queue.failures.of(service) > 0 && !isStale(service)) queue.add(service);
  }

  /** Another program changed slices of a Service. */
  queue(service: ObjectKey): void {
    this.#options.queue.addAfter(service, Math.max(LEAST_WAIT, this.#options.batchPeriod));
  }
}
