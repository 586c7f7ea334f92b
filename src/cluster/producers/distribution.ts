/** Hints for `trafficDistribution` (KEP-4444, KEP-3015): each ready endpoint gets its own zone, and its own node for PreferSameNode. */

import type { TrafficDistribution } from '../../proxy/model/objects.ts';
import type { SliceEndpoint, SliceObject } from './objects.ts';
import { isReady, type SlicesInHand, withHints } from './slices-in-hand.ts';

/** Adds hints to slices that change anyway, and to others whose hints are missing or wrong. */
export function hintByDistribution(slices: SlicesInHand, distribution: TrafficDistribution): SlicesInHand {
  const hintsOf = (endpoint: SliceEndpoint) => ownHints(endpoint, distribution === 'PreferSameNode');
  const hinted = (slice: SliceObject) => withHints(slice, hintsOf);
  const isRight = (slice: SliceObject) =>
    slice.endpoints.every((endpoint) => !isReady(endpoint) || sameHints(endpoint.hints, hintsOf(endpoint)));
  return {
    create: slices.create.map(hinted),
    update: [...slices.update, ...slices.unchanged.filter((slice) => !isRight(slice))].map(hinted),
    unchanged: slices.unchanged.filter(isRight),
  };
}

function ownHints(endpoint: SliceEndpoint, withNode: boolean): SliceEndpoint['hints'] {
  if (!isReady(endpoint)) return undefined;
  const { zone, nodeName } = endpoint;
  const forZones = zone ? { forZones: [{ name: zone }] } : {};
  const forNodes = withNode && nodeName ? { forNodes: [{ name: nodeName }] } : {};
  return zone || (withNode && nodeName) ? { ...forZones, ...forNodes } : undefined;
}

function sameHints(a: SliceEndpoint['hints'], b: SliceEndpoint['hints']): boolean {
  const text = (hints: SliceEndpoint['hints']) =>
    JSON.stringify([(hints?.forZones ?? []).map(({ name }) => name), (hints?.forNodes ?? []).map(({ name }) => name)]);
  return text(a) === text(b);
}
