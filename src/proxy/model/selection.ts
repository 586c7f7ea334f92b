/** Selects the endpoints of a Service port on this node (docs/semantics.md 3, after kube-proxy's CategorizeEndpoints). Pure. */
import type { PortEndpoint } from './endpoints.ts';
import type { Endpoint, TrafficPolicy } from './objects.ts';
import {
  type EndpointUse,
  isDraining,
  isHere,
  isReady,
  isUsed,
  type Topology,
  useUnderCluster,
  useUnderLocal,
} from './selection-reasons.ts';

export interface SelectionInput {
  readonly endpoints: readonly PortEndpoint[];
  readonly internalPolicy: TrafficPolicy;
  /** Already `Cluster` when Local does not apply to the Service (docs/semantics.md 1.10). */
  readonly externalPolicy: TrafficPolicy;
  readonly externallyAccessible: boolean;
  readonly nodeName: string;
  /** "" when the Node has no label topology.kubernetes.io/zone. */
  readonly zone: string;
  /** Nodes that do not answer (docs/semantics.md 3.6). */
  readonly suspects?: readonly string[];
}

export interface Selection {
  /** For traffic under policy Cluster. */
  readonly cluster: readonly PortEndpoint[];
  /** For traffic under policy Local: on this node only. */
  readonly local: readonly PortEndpoint[];
  /** Whether any node has an endpoint that could answer. If so, an empty list means drop, otherwise reject. */
  readonly hasAny: boolean;
  /** The hints that narrowed `cluster` (docs/semantics.md 3.5). */
  readonly topology: Topology;
  /** The reason why hints are not used; undefined when they are used, or when there are none. */
  readonly idleHints: IdleHints | undefined;
  /** Ready endpoints that get no new connections, because their Node does not answer. */
  readonly held: ReadonlySet<Endpoint>;
}

/** Hints without an effect on this node: their zones, and the reason. */
export interface IdleHints {
  readonly zones: string;
  readonly why: string;
}

const NOTHING: Selection = {
  cluster: [],
  local: [],
  hasAny: false,
  topology: 'none',
  idleHints: undefined,
  held: new Set(),
};

/** The input with the endpoints that are held back. */
type Judged = Pick<SelectionInput, 'endpoints' | 'nodeName' | 'zone'> & { readonly held: ReadonlySet<Endpoint> };

/** Selects the endpoints of one Service port, in the order of the input. */
export function selectEndpoints(asked: SelectionInput): Selection {
  if (asked.endpoints.length === 0) return NOTHING;
  const held = ejected(asked.endpoints, asked.suspects);
  const input = { ...asked, held };
  const usesCluster = input.internalPolicy !== 'Local' || input.externallyAccessible;
  const usesLocal =
    input.internalPolicy === 'Local' || (input.externalPolicy === 'Local' && input.externallyAccessible);
  const topology = usesCluster ? topologyMode(input) : 'none';
  const idleHints = usesCluster && topology === 'none' ? idleHintsOf(input) : undefined;
  const cluster = usesCluster ? select(input, 'Cluster', topology) : [];
  if (!usesLocal) return { cluster, local: [], hasAny: cluster.length > 0, topology, idleHints, held };
  const hasAny =
    cluster.length > 0 || input.endpoints.some(({ endpoint }) => isReady(endpoint) || isDraining(endpoint));
  return { cluster, local: select(input, 'Local', topology), hasAny, topology, idleHints, held };
}

/**
 * Whether each endpoint is used under a policy, and why. `endpoints` are all endpoints of the Service port. Hints count only for policy
 * Cluster (docs/semantics.md 3.2).
 */
export function judge(
  asked: Pick<SelectionInput, 'endpoints' | 'nodeName' | 'zone' | 'suspects'>,
  policy: TrafficPolicy,
): (endpoint: Endpoint) => EndpointUse {
  const input = { ...asked, held: ejected(asked.endpoints, asked.suspects) };
  return useOfEach(input, policy, topologyMode(input));
}

function useOfEach(
  { endpoints, nodeName, zone, held }: Judged,
  policy: TrafficPolicy,
  topology: Topology,
): (endpoint: Endpoint) => EndpointUse {
  if (policy === 'Cluster') {
    // Hints count only where they name a ready endpoint.
    const hasReady = endpoints.some(({ endpoint }) => isReady(endpoint));
    return (endpoint) => useUnderCluster(endpoint, { topology, nodeName, zone, hasReady, held });
  }
  const hasReady = endpoints.some(({ endpoint }) => isHere(endpoint, nodeName) && isReady(endpoint));
  return (endpoint) => useUnderLocal(endpoint, { topology: 'none', nodeName, zone, hasReady });
}

function select(input: SelectionInput & Judged, policy: TrafficPolicy, topology: Topology): PortEndpoint[] {
  const useOf = useOfEach(input, policy, topology);
  return input.endpoints.filter(({ endpoint }) => isUsed(useOf(endpoint)));
}

/** KEP-4444: node hints before zone hints, and only when every ready endpoint has one and one names this node or zone (docs/semantics.md 3.5). */
function topologyMode(input: Judged): Topology {
  const ready = readyOf(input);
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
function idleHintsOf(input: Judged): IdleHints | undefined {
  const { zone } = input;
  const ready = readyOf(input);
  const zones = new Set(ready.flatMap((e) => e.endpoint.zoneHints));
  if (zones.size === 0) return undefined;
  const why = ready.some((e) => e.endpoint.zoneHints.length === 0)
    ? 'not every ready endpoint has a hint'
    : zone === ''
      ? 'this node has no label topology.kubernetes.io/zone'
      : `no hint names this node's zone ${zone}`;
  return { zones: [...zones].sort().join(','), why };
}

/** Ready endpoints that are not held back. */
function readyOf({ endpoints, held }: Judged): PortEndpoint[] {
  return endpoints.filter(({ endpoint }) => isReady(endpoint) && !held.has(endpoint));
}

// Endpoints that get no new connections because their Node does not answer (docs/semantics.md 3.6, k8s#101101). Pure.

const NONE: ReadonlySet<Endpoint> = new Set();

/**
 * The endpoints of a Service port and family that are held back. `endpoints` are sorted by `ip:port`, so that every node holds the same
 * ones. At most half of the ready endpoints are held, so never the last one, and none where no other Node has a ready one.
 */
export function ejected(
  endpoints: readonly PortEndpoint[],
  suspects: readonly string[] | undefined,
): ReadonlySet<Endpoint> {
  if (suspects === undefined || suspects.length === 0) return NONE;
  const ready = endpoints.filter(({ endpoint }) => isReady(endpoint));
  const doubtful = ready.filter(({ endpoint }) => suspects.includes(endpoint.nodeName));
  if (doubtful.length === 0 || doubtful.length === ready.length) return NONE;
  return new Set(doubtful.slice(0, Math.floor(ready.length / 2)).map(({ endpoint }) => endpoint));
}
