/** The slices of one manager, which a controller reads from the cache, with the writes that the cache does not show yet, and writes. */
import type { ObjectKey, SliceObject } from '../cluster/producers/api-objects.ts';
import { counts, serviceOf } from './cluster-cache.ts';
import type { ControllerContext } from './controller-context.ts';
import { Expectations } from './expectations.ts';
import { type SliceWrite, SliceWriter } from './object-writer.ts';
import { StaleCache, type WorkQueue } from './queue.ts';

export interface ManagedSlicesOptions {
  readonly context: ControllerContext;
  /** The value of the label managed-by. */
  readonly manager: string;
  readonly of: 'slices' | 'mirror';
  readonly queue: WorkQueue;
  /** Milliseconds. */
  readonly batchPeriod: number;
}

export class ManagedSlices {
  readonly #options: ManagedSlicesOptions;
  readonly #expectations = new Expectations();
  readonly #writer: SliceWriter;
  readonly #events: SliceEvents;

  constructor(options: ManagedSlicesOptions) {
    const { context, manager, of, queue, batchPeriod } = options;
    const { cache, client, metrics } = context;
    this.#options = options;
    this.#writer = new SliceWriter({
      client,
      expectations: this.#expectations,
      shown: () => cache.version('endpointslices'),
      isTaken: (key) => cache.slices.has(key),
      onWrite: (operation) => metrics.sliceChanged(of, operation),
    });
    const isStale = (service: ObjectKey) => this.#isStale(service, this.of(service));
    this.#events = new SliceEvents({ manager, queue, expectations: this.#expectations, isStale, batchPeriod });
    cache.listen({
      onSlice: (before, after) => this.#events.on(before, after),
      onRestored: () => this.#expectations.clear(),
    });
  }

  /** The Services that this manager's slices name. */
  get services(): ObjectKey[] {
    return this.#options.context.cache.slices.services(this.#options.manager);
  }

  /** The slices of a Service in the cache. */
  of(service: ObjectKey): SliceObject[] {
    return this.#options.context.cache.slices.of(service, this.#options.manager);
  }

  /** The same; throws StaleCache while the cache lacks writes. */
  fresh(service: ObjectKey): SliceObject[] {
    const slices = this.of(service);
    if (this.#isStale(service, slices)) throw new StaleCache('the cache of EndpointSlices is out of date');
    return slices;
  }

  /** Throws ApiError. */
  async write(write: SliceWrite): Promise<void> {
    const { create, update, remove } = write.changes;
    if (create.length + update.length + remove.length === 0) return;
    this.#expectations.begin(write.service);
    try {
      await this.#writer.write(write);
    } finally {
      if (this.#expectations.end(write.service)) this.#events.queue(write.service);
    }
  }

  forget(service: ObjectKey): void {
    this.#expectations.forget(service);
  }

  /** Forgets all expectations: another replica may write from now on. */
  clear(): void {
    this.#expectations.clear();
    this.#options.context.metrics.stopped(this.#options.of);
  }

  #isStale(service: ObjectKey, slices: readonly SliceObject[]): boolean {
    return this.#expectations.isStale(service, slices, this.#options.context.cache.version('endpointslices'));
  }
}

interface SliceEventsOptions {
  /** Only this manager's slices count. */
  readonly manager: string;
  readonly queue: WorkQueue;
  readonly expectations: Expectations;
  readonly isStale: (service: ObjectKey) => boolean;
  /** Milliseconds. */
  readonly batchPeriod: number;
}

/** Milliseconds for which another program's change of a slice waits for further changes, at least (kube-controller-manager). */
const MIN_WAIT_MS = 1000;

/** Queues Services whose slices another program changed, and skips the controller's own writes. */
export class SliceEvents {
  readonly #options: SliceEventsOptions;

  constructor(options: SliceEventsOptions) {
    this.#options = options;
  }

  /** A slice changed in the cache. It is undefined where it did not exist before, or is gone. */
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
    if (service !== undefined && queue.failures.has(service) && !isStale(service)) queue.add(service);
  }

  /** Another program changed slices of a Service. */
  queue(service: ObjectKey): void {
    this.#options.queue.addAfter(service, Math.max(MIN_WAIT_MS, this.#options.batchPeriod));
  }
}
