/** Selects the endpoints of a Service port on this node (docs/semantics.md 3, after kube-proxy's CategorizeEndpoints). Pure. */
import { isOnNode, type PortEndpoint } from './endpoints.ts';
import type { TrafficPolicy } from './objects.ts';

export interface SelectionInput {
  readonly endpoints: readonly PortEndpoint[];
  readonly internalPolicy: TrafficPolicy;
  /** Already `Cluster` when Local does not apply to the Service (docs/semantics.md 1.10). */
  readonly externalPolicy: TrafficPolicy;
  readonly externallyAccessible: boolean;
  readonly nodeName: string;
  /** "" when the Node has no label topology.kubernetes.io/zone. */
  readonly zone: string;
}

export interface Selection {
  /** For traffic under policy Cluster. */
  readonly cluster: readonly PortEndpoint[];
  /** For traffic under policy Local: on this node only. */
  readonly local: readonly PortEndpoint[];
  /** Whether any node has an endpoint that could answer. If so, an empty list means drop, otherwise reject. */
  readonly hasAny: boolean;
  /** The hints that narrowed `cluster` (docs/semantics.md 3.5). */
  readonly topology: 'none' | 'same-node' | 'same-zone';
  /** The reason why hints are not used; undefined when they are used, or when there are none. */
  readonly idleHints: IdleHints | undefined;
}

/** Hints without an effect on this node: their zones, and the reason. */
export interface IdleHints {
  readonly zones: string;
  readonly why: string;
}

const NOTHING: Selection = { cluster: [], local: [], hasAny: false, topology: 'none', idleHints: undefined };

/** Selects the endpoints of one Service port, in the order of the input. */
export function selectEndpoints(input: SelectionInput): Selection {
  if (input.endpoints.length === 0) return NOTHING;
  const usesCluster = input.internalPolicy !== 'Local' || input.externallyAccessible;
  const usesLocal =
    input.internalPolicy === 'Local' || (input.externalPolicy === 'Local' && input.externallyAccessible);
  const topology = usesCluster ? topologyMode(input) : 'none';
  const idleHints = usesCluster && topology === 'none' ? idleHintsOf(input) : undefined;
  const cluster = usesCluster ? selectCluster(input, topology) : [];
  if (!usesLocal) return { cluster, local: [], hasAny: cluster.length > 0, topology, idleHints };
  const hasAny = cluster.length > 0 || input.endpoints.some((e) => isReady(e) || isDraining(e));
  return { cluster, local: selectLocal(input), hasAny, topology, idleHints };
}

/** Ready endpoints that pass the hints. Without any: terminating endpoints that still serve, regardless of hints (KEP-1669). */
function selectCluster(input: SelectionInput, topology: Selection['topology']): PortEndpoint[] {
  const ready = input.endpoints.filter((e) => isReady(e) && passesHints(e, topology, input));
  return ready.length > 0 ? ready : input.endpoints.filter(isDraining);
}

/** The same for endpoints on this node. Hints never apply to policy Local (docs/semantics.md 3.2). */
function selectLocal(input: SelectionInput): PortEndpoint[] {
  const local = input.endpoints.filter((e) => isOnNode(e, input.nodeName));
  const ready = local.filter(isReady);
  return ready.length > 0 ? ready : local.filter(isDraining);
}

function isReady(e: PortEndpoint): boolean {
  return e.endpoint.ready;
}

function isDraining(e: PortEndpoint): boolean {
  return e.endpoint.serving && e.endpoint.terminating;
}

/** KEP-4444: node hints before zone hints, and only when every ready endpoint has one and one names this node or zone (docs/semantics.md 3.5). */
function topologyMode(input: SelectionInput): Selection['topology'] {
  const ready = input.endpoints.filter(isReady);
  if (ready.length === 0) return 'none';
  const all = (hints: (e: PortEndpoint) => readonly string[]) => ready.every((e) => hints(e).length > 0);
  const nodeHints = (e: PortEndpoint) => e.endpoint.nodeHints;
  const zoneHints = (e: PortEndpoint) => e.endpoint.zoneHints;
  if (input.nodeName !== '' && all(nodeHints) && ready.some((e) => nodeHints(e).includes(input.nodeName))) {
    return 'same-node';
  }
  if (input.zone !== '' && all(zoneHints) && ready.some((e) => zoneHints(e).includes(input.zone))) return 'same-zone';
  return 'none';
}

/** The reason why zone hints are not used: the first in the order of docs/semantics.md 3.5. */
function idleHintsOf({ endpoints, zone }: SelectionInput): IdleHints | undefined {
  const ready = endpoints.filter(isReady);
  const zones = new Set(ready.flatMap((e) => e.endpoint.zoneHints));
  if (zones.size === 0) return undefined;
  const why = ready.some((e) => e.endpoint.zoneHints.length === 0)
    ? 'not every ready endpoint has a hint'
    : zone === ''
      ? 'this node has no label topology.kubernetes.io/zone'
      : `no hint names this node's zone ${zone}`;
  return { zones: [...zones].sort().join(','), why };
}

function passesHints(e: PortEndpoint, topology: Selection['topology'], input: SelectionInput): boolean {
  if (topology === 'same-node') return e.endpoint.nodeHints.includes(input.nodeName);
  if (topology === 'same-zone') return e.endpoint.zoneHints.includes(input.zone);
  return true;
}
