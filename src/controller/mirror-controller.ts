/** Mirrors hand-written Endpoints into slices (kube-controller-manager's endpointslice-mirroring-controller). */

import type { ObjectKey } from '../cluster/producers/api-objects.ts';
import { isMirrored, reconcileMirror } from '../cluster/producers/mirror.ts';
import { MIRROR_MANAGER } from '../proxy/model/labels.ts';
import { type ControllerContext, runQueue } from './controller-context.ts';
import { ManagedSlices } from './managed-slices.ts';
import { mustBeGone } from './object-writer.ts';
import { WorkQueue } from './queue.ts';

export interface MirrorSettings {
  readonly workers: number;
  readonly mostPerSubset: number;
  /** Milliseconds. */
  readonly batchPeriod: number;
}

export class MirrorController {
  readonly queue: WorkQueue;
  readonly #context: ControllerContext;
  readonly #settings: MirrorSettings;
  readonly #slices: ManagedSlices;

  constructor(context: ControllerContext, settings: MirrorSettings) {
    const { cache, clock } = context;
    const { batchPeriod } = settings;
    this.#context = context;
    this.#settings = settings;
    this.queue = new WorkQueue(clock, { isOpen: false });
    this.#slices = new ManagedSlices({
      context,
      manager: MIRROR_MANAGER,
      of: 'mirror',
      queue: this.queue,
      batchPeriod,
    });
    cache.listen({
      onService: (key, before, after) => {
        if (before?.takesEndpoints !== after?.takesEndpoints) this.queue.add(key);
      },
      onEndpoints: (key, before, after) => {
        const service = cache.members.service(key);
        // Endpoints of Services with a selector change often and are never mirrored.
        if (service?.takesEndpoints !== false || this.#slices.of(key).length > 0) {
          if (before !== undefined || after !== undefined) this.queue.addAfter(key, batchPeriod);
        }
      },
    });
  }

  /** Works until the signal aborts, first on all Endpoints, and on all Services that mirrored slices name. */
  run(signal: AbortSignal): Promise<void> {
    const { queue } = this;
    const { workers } = this.#settings;
    const keys = [...this.#context.cache.endpoints.keys(), ...this.#slices.services];
    const sync = (key: ObjectKey, until: AbortSignal) => this.#sync(key, until);
    const onEnd = () => this.#slices.clear();
    return runQueue(this.#context, { name: 'mirror', keys, queue, workers, sync, onEnd }, signal);
  }

  /** Asks the API server whether the object that the cache lacks is gone there, too. */
  async #checkGone(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { cache, client } = this.#context;
    if (cache.endpoints.get(key) === undefined) await mustBeGone(client, 'endpoints', key, signal);
    else if (cache.members.service(key) === undefined) await mustBeGone(client, 'services', key, signal);
  }

  async #sync(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { cache, metrics, events, clock } = this.#context;
    const since = clock.now();
    const endpoints = cache.endpoints.get(key);
    const service = cache.members.service(key);
    const mirrors = isMirrored({ endpoints, service });
    const existing = mirrors ? this.#slices.fresh(key) : this.#slices.of(key);
    if (!mirrors && existing.length > 0) await this.#checkGone(key, signal);
    const { mostPerSubset } = this.#settings;
    const { changes, notices, counts } = reconcileMirror({ endpoints, service, existing, mostPerSubset });
    await this.#slices.write({ service: key, changes, triggeredAt: undefined, signal });
    if (mirrors) metrics.mirrored(key, counts, clock.now() - since);
    else {
      metrics.forgetMirror(key);
      this.#slices.forget(key);
    }
    for (const notice of notices) events.endpoints(key, endpoints?.metadata.uid, notice);
  }
}
