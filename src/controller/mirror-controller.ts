/** Mirrors Endpoints that a person wrote into slices (kube-controller-manager's endpointslice-mirroring-controller). */
import { isMirrored, reconcileMirror } from '../producers/mirror.ts';
import { MIRROR_MANAGER, type ObjectKey, type SliceObject } from '../producers/objects.ts';
import type { ControllerContext } from './context.ts';
import { Expectations } from './expectations.ts';
import { WorkQueue } from './queue.ts';
import { SliceEvents } from './slice-events.ts';
import { StaleCache, workOff } from './workers.ts';
import { mustBeGone, SliceWriter } from './writer.ts';

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
  readonly #expectations = new Expectations();
  readonly #writer: SliceWriter;

  constructor(context: ControllerContext, settings: MirrorSettings) {
    const { world, client, clock, metrics } = context;
    this.#context = context;
    this.#settings = settings;
    this.queue = new WorkQueue(clock, { isOpen: false });
    this.#writer = new SliceWriter({
      client,
      expectations: this.#expectations,
      isTaken: (key) => world.slices.has(key),
      onWrite: (operation) => metrics.sliceChanged('mirror', operation),
    });
    const slices = new SliceEvents({
      manager: MIRROR_MANAGER,
      queue: this.queue,
      expectations: this.#expectations,
      isStale: (service) => this.#isStale(service, world.slices.of(service, MIRROR_MANAGER)),
      batchPeriod: settings.batchPeriod,
    });
    world.listen({
      onService: (key, before, after) => {
        if (before?.takesEndpoints !== after?.takesEndpoints) this.queue.add(key);
      },
      onEndpoints: (key, before, after) => {
        const service = world.members.service(key);
        // Those of Services with a selector are written all the time, and never mirrored.
        if (service?.takesEndpoints !== false || world.slices.of(key, MIRROR_MANAGER).length > 0) {
          if (before !== undefined || after !== undefined) this.queue.addAfter(key, settings.batchPeriod);
        }
      },
      onSlice: (before, after) => slices.on(before, after),
    });
  }

  /** Work until the signal aborts. All Endpoints, and all that mirrored slices name, are looked at first. */
  async run(signal: AbortSignal): Promise<void> {
    const { world, tell, metrics } = this.#context;
    const keys = [...world.endpoints.keys(), ...world.slices.services(MIRROR_MANAGER)];
    try {
      await workOff(
        keys,
        {
          queue: this.queue,
          workers: this.#settings.workers,
          sync: (key, until) => this.#sync(key, until),
          onResult: () => undefined,
          onFailure: (key, error, isLast) => tell.failed('mirror', key, error, isLast),
        },
        signal,
      );
    } finally {
      this.#expectations.clear();
      metrics.stopped('mirror');
    }
  }

  #isStale(key: ObjectKey, slices: readonly SliceObject[]): boolean {
    return this.#expectations.isStale(key, slices, this.#context.world.version('endpointslices'));
  }

  /** What is missing in the cache is missed by the API server as well. */
  async #checkGone(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { world, client } = this.#context;
    if (world.endpoints.get(key) === undefined) await mustBeGone(client, 'endpoints', key, signal);
    else if (world.members.service(key) === undefined) await mustBeGone(client, 'services', key, signal);
  }

  async #sync(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { world, metrics, tell, clock } = this.#context;
    const since = clock.now();
    const endpoints = world.endpoints.get(key);
    const service = world.members.service(key);
    const existing = world.slices.of(key, MIRROR_MANAGER);
    const mirrors = isMirrored({ endpoints, service });
    if (!mirrors && existing.length > 0) await this.#checkGone(key, signal);
    if (mirrors && this.#isStale(key, existing)) {
      throw new StaleCache('the cache of EndpointSlices is out of date');
    }
    const { mostPerSubset } = this.#settings;
    const { changes, notices, counts } = reconcileMirror({ endpoints, service, existing, mostPerSubset });
    await this.#writer.write({ service: key, changes, triggeredAt: undefined, signal });
    if (mirrors) metrics.mirrored(key, counts, clock.now() - since);
    else {
      metrics.forgetMirror(key);
      this.#expectations.forget(key);
    }
    for (const notice of notices) tell.endpoints(key, endpoints?.metadata.uid, notice);
  }
}
