/** Lists and watches of the controllers, by the agent's own reflector. They fill the cluster cache. */

import type { Clock } from '../base/clock.ts';
import type { ApiClient } from '../cluster/api/client.ts';
import { type Decoded, objectKey } from '../cluster/api/decode/checks.ts';
import {
  decodeEndpointsObject,
  decodePod,
  decodeSelectingService,
  decodeSliceObject,
  decodeZonedNode,
  PODS,
} from '../cluster/api/decode/producing.ts';
import type { ReflectorSink } from '../cluster/api/reflector.ts';
import { type Watch, Watches, type WatchLog, watchSink } from '../cluster/api/watch.ts';
import { FaultBook } from '../proxy/model/fault-book.ts';
import type { Fault } from '../proxy/model/objects.ts';
import { CACHED_KINDS, type CachedKind, type ClusterCache } from './cluster-cache.ts';

export interface ClusterFeedOptions {
  readonly cache: ClusterCache;
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly log: WatchLog;
  readonly onFault: (fault: Fault) => void;
}

const PATHS: Readonly<Record<CachedKind, string>> = {
  services: '/api/v1/services',
  pods: '/api/v1/pods',
  nodes: '/api/v1/nodes',
  endpointslices: '/apis/discovery.k8s.io/v1/endpointslices',
  endpoints: '/api/v1/endpoints',
};

/** The receiver of one kind of object. */
type KindIntake = Pick<ReflectorSink, 'set' | 'gone'>;

export class ClusterFeed {
  readonly #options: ClusterFeedOptions;
  readonly #watches: Watches<CachedKind>;
  readonly #faults = new FaultBook();

  constructor(options: ClusterFeedOptions) {
    this.#options = options;
    const meanwhile = 'slices stay as they are';
    this.#watches = new Watches(CACHED_KINDS, { ...options, meanwhile });
  }

  /** The initial lists are complete. */
  get isSynced(): boolean {
    return this.#watches.isSynced;
  }

  get watches() {
    return this.#watches.statuses;
  }

  /** Follows the cluster until the signal aborts. `onSynced` is called once. */
  async follow(onSynced: () => void, signal: AbortSignal): Promise<void> {
    const { cache, client } = this.#options;
    const intakes = this.#intakes();
    const synced = (kind: CachedKind) => {
      this.#watches.synced(kind);
      if (this.isSynced) onSynced();
    };
    const partsOf = (kind: CachedKind, watch: Watch<CachedKind>) => ({
      resource: kind === 'pods' ? { path: PATHS[kind], protobuf: PODS } : { path: PATHS[kind] },
      sink: {
        ...intakes[kind],
        reached: (version: string) => cache.setVersion(kind, version),
        synced: () => synced(kind),
        ...watchSink(watch),
        restored: (from: string, to: string) => {
          watch.restored(from, to);
          cache.restored();
        },
      },
    });
    await this.#watches.follow(client, partsOf, signal);
  }

  #intakes(): Readonly<Record<CachedKind, KindIntake>> {
    const { cache } = this.#options;
    const pod = (object: unknown, key: string) => decodePod(object, key, { isHandWritten: false });
    return {
      services: this.#intake('services', decodeSelectingService, (key, service) => cache.setService(key, service)),
      pods: this.#intake('pods', pod, (key, value) => cache.setPod(key, value)),
      nodes: this.#intake('nodes', decodeZonedNode, (key, node) => cache.setNode(key, node)),
      endpointslices: this.#intake('endpointslices', decodeSliceObject, (key, slice) => cache.setSlice(key, slice)),
      endpoints: this.#intake('endpoints', decodeEndpointsObject, (key, value) => cache.setEndpoints(key, value)),
    };
  }

  /** Decodes an object, passes on its usable part, and reports its new faults. After a broken object the cache has its former state. */
  #intake<T>(
    kind: CachedKind,
    decode: (object: unknown, key: string) => Decoded<T>,
    take: (key: string, value: T | undefined) => void,
  ): KindIntake {
    return {
      set: (key, object) => {
        // The API server checks names, so an object with an invalid name does not come from it.
        if (kind !== 'nodes' && objectKey(object) !== key) return;
        const { value, faults } = decode(object, key);
        for (const fault of this.#faults.set(`${kind} ${key}`, faults)) this.#options.onFault(fault);
        if (value !== undefined) take(key, value);
      },
      gone: (key) => {
        this.#faults.set(`${kind} ${key}`, []);
        take(key, undefined);
      },
    };
  }
}
