/** Keeps the Endpoints of Services with a selector, for older readers (kube-controller-manager's endpoints-controller). */
import { isNamespaceTerminating } from '../cluster/api/client.ts';
import type { EndpointsObject, ObjectKey } from '../cluster/producers/api-objects.ts';
import { isWrittenByController, reconcileEndpoints } from '../cluster/producers/endpoints-object.ts';
import { TriggerTimes } from '../cluster/producers/trigger-times.ts';
import { type ControllerContext, runQueue } from './controller-context.ts';
import { Expectations } from './expectations.ts';
import { deleteEndpoints, mustBeGone, writeEndpoints } from './object-writer.ts';
import { StaleCache, WorkQueue } from './queue.ts';

export interface EndpointsSettings {
  readonly workers: number;
  /** Milliseconds that a change of a Pod waits for others. */
  readonly batchPeriod: number;
}

export class EndpointsController {
  readonly queue: WorkQueue;
  readonly #context: ControllerContext;
  readonly #settings: EndpointsSettings;
  readonly #triggers = new TriggerTimes();
  #isRunning = false;
  /** Of one Endpoints object for each Service. */
  readonly #expectations = new Expectations();

  constructor(context: ControllerContext, settings: EndpointsSettings) {
    const { cache, clock } = context;
    this.#context = context;
    this.#settings = settings;
    this.queue = new WorkQueue(clock, { isOpen: false });
    cache.listen({
      onPod: (touched) => {
        if (!this.#isRunning) return;
        for (const key of touched()) this.queue.addAfter(key, settings.batchPeriod);
      },
      onService: (key) => this.queue.add(key),
      onEndpoints: (key, before, after) => this.#onEndpoints(key, before, after),
      onRestored: () => this.#expectations.clear(),
    });
  }

  /** Works until the signal aborts, first on all Services, and on Endpoints that no Service owns any more. */
  run(signal: AbortSignal): Promise<void> {
    const { queue } = this;
    const { cache } = this.#context;
    const { workers } = this.#settings;
    const keys = [...cache.members.services, ...cache.endpoints.keys()];
    const sync = (key: ObjectKey, until: AbortSignal) => this.#sync(key, until);
    const onEnd = () => {
      this.#isRunning = false;
      this.#expectations.clear();
    };
    this.#isRunning = true;
    return runQueue(this.#context, { name: 'endpoints', keys, queue, workers, sync, onEnd }, signal);
  }

  #onEndpoints(key: ObjectKey, before: EndpointsObject | undefined, after: EndpointsObject | undefined): void {
    if (before !== undefined && before.metadata.uid !== after?.metadata.uid) this.#expectations.seenGone(key, before);
    if (after !== undefined) this.#expectations.seen(key, after);
    // Endpoints whose Service was deleted while they were written must be deleted, too.
    if (after === undefined || this.#context.cache.members.service(key) === undefined) this.queue.add(key);
    else if (this.queue.failures.has(key) && !this.#isStale(key, after)) this.queue.add(key);
  }

  #isStale(key: ObjectKey, endpoints: EndpointsObject | undefined): boolean {
    const cached = endpoints === undefined ? [] : [endpoints];
    return this.#expectations.isStale(key, cached, this.#context.cache.version('endpoints'));
  }

  async #sync(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { cache, client, events } = this.#context;
    const service = cache.members.service(key);
    const existing = cache.endpoints.get(key);
    if (service === undefined) {
      this.#triggers.forget(key);
      this.#expectations.forget(key);
      if (existing === undefined || !isWrittenByController(existing)) return;
      await mustBeGone(client, 'services', key, signal);
      await deleteEndpoints(client, existing, signal);
      return;
    }
    if (service.selector === undefined) return;
    if (this.#isStale(key, existing)) {
      throw new StaleCache('the cache of Endpoints is out of date');
    }
    const pods = cache.members.podsOf(service);
    const triggeredAt = this.#triggers.take(service, pods);
    const wanted = reconcileEndpoints({ service, pods, existing, triggeredAt });
    if (wanted === undefined) return;
    try {
      this.#expectations.wrote(key, await writeEndpoints(client, wanted, signal), cache.version('endpoints'));
    } catch (error) {
      if (existing === undefined && isNamespaceTerminating(error)) return;
      const [reason, verb] =
        existing === undefined ? ['FailedToCreateEndpoint', 'create'] : ['FailedToUpdateEndpoint', 'update'];
      const note = `Failed to ${verb} endpoint ${key}: ${(error as Error).message}`;
      events.endpoints(key, existing?.metadata.uid, { type: 'Warning', reason, note });
      throw error;
    }
  }
}
