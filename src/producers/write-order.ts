/**
 * The order of writes, and which slices are written anew rather than removed. Who watches sees one write after another,
 * and a write may fail: no endpoint may be in no slice between two of them, where it was in one before and will be after.
 */
import type { SliceEndpoint, SliceObject } from './objects.ts';
import { endpointId } from './pod-endpoint.ts';

/**
 * Endpoints in the order in which they stand in slices now, the new ones behind them: slices that are written anew for
 * another set of ports then take over what one slice had, or the one before it.
 */
export function byStanding(
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

/**
 * Creates, as far as they can be, become updates of slices that would be removed: of the same family, and `mayReuse`. Each
 * gets the one that takes most of its endpoints over: two that swapped theirs could be written in no safe order.
 */
export function reuse(
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

/** Of the slices that are left and of its family the one with most of its endpoints; of equal ones the first. */
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

/** In which slice each thing stands that a slice is asked for; where in several, in the last. */
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

/** The content of the new one under the name of the old one, with what others wrote into its metadata. */
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

/**
 * Updates in such an order that an address is in its new slice before it leaves the old one, be it that of another Pod by
 * then. Where they go in a circle, as they came.
 */
export function inSafeOrder(updates: readonly SliceObject[], before: readonly SliceObject[]): SliceObject[] {
  if (updates.length < 2) return [...updates];
  const was = new Map(before.map((slice) => [slice.metadata.name, new Set(addressesOf(slice))]));
  const addressesBefore = ({ metadata }: SliceObject): ReadonlySet<string> => was.get(metadata.name) ?? new Set();
  // Where two Pods share an address, a slice that has it anyway need not come first.
  const homes = homesOf(updates, (slice) => [...new Set(addressesOf(slice)).difference(addressesBefore(slice))]);
  const ordered = new Set<SliceObject>();
  const visiting = new Set<SliceObject>();
  const visit = (slice: SliceObject): void => {
    if (ordered.has(slice) || visiting.has(slice)) return;
    visiting.add(slice);
    for (const address of addressesBefore(slice).difference(new Set(addressesOf(slice)))) {
      const home = homes.get(address);
      if (home !== undefined) visit(home);
    }
    ordered.add(slice);
  };
  for (const slice of updates) visit(slice);
  return [...ordered];
}
