/**
 * Whether a node uses an endpoint, and why (docs/semantics.md 3.4). `selection.ts` selects by these answers, so that an explanation
 * cannot differ from the selection. Pure.
 */
import type { Endpoint } from './objects.ts';

/** An endpoint that is used has one of the first two reasons. */
export type EndpointUse =
  | 'ready'
  /** It terminates and still serves, and no ready endpoint is left (KEP-1669). */
  | 'draining'
  /** It terminates and still serves, and ready endpoints are there. */
  | 'replaced by ready ones'
  | 'terminating'
  | 'not ready'
  | 'hinted for other nodes'
  | 'hinted for other zones'
  /** It is ready by its slice, and its Node does not answer this one (docs/semantics.md 3.6). */
  | 'node does not answer'
  /** Policy Local: its slice names another node, or none. */
  | 'not on this node';

/** The hints that count (docs/semantics.md 3.5). */
export type Topology = 'none' | 'same-node' | 'same-zone';

export interface UseContext {
  readonly topology: Topology;
  readonly nodeName: string;
  /** "" when the Node has no zone. */
  readonly zone: string;
  /** Whether an endpoint of the list is ready. */
  readonly hasReady: boolean;
  /** Endpoints that are held back (`heldBack`). */
  readonly held: ReadonlySet<Endpoint>;
}

export function isUsed(use: EndpointUse): boolean {
  return use === 'ready' || use === 'draining';
}

export function isReady(endpoint: Pick<Endpoint, 'ready'>): boolean {
  return endpoint.ready;
}

export function isDraining({ serving, terminating }: Pick<Endpoint, 'serving' | 'terminating'>): boolean {
  return serving && terminating;
}

/** Whether its slice names this node. */
export function isHere({ nodeName }: Endpoint, here: string): boolean {
  return here !== '' && nodeName === here;
}

/** Of policy Cluster: ready endpoints that pass the hints, and are not held back. Without any: draining ones, regardless of hints (KEP-1669). */
export function useUnderCluster(endpoint: Endpoint, context: UseContext): EndpointUse {
  if (!isReady(endpoint)) return unreadyUse(endpoint, context);
  const { topology, nodeName, zone, held } = context;
  if (held.has(endpoint)) return 'node does not answer';
  if (topology === 'same-node' && !endpoint.nodeHints.includes(nodeName)) return 'hinted for other nodes';
  if (topology === 'same-zone' && !endpoint.zoneHints.includes(zone)) return 'hinted for other zones';
  return 'ready';
}

/** Of policy Local: the same for endpoints on this node. Hints never apply (docs/semantics.md 3.2), and this node answers itself. */
export function useUnderLocal(endpoint: Endpoint, context: Omit<UseContext, 'held'>): EndpointUse {
  if (!isHere(endpoint, context.nodeName)) return 'not on this node';
  return isReady(endpoint) ? 'ready' : unreadyUse(endpoint, context);
}

function unreadyUse(endpoint: Endpoint, { hasReady }: Pick<UseContext, 'hasReady'>): EndpointUse {
  if (isDraining(endpoint)) return hasReady ? 'replaced by ready ones' : 'draining';
  return endpoint.terminating ? 'terminating' : 'not ready';
}
