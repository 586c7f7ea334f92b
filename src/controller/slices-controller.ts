/** Writes the EndpointSlices of Services with a selector from their Pods (kube-controller-manager's endpointslice-controller). */
import { sameData } from '../base/equal.ts';
import type { ObjectKey, ZonedNode } from '../cluster/producers/api-objects.ts';
import { reconcileSlices } from '../cluster/producers/slices.ts';
import { TopologyBook, zoneShares } from '../cluster/producers/topology.ts';
import { TriggerTimes } from '../cluster/producers/trigger-times.ts';
import { SLICES_MANAGER } from '../proxy/model/labels.ts';
import { type ControllerContext, runQueue } from './controller-context.ts';
import { ManagedSlices } from './managed-slices.ts';
import { mustBeGone } from './object-writer.ts';
import { type SyncResult, WorkQueue } from './queue.ts';

export interface SlicesSettings {
  readonly workers: number;
  readonly mostPerSlice: number;
  /** Milliseconds that a change of a Pod waits for others. */
  readonly batchPeriod: number;
}

/** Milliseconds for which a change of a Node waits for further changes: the zones' shares are computed from all Nodes. */
const NODES_SETTLE_MS = 100;

/** Pods are on a Node that the cache does not have (yet). The others are written, and the Service is tried again. */
class NodeMissing extends Error {
  readonly code = 'NODE_MISSING';
}

export class SlicesController {
  readonly queue: WorkQueue;
  readonly #context: ControllerContext;
  readonly #settings: SlicesSettings;
  readonly #slices: ManagedSlices;
  readonly #topology = new TopologyBook();
  readonly #triggers = new TriggerTimes();
  #isRunning = false;
  #sharesPlanned = false;

  constructor(context: ControllerContext, settings: SlicesSettings) {
    const { cache, clock } = context;
    const { batchPeriod } = settings;
    this.#context = context;
    this.#settings = settings;
    this.queue = new WorkQueue(clock, { isOpen: false });
    this.#slices = new ManagedSlices({
      context,
      manager: SLICES_MANAGER,
      of: 'slices',
      queue: this.queue,
      batchPeriod,
    });
    cache.listen({
      onPod: (touched) => {
        if (this.#isRunning) this.#queuePods(touched());
      },
      onService: (key) => this.queue.add(key),
      onNode: (before, after) => this.#onNode(before, after),
    });
  }

  /** Works until the signal aborts, first on all Services, and on all that slices name. */
  run(signal: AbortSignal): Promise<void> {
    this.#setShares();
    const { queue } = this;
    const { cache, metrics, events } = this.#context;
    const { workers } = this.#settings;
    const keys = [...cache.members.services, ...this.#slices.services];
    const sync = (key: ObjectKey, until: AbortSignal) => this.#sync(key, until);
    const onResult = (result: SyncResult) => metrics.synced(result);
    const onFailure = (key: ObjectKey, error: Error) => {
      const note = `Error updating Endpoint Slices for Service ${key}: ${error.message}`;
      events.service(cache.members.service(key), { type: 'Warning', reason: 'FailedToUpdateEndpointSlices', note });
    };
    const onEnd = () => {
      this.#isRunning = false;
      this.#slices.clear();
    };
    this.#isRunning = true;
    return runQueue(this.#context, { name: 'slices', keys, queue, workers, sync, onResult, onFailure, onEnd }, signal);
  }

  async #sync(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { cache, metrics, events } = this.#context;
    const service = cache.members.service(key);
    if (service === undefined) {
      await this.#forget(key, signal);
      return;
    }
    if (service.selector === undefined) return;
    const existing = this.#slices.fresh(key);
    const pods = cache.members.podsOf(service);
    const triggeredAt = this.#triggers.take(service, pods);
    const { changes, notices, onUnknownNode, counts } = reconcileSlices({
      service,
      pods,
      existing,
      node: (name) => cache.nodes.get(name),
      topology: this.#topology,
      mostPerSlice: this.#settings.mostPerSlice,
    });
    // Each notice is emitted once, even if the writes fail.
    for (const notice of notices) events.service(service, notice);
    await this.#slices.write({ service: key, changes, triggeredAt, signal });
    metrics.slicesCounted(service, counts, changes.create.length + changes.update.length + changes.remove.length);
    const [first] = onUnknownNode;
    if (first === undefined) return;
    const more = onUnknownNode.length > 1 ? ` and ${onUnknownNode.length - 1} more` : '';
    throw new NodeMissing(`skipping Pod ${first.key}${more}: there is no Node ${first.nodeName}`);
  }

  /** Removes the slices of a Service that is gone: a cluster without a garbage collector would keep them. */
  async #forget(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const orphans = this.#slices
      .of(key)
      .filter(({ metadata }) =>
        (metadata.ownerReferences ?? []).some(({ kind, apiVersion }) => kind === 'Service' && apiVersion === 'v1'),
      );
    if (orphans.length > 0) {
      await mustBeGone(this.#context.client, 'services', key, signal);
      const changes = { create: [], update: [], remove: orphans };
      await this.#slices.write({ service: key, changes, triggeredAt: undefined, signal });
    }
    this.#slices.forget(key);
    this.#topology.forget(key);
    this.#triggers.forget(key);
    this.#context.metrics.forgetService(key);
  }

  #queuePods(services: Iterable<ObjectKey>): void {
    for (const key of services) this.queue.addAfter(key, this.#settings.batchPeriod);
  }

  /** Endpoints of Pods change when their Node appears or gets another zone. A deleted Node changes nothing until its Pods are deleted. */
  #onNode(before: ZonedNode | undefined, after: ZonedNode | undefined): void {
    const { clock, cache } = this.#context;
    if (after !== undefined && before?.zone !== after.zone) {
      for (const pod of cache.members.podsOn(after.name)) this.#queuePods(cache.members.servicesOf(pod));
    }
    if (this.#sharesPlanned || (before && after && sameData({ ...before, name: '' }, { ...after, name: '' }))) return;
    this.#sharesPlanned = true;
    clock.after(NODES_SETTLE_MS, () => this.#setShares());
  }

  #setShares(): void {
    this.#sharesPlanned = false;
    for (const key of this.#topology.setShares(zoneShares(this.#context.cache.nodes.values()))) this.queue.add(key);
  }
}
