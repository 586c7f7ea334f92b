/** The objects of the cluster as the controllers know them, packed, with indexes; listeners hear of each change. */

import { sameData } from '../base/equal.ts';
import type {
  EndpointsObject,
  ObjectKey,
  PodView,
  SelectingService,
  SliceObject,
  ZonedNode,
} from '../cluster/producers/api-objects.ts';
import { Membership } from '../cluster/producers/membership.ts';
import { PackedMap } from '../cluster/producers/packing.ts';
import { SliceShelf } from './slice-shelf.ts';

/** Called after the cache took an object in; undefined: it did not exist before, or is gone. */
export interface CacheListener {
  /** `touched` looks up the Services that the change of a Pod concerns. */
  onPod?(touched: () => ReadonlySet<ObjectKey>): void;
  onService?(key: ObjectKey, before: SelectingService | undefined, after: SelectingService | undefined): void;
  onNode?(before: ZonedNode | undefined, after: ZonedNode | undefined): void;
  onSlice?(before: SliceObject | undefined, after: SliceObject | undefined): void;
  onEndpoints?(key: ObjectKey, before: EndpointsObject | undefined, after: EndpointsObject | undefined): void;
}

export const CACHED_KINDS = ['services', 'pods', 'nodes', 'endpointslices', 'endpoints'] as const;
export type CachedKind = (typeof CACHED_KINDS)[number];

export class ClusterCache {
  readonly members = new Membership();
  readonly nodes = new Map<string, ZonedNode>();
  readonly slices = new SliceShelf();
  readonly endpoints = new PackedMap<EndpointsObject>();
  readonly #listeners: CacheListener[] = [];
  readonly #versions = new Map<CachedKind, string>();

  /** The resourceVersion up to which the cache shows a kind; "" before its list. */
  version(kind: CachedKind): string {
    return this.#versions.get(kind) ?? '';
  }

  setVersion(kind: CachedKind, version: string): void {
    this.#versions.set(kind, version);
  }

  listen(listener: CacheListener): void {
    this.#listeners.push(listener);
  }

  setPod(key: ObjectKey, after: PodView | undefined): void {
    const before = this.members.pod(key);
    // Most of what is written into a Pod is nothing to its endpoints.
    if (sameData(before, after)) return;
    this.members.setPod(key, after);
    let services: ReadonlySet<ObjectKey> | undefined;
    const touched = () => {
      services ??= this.members.touchedBy(before, after);
      return services;
    };
    for (const listener of this.#listeners) listener.onPod?.(touched);
  }

  setService(key: ObjectKey, after: SelectingService | undefined): void {
    const before = this.members.setService(key, after);
    for (const listener of this.#listeners) listener.onService?.(key, before, after);
  }

  setNode(name: string, after: ZonedNode | undefined): void {
    const before = this.nodes.get(name);
    // A kubelet writes its Node every few minutes.
    if (sameData(before, after)) return;
    if (after === undefined) this.nodes.delete(name);
    else this.nodes.set(name, after);
    for (const listener of this.#listeners) listener.onNode?.(before, after);
  }

  setSlice(key: ObjectKey, after: SliceObject | undefined): void {
    const before = this.slices.set(key, after);
    for (const listener of this.#listeners) listener.onSlice?.(before, after);
  }

  setEndpoints(key: ObjectKey, after: EndpointsObject | undefined): void {
    const before = this.endpoints.get(key);
    if (after === undefined) this.endpoints.delete(key);
    else this.endpoints.set(key, after);
    for (const listener of this.#listeners) listener.onEndpoints?.(key, before, after);
  }
}
