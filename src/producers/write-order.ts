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

/** Creates, as far as they can be, become updates of slices that would be removed: of the same family, and `mayReuse`. */
export function reuse(
  create: readonly SliceObject[],
  remove: readonly SliceObject[],
  mayReuse: (slice: SliceObject) => boolean,
): { create: SliceObject[]; update: SliceObject[]; remove: SliceObject[] } {
  const left = [...create];
  const update: SliceObject[] = [];
  const removed: SliceObject[] = [];
  for (const old of remove) {
    const at = mayReuse(old) ? left.findIndex(({ addressType }) => addressType === old.addressType) : -1;
    const [fresh] = at < 0 ? [] : left.splice(at, 1);
    if (fresh === undefined) removed.push(old);
    else update.push(inPlaceOf(old, fresh));
  }
  return { create: left, update, remove: removed };
}

/** The content of the new one under the name of the old one, with what others wrote into its metadata. */
function inPlaceOf({ metadata }: SliceObject, fresh: SliceObject): SliceObject {
  const { labels, ownerReferences } = fresh.metadata;
  return {
    ...fresh,
    metadata: { ...metadata, ...(labels ? { labels } : {}), ...(ownerReferences ? { ownerReferences } : {}) },
  };
}

/** Updates in such an order that an endpoint is in its new slice before it leaves the old one. Where they go in a circle, as they came. */
export function inSafeOrder(updates: readonly SliceObject[], before: readonly SliceObject[]): SliceObject[] {
  if (updates.length < 2) return [...updates];
  const homes = new Map<string, SliceObject>();
  for (const slice of updates) for (const endpoint of slice.endpoints) homes.set(endpointId(endpoint), slice);
  const was = new Map(before.map((slice) => [slice.metadata.name, slice]));
  const ordered = new Set<SliceObject>();
  const visiting = new Set<SliceObject>();
  const visit = (slice: SliceObject): void => {
    if (ordered.has(slice) || visiting.has(slice)) return;
    visiting.add(slice);
    for (const endpoint of was.get(slice.metadata.name)?.endpoints ?? []) {
      const home = homes.get(endpointId(endpoint));
      if (home !== undefined && home !== slice) visit(home);
    }
    ordered.add(slice);
  };
  for (const slice of updates) visit(slice);
  return [...ordered];
}
