/**
 * Selects the endpoints of a Service port on this node, and gives the reason for each one (docs/semantics.md 3, after kube-proxy's
 * CategorizeEndpoints). The words that people read about a reason are in explain/slice-endpoints.ts and explain/reasons.ts. Pure.
 */
import type { PortEndpoint } from './endpoints.ts';
import type { Endpoint, TrafficPolicy } from './objects.ts';

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
  /** It is a backup, or its weight is 0, and another endpoint is ready (docs/traffic.md). */
  | 'standby'
  /** Policy Local: its slice names another node, or none. */
  | 'not on this node';

/** The hints that count (docs/semantics.md 3.5). */
type Topology = 'none' | 'same-node' | 'same-zone';

interface SelectionInput {
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
  /** Endpoints that get none because others are there that are no backups and have a weight; draining ones where no endpoint is ready. */
  readonly standby: ReadonlySet<Endpoint>;
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
  standby: new Set(),
};

/** The input with the endpoints that are held back. */
type Judged = Pick<SelectionInput, 'endpoints' | 'nodeName' | 'zone'> & Pick<Selection, 'held' | 'standby'>;

/** Selects the endpoints of one Service port, in the order of the input. */
export function selectEndpoints(request: SelectionInput): Selection {
  if (request.endpoints.length === 0) return NOTHING;
  const input = judged(request);
  const { held, standby } = input;
  const usesCluster = input.internalPolicy !== 'Local' || input.externallyAccessible;
  const usesLocal =
    input.internalPolicy === 'Local' || (input.externalPolicy === 'Local' && input.externallyAccessible);
  const topology = usesCluster ? topologyMode(input) : 'none';
  const idleHints = usesCluster && topology === 'none' ? idleHintsOf(input) : undefined;
  const cluster = usesCluster ? select(input, 'Cluster', topology) : [];
  if (!usesLocal) return { cluster, local: [], hasAny: cluster.length > 0, topology, idleHints, held, standby };
  const hasAny =
    cluster.length > 0 || input.endpoints.some(({ endpoint }) => isReady(endpoint) || isDraining(endpoint));
  return { cluster, local: select(input, 'Local', topology), hasAny, topology, idleHints, held, standby };
}

/**
 * Whether each endpoint is used under a policy, and why. `endpoints` are all endpoints of the Service port. Hints count only for policy
 * Cluster (docs/semantics.md 3.2).
 */
export function judge(
  request: Pick<SelectionInput, 'endpoints' | 'nodeName' | 'zone' | 'suspects'>,
  policy: TrafficPolicy,
): (endpoint: Endpoint) => EndpointUse {
  const input = judged(request);
  return useOfEach(input, policy, topologyMode(input));
}

function judged<T extends Pick<SelectionInput, 'endpoints' | 'suspects'>>(
  request: T,
): T & Pick<Selection, 'held' | 'standby'> {
  const { endpoints } = request;
  const hasReady = endpoints.some(({ endpoint }) => isReady(endpoint));
  const standby = spareOf(endpoints, hasReady ? isReady : isDraining);
  const others = standby.size === 0 ? endpoints : endpoints.filter((e) => !standby.has(e.endpoint));
  return { ...request, held: ejected(others, request.suspects), standby };
}

function useOfEach(
  { endpoints, nodeName, zone, held, standby }: Judged,
  policy: TrafficPolicy,
  topology: Topology,
): (endpoint: Endpoint) => EndpointUse {
  if (policy === 'Cluster') {
    // Hints count only where they name a ready endpoint.
    const hasReady = endpoints.some(({ endpoint }) => isReady(endpoint));
    return (endpoint) => useUnderCluster(endpoint, { topology, nodeName, zone, hasReady, held, standby });
  }
  const here = endpoints.filter(({ endpoint }) => isHere(endpoint, nodeName));
  const hasReady = here.some(({ endpoint }) => isReady(endpoint) && !standby.has(endpoint));
  const idle = hasReady ? standby : standby.union(spareOf(here, isDraining));
  return (endpoint) => useUnderLocal(endpoint, { topology: 'none', nodeName, zone, hasReady, standby: idle });
}

// The decision about one endpoint, with its reason (docs/semantics.md 3.4). Selection and explanation share it, so they cannot differ.

interface UseContext {
  readonly topology: Topology;
  readonly nodeName: string;
  /** "" when the Node has no zone. */
  readonly zone: string;
  /** Whether an endpoint of the list is ready. */
  readonly hasReady: boolean;
  /** Endpoints that are held back (`ejected`). */
  readonly held: ReadonlySet<Endpoint>;
  readonly standby: ReadonlySet<Endpoint>;
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

/**
 * Policy Cluster uses ready endpoints that pass the hints and are not held back. Where no endpoint is ready, it uses draining ones,
 * regardless of hints (KEP-1669).
 */
function useUnderCluster(endpoint: Endpoint, context: UseContext): EndpointUse {
  if (!isReady(endpoint)) return unreadyUse(endpoint, context);
  const { topology, nodeName, zone, held, standby } = context;
  if (standby.has(endpoint)) return 'standby';
  if (held.has(endpoint)) return 'node does not answer';
  if (topology === 'same-node' && !endpoint.nodeHints.includes(nodeName)) return 'hinted for other nodes';
  if (topology === 'same-zone' && !endpoint.zoneHints.includes(zone)) return 'hinted for other zones';
  return 'ready';
}

/** Policy Local does the same with endpoints on this node. Hints never apply (docs/semantics.md 3.2), and this node answers itself. */
function useUnderLocal(endpoint: Endpoint, context: Omit<UseContext, 'held'>): EndpointUse {
  if (!isHere(endpoint, context.nodeName)) return 'not on this node';
  if (!isReady(endpoint)) return unreadyUse(endpoint, context);
  return context.standby.has(endpoint) ? 'standby' : 'ready';
}

function unreadyUse(endpoint: Endpoint, { hasReady, standby }: Pick<UseContext, 'hasReady' | 'standby'>): EndpointUse {
  if (isDraining(endpoint)) {
    if (hasReady) return 'replaced by ready ones';
    return standby.has(endpoint) ? 'standby' : 'draining';
  }
  return endpoint.terminating ? 'terminating' : 'not ready';
}

function select(input: SelectionInput & Judged, policy: TrafficPolicy, topology: Topology): PortEndpoint[] {
  const useOf = useOfEach(input, policy, topology);
  return input.endpoints.filter(({ endpoint }) => isUsed(useOf(endpoint)));
}

/**
 * Node hints count before zone hints, and only when every ready endpoint has one and one of them names this node or zone (KEP-4444,
 * docs/semantics.md 3.5).
 */
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

/** Each port of a Service has this text, and hints are anybody's. */
const MAX_NAMED_ZONES = 10;

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
  const named = [...zones].sort().slice(0, MAX_NAMED_ZONES);
  const more = zones.size - named.length;
  return { zones: `${named.join(',')}${more > 0 ? ` and ${more} more` : ''}`, why };
}

/** Ready endpoints that are not held back, and no standby. */
function readyOf({ endpoints, held, standby }: Judged): PortEndpoint[] {
  return endpoints.filter(({ endpoint }) => isReady(endpoint) && !held.has(endpoint) && !standby.has(endpoint));
}

// Endpoints that get no new connections because their Node does not answer (docs/semantics.md 3.6, k8s#101101).

const NONE: ReadonlySet<Endpoint> = new Set();

/** Whether an endpoint is for the time when no other one is ready: it is a backup, or its weight is 0. */
function isSpare({ isBackup, weight }: Endpoint): boolean {
  return isBackup === true || weight === 0;
}

/**
 * The spare ones among these endpoints, where there are others. A backup with a weight comes before those without one. Of endpoints that are left,
 * so, all have a weight, or none has.
 */
function spareOf(endpoints: readonly PortEndpoint[], isAmong: (endpoint: Endpoint) => boolean): ReadonlySet<Endpoint> {
  if (!endpoints.some(({ endpoint }) => isSpare(endpoint))) return NONE;
  const among = endpoints.map(({ endpoint }) => endpoint).filter(isAmong);
  const isFirst = [(one: Endpoint) => !isSpare(one), (one: Endpoint) => one.weight !== 0].find((is) => among.some(is));
  return isFirst === undefined ? NONE : new Set(among.filter((one) => !isFirst(one)));
}

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
