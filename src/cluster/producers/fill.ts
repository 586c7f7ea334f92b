/**
 * Distributes the endpoints of one family and one set of ports over slices, with few writes (KEP-752, "Reconciliation"):
 * 1. existing endpoints stay in their slices, and are updated there;
 * 2. slices that change anyway are filled, the fullest first;
 * 3. the rest goes into the fullest slice with room for all of it, otherwise into new slices.
 */
import type { SliceEndpoint, SliceObject } from './api-objects.ts';
import { endpointId, sameEndpoint } from './pod-endpoint.ts';

export interface FillInput {
  readonly existing: readonly SliceObject[];
  /** By `endpointId`, in the order in which they go into new slices. */
  readonly desired: ReadonlyMap<string, SliceEndpoint>;
  /** The slice with the labels of its parent; the same object when they are right. */
  readonly refreshed: (slice: SliceObject) => SliceObject;
  readonly newSlice: () => SliceObject;
  /** The largest number of endpoints of a slice. */
  readonly mostPerSlice: number;
}

export interface Filled {
  readonly create: SliceObject[];
  readonly update: SliceObject[];
  readonly remove: SliceObject[];
  readonly unchanged: SliceObject[];
  readonly added: number;
  readonly removed: number;
}

/** Slices with the desired endpoints, and the unchanged ones. */
export function fillSlices(input: FillInput): Filled {
  const { mostPerSlice } = input;
  const left = new Map(input.desired);
  const { changed, unchanged, remove, removed } = keep(input, left);
  const rest = [...left.values()];
  const added = rest.length;
  const update = changed
    .sort((a, b) => b.endpoints.length - a.endpoints.length)
    .map((slice) => ({ ...slice, endpoints: topUp(slice.endpoints, rest, mostPerSlice) }));
  const create: SliceObject[] = [];
  while (rest.length > 0) {
    const room = rest.length <= mostPerSlice ? roomiest(unchanged, rest.length, mostPerSlice) : undefined;
    const slice = room ?? input.newSlice();
    const filled = { ...slice, endpoints: topUp(slice.endpoints, rest, mostPerSlice) };
    if (room === undefined) create.push(filled);
    else {
      unchanged.splice(unchanged.indexOf(room), 1);
      update.push(filled);
    }
  }
  return { create, update, remove, unchanged, added, removed };
}

/** Keeps desired endpoints in their slices, and removes them from `left`. A duplicate endpoint is kept once. */
function keep({ existing, refreshed }: FillInput, left: Map<string, SliceEndpoint>) {
  const kept = {
    changed: [] as SliceObject[],
    unchanged: [] as SliceObject[],
    remove: [] as SliceObject[],
    removed: 0,
  };
  for (const slice of existing) {
    const endpoints: SliceEndpoint[] = [];
    let isSame = true;
    for (const endpoint of slice.endpoints) {
      const id = endpointId(endpoint);
      const wanted = left.get(id);
      if (wanted === undefined) continue;
      left.delete(id);
      endpoints.push(wanted);
      isSame &&= sameEndpoint(endpoint, wanted);
    }
    const gone = slice.endpoints.length - endpoints.length;
    kept.removed += gone;
    const parent = refreshed(slice);
    if (gone > 0 && endpoints.length === 0) kept.remove.push(slice);
    else if (gone > 0 || !isSame) kept.changed.push({ ...parent, endpoints });
    else if (parent !== slice) kept.changed.push(parent);
    else kept.unchanged.push(slice);
  }
  return kept;
}

/** Moves endpoints from the front of `rest`, as many as fit. */
function topUp(endpoints: readonly SliceEndpoint[], rest: SliceEndpoint[], most: number): SliceEndpoint[] {
  return [...endpoints, ...rest.splice(0, Math.max(0, most - endpoints.length))];
}

/** The fullest slice with room for so many more endpoints; undefined when there is none. */
function roomiest(slices: readonly SliceObject[], more: number, most: number): SliceObject | undefined {
  let best: SliceObject | undefined;
  for (const slice of slices) {
    if (slice.endpoints.length + more > most) continue;
    if (best === undefined || slice.endpoints.length > best.endpoints.length) best = slice;
  }
  return best;
}
