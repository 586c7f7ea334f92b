/** The chosen controllers, by their names in kube-controller-manager, each with a client of its own. */
import type { ClusterFeed } from './cluster-feed.ts';
import type { ControllerContext } from './controller-context.ts';
import { EndpointsController, type EndpointsSettings } from './endpoints-controller.ts';
import { MirrorController, type MirrorSettings } from './mirror-controller.ts';
import { ClientPace, type PaceOptions } from './pace.ts';
import type { WorkQueue } from './queue.ts';
import { SlicesController, type SlicesSettings } from './slices-controller.ts';

export interface PartsSettings {
  readonly controllers: ReadonlySet<string>;
  readonly requests: PaceOptions['rate'];
  readonly slices: SlicesSettings;
  readonly endpoints: EndpointsSettings;
  readonly mirror: MirrorSettings;
}

interface ControllerPart {
  readonly queue: WorkQueue;
  run(signal: AbortSignal): Promise<void>;
}

export class ControllerParts {
  /** By the name of the queue in metrics, which is upstream's. */
  readonly #parts: ReadonlyMap<string, ControllerPart>;

  constructor(settings: PartsSettings, context: ControllerContext, onPace: Pick<PaceOptions, 'onWait' | 'onCalm'>) {
    const { controllers, requests, slices, endpoints, mirror } = settings;
    const pace = new ClientPace({ clock: context.clock, rate: requests, ...onPace });
    const own = () => ({ ...context, client: pace.clientOf(context.client) });
    const all: readonly [controller: string, queue: string, () => ControllerPart][] = [
      ['endpointslice-controller', 'endpoint_slice', () => new SlicesController(own(), slices)],
      ['endpoints-controller', 'endpoint', () => new EndpointsController(own(), endpoints)],
      ['endpointslice-mirroring-controller', 'endpoint_slice_mirroring', () => new MirrorController(own(), mirror)],
    ];
    const chosen = all.filter(([controller]) => controllers.has(controller));
    this.#parts = new Map(chosen.map(([, queue, make]) => [queue, make()]));
  }

  /** For metrics. */
  get queues() {
    return [...this.#parts].map(([name, { queue }]) => {
      const { depth, adds, failures } = queue;
      return { name, depth, adds, retries: failures.retries };
    });
  }

  /** Works until the signal aborts. `onDone` is called when everything that existed at the beginning has been worked on. */
  async run(onDone: () => void, signal: AbortSignal): Promise<void> {
    const parts = [...this.#parts.values()];
    const running = Promise.all(parts.map((part) => part.run(signal)));
    void Promise.all(parts.map(({ queue }) => (queue.isIdle ? undefined : queue.drain.next()))).then(
      () => signal.aborted || onDone(),
    );
    await running;
  }
}

/** Follows the cluster, and works once its lists are complete, until the signal aborts and the lease is released. */
export async function live(
  feed: ClusterFeed,
  work: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  let working: Promise<void> = Promise.resolve();
  const failed = Promise.withResolvers<never>();
  const start = () => {
    working = work(signal);
    working.catch(failed.reject);
  };
  try {
    await Promise.race([feed.follow(start, signal).then(() => working), failed.promise]);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
