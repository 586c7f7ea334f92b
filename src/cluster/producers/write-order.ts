/**
 * The order of writes, and the slices that are reused instead of removed. Watchers see one write after another, and a write may fail,
 * so an endpoint must never disappear between two writes.
 */

import type { Family } from '../../base/address.ts';
import type { Labels } from '../../proxy/model/labels.ts';
import type { SliceChanges, SliceEndpoint, SliceObject, SlicePortObject } from './api-objects.ts';
import { endpointId } from './pod-endpoint.ts';

/**
 * Endpoints in the order of the existing slices, then the new ones. Slices that are rewritten for another set of ports then keep the
 * endpoints of one slice together.
 */
export function inExistingOrder(
  endpoints: ReadonlyMap<string, SliceEndpoint>,
  slices: readonly SliceObject[],
): Map<string, SliceEndpoint> {
  const sorted = new Map<string, SliceEndpoint>();
  for (const id of slices.flatMap((slice) => slice.endpoints.map(endpointId))) {
    const endpoint = endpoints.get(id);
    if (endpoint !== undefined) sorted.set(id, endpoint);
  }
  for (const [id, endpoint] of endpoints) if (!sorted.has(id)) sorted.set(id, endpoint);
  return sorted;
}

interface WrittenFor {
  /** The slices as they are, those of the parent alone. */
  readonly before: readonly SliceObject[];
  /** The parent, a Service or Endpoints, is being deleted. */
  readonly isTerminating: boolean;
}

/**
 * The writes in a safe order. Creates become updates of slices that would be removed, except where slices would exchange endpoints in a
 * circle: there a slice is written anew before the old one goes. A parent that is terminating gets no new slices.
 */
export function safeWrites(
  { create, update, remove }: SliceChanges,
  { before, isTerminating }: WrittenFor,
): SliceChanges {
  const reusable = new Set(before);
  for (;;) {
    const reused = reuse(create, remove, (slice) => reusable.has(slice));
    const { ordered, circling } = inSafeOrder([...update, ...reused.update], before);
    const moved = reused.update.find((slice) => circling.has(slice));
    const old = moved && remove.find(({ metadata }) => metadata.name === moved.metadata.name);
    if (old === undefined || isTerminating) {
      return { create: isTerminating ? [] : reused.create, update: ordered, remove: reused.remove };
    }
    reusable.delete(old);
  }
}

/**
 * Turns creates into updates of slices that would be removed, where these have the same family and `mayReuse` allows it. Each slice
 * gets the new content with most of its endpoints: two slices that swap their endpoints have no safe order of writing.
 */
function reuse(
  create: readonly SliceObject[],
  remove: readonly SliceObject[],
  mayReuse: (slice: SliceObject) => boolean,
): { create: SliceObject[]; update: SliceObject[]; remove: SliceObject[] } {
  const left = new Set(create);
  const homes = homesOf(create, idsOf);
  const update: SliceObject[] = [];
  const removed: SliceObject[] = [];
  for (const old of remove) {
    const fresh = mayReuse(old) ? successor(old, left, homes) : undefined;
    if (fresh === undefined) removed.push(old);
    else {
      left.delete(fresh);
      update.push(inPlaceOf(old, fresh));
    }
  }
  return { create: [...left], update, remove: removed };
}

/** The slice of the same family with most of the endpoints; the first of several. */
function successor(
  old: SliceObject,
  left: ReadonlySet<SliceObject>,
  homes: ReadonlyMap<string, SliceObject>,
): SliceObject | undefined {
  const shared = new Map<SliceObject, number>();
  for (const id of idsOf(old)) {
    const home = homes.get(id);
    if (home !== undefined) shared.set(home, (shared.get(home) ?? 0) + 1);
  }
  let best: SliceObject | undefined;
  for (const slice of left) {
    if (slice.addressType !== old.addressType) continue;
    if (best === undefined || (shared.get(slice) ?? 0) > (shared.get(best) ?? 0)) best = slice;
  }
  return best;
}

/** The slice of each key; the last one when several have the key. */
function homesOf(
  slices: readonly SliceObject[],
  keysOf: (slice: SliceObject) => readonly string[],
): Map<string, SliceObject> {
  const homes = new Map<string, SliceObject>();
  for (const slice of slices) for (const key of keysOf(slice)) homes.set(key, slice);
  return homes;
}

function idsOf({ endpoints }: SliceObject): string[] {
  return endpoints.map(endpointId);
}

function addressesOf({ endpoints }: SliceObject): string[] {
  return endpoints.flatMap(({ addresses }) => addresses);
}

/** The new content under the old name, with the old metadata that other writers added. */
function inPlaceOf({ metadata }: SliceObject, fresh: SliceObject): SliceObject {
  const { labels, annotations, ownerReferences } = fresh.metadata;
  return {
    ...fresh,
    metadata: {
      ...metadata,
      ...(labels ? { labels } : {}),
      ...(annotations ? { annotations } : {}),
      ...(ownerReferences ? { ownerReferences } : {}),
    },
  };
}

interface SafeOrder {
  /** In an order in which an address is in its new slice before it leaves the old one, even if another Pod has it then. */
  readonly ordered: readonly SliceObject[];
  /** Updates that exchange addresses in a circle: no order of them is safe, and they keep theirs. */
  readonly circling: ReadonlySet<SliceObject>;
}

/** `before`: the slices as they are. */
function inSafeOrder(updates: readonly SliceObject[], before: readonly SliceObject[]): SafeOrder {
  const was = new Map(before.map((slice) => [slice.metadata.name, new Set(addressesOf(slice))]));
  const addressesBefore = ({ metadata }: SliceObject): ReadonlySet<string> => was.get(metadata.name) ?? new Set();
  // When two Pods share an address, a slice that already has it need not come first.
  const homes = homesOf(updates, (slice) => [...new Set(addressesOf(slice)).difference(addressesBefore(slice))]);
  const ordered = new Set<SliceObject>();
  const circling = new Set<SliceObject>();
  const way: SliceObject[] = [];
  const visit = (slice: SliceObject): void => {
    if (ordered.has(slice)) return;
    const met = way.indexOf(slice);
    if (met >= 0) {
      for (const one of way.slice(met)) circling.add(one);
      return;
    }
    way.push(slice);
    for (const address of addressesBefore(slice).difference(new Set(addressesOf(slice)))) {
      const home = homes.get(address);
      if (home !== undefined) visit(home);
    }
    way.pop();
    ordered.add(slice);
  };
  for (const slice of updates) visit(slice);
  return { ordered: [...ordered], circling };
}

/** The owner of a slice; the garbage collector deletes the slice with it. */
interface SliceOwner {
  readonly kind: 'Service' | 'Endpoints';
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export interface SliceContent {
  readonly family: Family;
  readonly ports: readonly SlicePortObject[];
  readonly endpoints: readonly SliceEndpoint[];
}

/** A slice to create; the API server generates its name. */
export function sliceOf(
  { kind, namespace, name, uid }: SliceOwner,
  metadata: { readonly labels: Labels; readonly annotations?: Labels },
  { family, ports, endpoints }: SliceContent,
): SliceObject {
  const owner = { apiVersion: 'v1', kind, name, uid, controller: true, blockOwnerDeletion: true };
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { generateName: `${name}-`, namespace, ...metadata, ownerReferences: [owner] },
    addressType: family,
    endpoints,
    ports,
  };
}
