/** The slices of a Service and family, before it is decided which are written. */
import type { SliceEndpoint, SliceObject } from './api-objects.ts';

export interface SlicesInHand {
  readonly create: readonly SliceObject[];
  readonly update: readonly SliceObject[];
  readonly unchanged: readonly SliceObject[];
}

/** Whether the endpoint is ready. */
export function isReady({ conditions }: SliceEndpoint): boolean {
  return conditions?.ready === true;
}

/** The slice with the hints of a function for each endpoint; undefined removes them. */
export function withHints(
  slice: SliceObject,
  hintsOf: (endpoint: SliceEndpoint) => SliceEndpoint['hints'],
): SliceObject {
  return { ...slice, endpoints: slice.endpoints.map((endpoint) => hinted(endpoint, hintsOf(endpoint))) };
}

/** The endpoint with these hints; undefined removes them. */
export function hinted(endpoint: SliceEndpoint, hints: SliceEndpoint['hints']): SliceEndpoint {
  if (hints) return { ...endpoint, hints };
  if (endpoint.hints === undefined) return endpoint;
  const { hints: _, ...rest } = endpoint;
  return rest;
}

/** Removes all hints. Unchanged slices that had hints are updated. */
export function withoutHints({ create, update, unchanged }: SlicesInHand): SlicesInHand {
  const hasHints = (slice: SliceObject) => slice.endpoints.some(({ hints }) => hints !== undefined && hints !== null);
  const plain = (slice: SliceObject) => withHints(slice, () => undefined);
  return {
    create: create.map(plain),
    update: [...update, ...unchanged.filter(hasHints)].map(plain),
    unchanged: unchanged.filter((slice) => !hasHints(slice)),
  };
}
