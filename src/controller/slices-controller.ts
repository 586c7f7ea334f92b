/** Keeps the EndpointSlices of Services with a selector as their Pods say (kube-controller-manager's endpointslice-controller). */
import { sameData } from '../model/equal.ts';
import { type ObjectKey, SLICES_MANAGER, type SliceObject, type ZonedNode } from '../producers/objects.ts';
import { reconcileSlices } from '../producers/slices.ts';
import { TopologyBook, zoneShares } from '../producers/topology.ts';
import { TriggerTimes } from '../producers/trigger-times.ts';
import type { ControllerContext } from './context.ts';
import { Expectations } from './expectations.ts';
import { WorkQueue } from './queue.ts';
import { SliceEvents } from './slice-events.ts';
import { StaleCache, workOff } from './workers.ts';
import { mustBeGone, SliceWriter } from './writer.ts';

export interface SlicesSettings {
  readonly workers: number;
  readonly mostPerSlice: number;
  /** Milliseconds that a change of a Pod waits for others. */
  readonly batchPeriod: number;
}

/** Milliseconds that changes of Nodes wait for others: all of them are looked at for the zones' shares. */
const NODES_SETTLE = 100;

export class SlicesController {
  readonly queue: WorkQueue;
  readonly #context: ControllerContext;
  readonly #settings: SlicesSettings;
  readonly #expectations = new Expectations();
  readonly #topology = new TopologyBook();
  readonly #triggers = new TriggerTimes();
  readonly #writer: SliceWriter;
  #sharesPlanned = false;

  constructor(context: ControllerContext, settings: SlicesSettings) {
    const { world, client, clock, metrics } = context;
    this.#context = context;
    this.#settings = settings;
    this.queue = new WorkQueue(clock, { isOpen: false });
    this.#writer = new SliceWriter({
      client,
      expectations: this.#expectations,
      isTaken: (key) => world.slices.has(key),
      onWrite: (operation) => metrics.sliceChanged('slices', operation),
    });
    const slices = new SliceEvents({
      manager: SLICES_MANAGER,
      queue: this.queue,
      expectations: this.#expectations,
      isStale: (service) => this.#isStale(service, world.slices.of(service, SLICES_MANAGER)),
      batchPeriod: settings.batchPeriod,
    });
    world.listen({
      onPod: (before, after) => this.#queuePods(world.members.touchedBy(before, after)),
      onService: (key) => this.queue.add(key),
      onNode: (before, after) => this.#onNode(before, after),
      onSlice: (before, after) => slices.on(before, after),
    });
  }

  /** Work until the signal aborts. All Services, and all that slices name, are looked at first. */
  async run(signal: AbortSignal): Promise<void> {
    const { world, metrics, tell } = this.#context;
    this.#setShares();
    const keys = [...world.members.services, ...world.slices.services(SLICES_MANAGER)];
    try {
      await workOff(
        keys,
        {
          queue: this.queue,
          workers: this.#settings.workers,
          sync: (key, until) => this.#sync(key, until),
          onResult: (result) => metrics.synced(result),
          onFailure: (key, error, isLast) => {
            const note = `Error updating Endpoint Slices for Service ${key}: ${error.message}`;
            tell.failed('slices', key, error, isLast);
            tell.service(world.members.service(key), { type: 'Warning', reason: 'FailedToUpdateEndpointSlices', note });
          },
        },
        signal,
      );
    } finally {
      // Another replica may write now: what was expected here means nothing any more.
      this.#expectations.clear();
      metrics.stopped('slices');
    }
  }

  async #sync(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { world, metrics, tell } = this.#context;
    const service = world.members.service(key);
    const existing = world.slices.of(key, SLICES_MANAGER);
    if (service === undefined) {
      await this.#forget(key, existing, signal);
      return;
    }
    if (service.selector === undefined) return;
    if (this.#isStale(key, existing)) throw new StaleCache('the cache of EndpointSlices is out of date');
    const pods = world.members.podsOf(service);
    const triggeredAt = this.#triggers.take(service, pods);
    const { changes, notices, onUnknownNode, counts } = reconcileSlices({
      service,
      pods,
      existing,
      node: (name) => world.nodes.get(name),
      topology: this.#topology,
      mostPerSlice: this.#settings.mostPerSlice,
    });
    // Each is told once, whatever becomes of the writes.
    for (const notice of notices) tell.service(service, notice);
    await this.#writer.write({ service: key, changes, triggeredAt, signal });
    metrics.slicesCounted(service, counts, changes.create.length + changes.update.length + changes.remove.length);
    const [first] = onUnknownNode;
    if (first === undefined) return;
    const more = onUnknownNode.length > 1 ? ` and ${onUnknownNode.length - 1} more` : '';
    throw new Error(`skipping Pod ${first.key}${more}: there is no Node ${first.nodeName}`);
  }

  #isStale(key: ObjectKey, slices: readonly SliceObject[]): boolean {
    return this.#expectations.isStale(key, slices, this.#context.world.version('endpointslices'));
  }

  /** Where no garbage collector runs beside, nobody else would remove the slices of a Service that is gone. */
  async #forget(key: ObjectKey, existing: readonly SliceObject[], signal: AbortSignal): Promise<void> {
    const orphans = existing.filter(({ metadata }) =>
      (metadata.ownerReferences ?? []).some(({ kind, apiVersion }) => kind === 'Service' && apiVersion === 'v1'),
    );
    if (orphans.length > 0) {
      await mustBeGone(this.#context.client, 'services', key, signal);
      const changes = { create: [], update: [], remove: orphans };
      await this.#writer.write({ service: key, changes, triggeredAt: undefined, signal });
    }
    this.#expectations.forget(key);
    this.#topology.forget(key);
    this.#triggers.forget(key);
    this.#context.metrics.forgetService(key);
  }

  #queuePods(services: Iterable<ObjectKey>): void {
    for (const key of services) this.queue.addAfter(key, this.#settings.batchPeriod);
  }

  /** Pods on a Node that appears, or gets another zone, have other endpoints. One that goes takes its Pods with it when these go. */
  #onNode(before: ZonedNode | undefined, after: ZonedNode | undefined): void {
    const { clock, world } = this.#context;
    if (after !== undefined && before?.zone !== after.zone) {
      for (const pod of world.members.podsOn(after.name)) this.#queuePods(world.members.servicesOf(pod));
    }
    if (this.#sharesPlanned || (before && after && sameData({ ...before, name: '' }, { ...after, name: '' }))) return;
    this.#sharesPlanned = true;
    clock.after(NODES_SETTLE, () => this.#setShares());
  }

  #setShares(): void {
    this.#sharesPlanned = false;
    for (const key of this.#topology.setShares(zoneShares(this.#context.world.nodes.values()))) this.queue.add(key);
  }
}
