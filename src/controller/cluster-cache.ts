/** The cluster's objects as the controllers know them, packed, with indexes. Listeners hear of each change. */
import { sameData } from '../base/equal.ts';
import type {
  EndpointsObject,
  ObjectKey,
  PodView,
  SelectingService,
  SliceObject,
  ZonedNode,
} from '../cluster/producers/api-objects.ts';
import { Lists } from '../cluster/producers/few.ts';
import { Membership } from '../cluster/producers/membership.ts';
import { PackedMap, pack, unpack } from '../cluster/producers/packing.ts';
import { MANAGED_BY_LABEL, MIRROR_MANAGER, SERVICE_NAME_LABEL, SLICES_MANAGER } from '../proxy/model/labels.ts';
import type { Packed } from '../proxy/model/packed/bytes.ts';

/** Called after the cache took in an object, which is undefined where it did not exist before, or is gone. */
interface CacheListener {
  /** `touched` looks up the Services that the Pod's change concerns. */
  onPod?(touched: () => ReadonlySet<ObjectKey>): void;
  onService?(key: ObjectKey, before: SelectingService | undefined, after: SelectingService | undefined): void;
  onNode?(before: ZonedNode | undefined, after: ZonedNode | undefined): void;
  onSlice?(before: SliceObject | undefined, after: SliceObject | undefined): void;
  onEndpoints?(key: ObjectKey, before: EndpointsObject | undefined, after: EndpointsObject | undefined): void;
  /** The API server's store was restored: writes may be lost, and versions from before mean nothing any more. */
  onRestored?(): void;
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

  restored(): void {
    for (const listener of this.#listeners) listener.onRestored?.();
  }

  setPod(key: ObjectKey, after: PodView | undefined): void {
    const before = this.members.pod(key);
    // Most changes of a Pod do not matter to its endpoints.
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
    // Most changes of a Node do not matter: its kubelet writes it every few minutes.
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

interface ShelvedSlice {
  readonly slice: Packed<SliceObject>;
  /** The Service that it names. */
  readonly service: ObjectKey | undefined;
  readonly manager: string | undefined;
}

const MANAGERS = [SLICES_MANAGER, MIRROR_MANAGER];

/** EndpointSlices, packed, by name and by the Service that they name. Each call returns new objects. */
export class SliceShelf {
  readonly #rows = new Map<ObjectKey, ShelvedSlice>();
  readonly #ofService = new Lists<ShelvedSlice>();

  has(key: ObjectKey): boolean {
    return this.#rows.has(key);
  }

  /** This manager's slices that name the Service, without those that are being deleted. */
  of(service: ObjectKey, manager: string): SliceObject[] {
    const found: SliceObject[] = [];
    for (const row of this.#ofService.get(service)) {
      if (row.manager !== manager) continue;
      const slice = unpack(row.slice);
      if (counts(slice, manager)) found.push(slice);
    }
    return found;
  }

  /** Services that slices of this manager name. */
  services(manager: string): ObjectKey[] {
    const found = new Set<ObjectKey>();
    for (const row of this.#rows.values()) {
      if (row.manager === manager && row.service !== undefined) found.add(row.service);
    }
    return [...found];
  }

  /** Set or remove a slice. Returns the slice before. */
  set(key: ObjectKey, slice: SliceObject | undefined): SliceObject | undefined {
    const before = this.#rows.get(key);
    if (before?.service !== undefined) this.#ofService.remove(before.service, before);
    if (slice === undefined) this.#rows.delete(key);
    else {
      const row: ShelvedSlice = {
        slice: pack(slice),
        service: serviceOf(slice),
        manager: sharedText(managerOf(slice)),
      };
      this.#rows.set(key, row);
      if (row.service !== undefined) this.#ofService.add(row.service, row);
    }
    return before && unpack(before.slice);
  }
}

/** One text for all slices of a known manager: each slice came with a text of its own. */
function sharedText(manager: string | undefined): string | undefined {
  return MANAGERS.find((known) => known === manager) ?? manager;
}

/** The Service that a slice names; undefined when it names none. */
export function serviceOf({ metadata }: SliceObject): ObjectKey | undefined {
  const name = metadata.labels?.[SERVICE_NAME_LABEL] ?? '';
  return name === '' ? undefined : `${metadata.namespace}/${name}`;
}

/** Whether the slice is this manager's. A slice that is being deleted counts as gone, because a finalizer may keep it for long. */
export function counts(slice: SliceObject, manager: string): boolean {
  return managerOf(slice) === manager && (slice.metadata.deletionTimestamp ?? null) === null;
}

function managerOf({ metadata }: SliceObject): string | undefined {
  return metadata.labels?.[MANAGED_BY_LABEL];
}
