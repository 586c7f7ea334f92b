/** What the controllers know of the cluster: informers on the agent's own list and watch, decoded, with indexes. */

import type { ApiClient } from '../api/client.ts';
import { objectKey } from '../api/decode/objects.ts';
import {
  type Decoded,
  decodeEndpointsObject,
  decodePod,
  decodeSelectingService,
  decodeSliceObject,
  decodeZonedNode,
} from '../api/decode/producing.ts';
import { PAGE, Reflector, type ReflectorSink } from '../api/reflector.ts';
import { type SourceLog, Watch, watchSink } from '../api/watch.ts';
import type { Clock } from '../host/clock.ts';
import { sameData } from '../model/equal.ts';
import { FaultBook } from '../model/fault-book.ts';
import { MANAGED_BY_LABEL, SERVICE_NAME_LABEL } from '../model/labels.ts';
import type { Fault } from '../model/objects.ts';
import { Membership } from '../producers/membership.ts';
import type {
  EndpointsObject,
  ObjectKey,
  PodView,
  SelectingService,
  SliceObject,
  ZonedNode,
} from '../producers/objects.ts';

/** Told after the world took an object in; undefined: it was not there before, or is gone. */
export interface Listener {
  onPod?(before: PodView | undefined, after: PodView | undefined): void;
  onService?(key: ObjectKey, before: SelectingService | undefined, after: SelectingService | undefined): void;
  onNode?(before: ZonedNode | undefined, after: ZonedNode | undefined): void;
  onSlice?(before: SliceObject | undefined, after: SliceObject | undefined): void;
  onEndpoints?(key: ObjectKey, before: EndpointsObject | undefined, after: EndpointsObject | undefined): void;
}

export interface ClusterCacheOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly log: SourceLog;
  readonly onFault: (fault: Fault) => void;
}

const KINDS = ['services', 'pods', 'nodes', 'endpointslices', 'endpoints'] as const;
type CachedKind = (typeof KINDS)[number];

const PATHS: Readonly<Record<CachedKind, string>> = {
  services: '/api/v1/services',
  pods: '/api/v1/pods',
  nodes: '/api/v1/nodes',
  endpointslices: '/apis/discovery.k8s.io/v1/endpointslices',
  endpoints: '/api/v1/endpoints',
};

/** Where objects of a kind go. */
type Intake = Pick<ReflectorSink, 'set' | 'gone'>;

export class ClusterCache {
  readonly members = new Membership();
  readonly nodes = new Map<string, ZonedNode>();
  readonly slices = new SliceShelf();
  readonly endpoints = new Map<ObjectKey, EndpointsObject>();
  readonly #options: ClusterCacheOptions;
  readonly #listeners: Listener[] = [];
  readonly #watches: ReadonlyMap<CachedKind, Watch<CachedKind>>;
  readonly #synced = new Set<CachedKind>();
  readonly #faults = new FaultBook();
  readonly #versions = new Map<CachedKind, string>();

  constructor(options: ClusterCacheOptions) {
    this.#options = options;
    const meanwhile = 'slices stay as they are';
    this.#watches = new Map(KINDS.map((kind) => [kind, new Watch(kind, { ...options, meanwhile })]));
  }

  /** The initial lists are complete. */
  get isSynced(): boolean {
    return KINDS.every((kind) => this.#synced.has(kind));
  }

  get watches() {
    return [...this.#watches.values()].map((watch) => watch.status);
  }

  /** Up to which resourceVersion the cache shows a kind; "" before its list. */
  version(kind: CachedKind): string {
    return this.#versions.get(kind) ?? '';
  }

  listen(listener: Listener): void {
    this.#listeners.push(listener);
  }

  /** Follow the cluster until the signal aborts; `onSynced` is called once. */
  async follow(onSynced: () => void, signal: AbortSignal): Promise<void> {
    const { client, clock } = this.#options;
    const intakes = this.#intakes();
    const reflectors = KINDS.map((kind) => {
      const watch = this.#watches.get(kind) as Watch<CachedKind>;
      const sink = {
        ...intakes[kind],
        reached: (version: string) => this.#versions.set(kind, version),
        synced: () => {
          this.#synced.add(kind);
          if (this.isSynced) onSynced();
        },
        ...watchSink(watch),
      };
      return new Reflector({
        resource: { path: PATHS[kind] },
        client,
        clock,
        sink,
        random: Math.random,
        pageSize: PAGE,
      });
    });
    await Promise.all(reflectors.map((reflector) => reflector.run(signal)));
  }

  #intakes(): Readonly<Record<CachedKind, Intake>> {
    const pod = (object: unknown, key: string) => decodePod(object, key, { isHandWritten: false });
    return {
      services: this.#intake('services', decodeSelectingService, (key, service) => this.#service(key, service)),
      pods: this.#intake('pods', pod, (key, value) => this.#pod(key, value)),
      nodes: this.#intake('nodes', decodeZonedNode, (key, node) => this.#node(key, node)),
      endpointslices: this.#intake('endpointslices', decodeSliceObject, (key, slice) => this.#slice(key, slice)),
      endpoints: this.#intake('endpoints', decodeEndpointsObject, (key, value) => this.#endpoint(key, value)),
    };
  }

  /** What can be used of an object; what is wrong with it is told when it is new. Of a broken one what it was before stays. */
  #intake<T>(
    kind: CachedKind,
    decode: (object: unknown, key: string) => Decoded<T>,
    take: (key: string, value: T | undefined) => void,
  ): Intake {
    return {
      set: (key, object) => {
        // The API server checks names; one that is not one would not come from it.
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

  #pod(key: ObjectKey, after: PodView | undefined): void {
    const before = this.members.pod(key);
    // Most of what is written into a Pod is nothing to its endpoints.
    if (sameData(before, after)) return;
    this.members.setPod(key, after);
    for (const listener of this.#listeners) listener.onPod?.(before, after);
  }

  #service(key: ObjectKey, after: SelectingService | undefined): void {
    const before = this.members.setService(key, after);
    for (const listener of this.#listeners) listener.onService?.(key, before, after);
  }

  #node(name: string, after: ZonedNode | undefined): void {
    const before = this.nodes.get(name);
    // A kubelet writes its Node every few minutes.
    if (sameData(before, after)) return;
    if (after === undefined) this.nodes.delete(name);
    else this.nodes.set(name, after);
    for (const listener of this.#listeners) listener.onNode?.(before, after);
  }

  #slice(key: ObjectKey, after: SliceObject | undefined): void {
    const before = this.slices.set(key, after);
    for (const listener of this.#listeners) listener.onSlice?.(before, after);
  }

  #endpoint(key: ObjectKey, after: EndpointsObject | undefined): void {
    const before = this.endpoints.get(key);
    if (after === undefined) this.endpoints.delete(key);
    else this.endpoints.set(key, after);
    for (const listener of this.#listeners) listener.onEndpoints?.(key, before, after);
  }
}

/** Slices by name, and by the Service that they name. */
export class SliceShelf {
  readonly #slices = new Map<ObjectKey, SliceObject>();
  readonly #ofService = new Map<ObjectKey, Map<ObjectKey, SliceObject>>();

  has(key: ObjectKey): boolean {
    return this.#slices.has(key);
  }

  /** Those that name the Service and count. */
  of(service: ObjectKey, manager: string): SliceObject[] {
    return [...(this.#ofService.get(service)?.values() ?? [])].filter((slice) => counts(slice, manager));
  }

  /** Services that slices of this manager name. */
  services(manager: string): ObjectKey[] {
    const hasSome = (slices: ReadonlyMap<ObjectKey, SliceObject>) =>
      [...slices.values()].some((slice) => managerOf(slice) === manager);
    return [...this.#ofService].filter(([, slices]) => hasSome(slices)).map(([service]) => service);
  }

  /** Returns what was there before. */
  set(key: ObjectKey, slice: SliceObject | undefined): SliceObject | undefined {
    const before = this.#slices.get(key);
    const was = before && serviceOf(before);
    if (was !== undefined) {
      const slices = this.#ofService.get(was);
      slices?.delete(key);
      if (slices?.size === 0) this.#ofService.delete(was);
    }
    this.#slices.delete(key);
    if (slice === undefined) return before;
    this.#slices.set(key, slice);
    const service = serviceOf(slice);
    if (service !== undefined) {
      const slices = this.#ofService.get(service) ?? new Map();
      this.#ofService.set(service, slices.set(key, slice));
    }
    return before;
  }
}

/** The Service that a slice names; undefined when it names none. */
export function serviceOf({ metadata }: SliceObject): ObjectKey | undefined {
  const name = metadata.labels?.[SERVICE_NAME_LABEL] ?? '';
  return name === '' ? undefined : `${metadata.namespace}/${name}`;
}

/** Whether it is one of this manager's. One that is being deleted is as good as gone: whoever holds it back may do so for long. */
export function counts(slice: SliceObject, manager: string): boolean {
  return managerOf(slice) === manager && (slice.metadata.deletionTimestamp ?? null) === null;
}

function managerOf({ metadata }: SliceObject): string | undefined {
  return metadata.labels?.[MANAGED_BY_LABEL];
}
