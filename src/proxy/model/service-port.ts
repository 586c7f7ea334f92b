/** Makes ServicePorts of a Service and its slices: one for each port and family, with its frontends and backends. Pure. */

import {
  type Address,
  type Cidr,
  FAMILIES,
  type Family,
  familyOf,
  holdsAll,
  type Protocol,
  socketBytes,
} from '../../base/address.ts';
import { type EndpointsByPort, MAX_PAIRS, mergeSlices, type PortEndpoint, portKey } from './endpoints.ts';
import type { SchedulerText } from './ipvs-scheduler.ts';
import type { Limit } from './limits.ts';
import {
  type HashedBy,
  type Service,
  type ServiceKey,
  type ServicePortSpec,
  type Slice,
  type TrafficPolicy,
  USUAL_WEIGHT,
} from './objects.ts';
import { type IdleHints, isHere, type Selection, selectEndpoints } from './selection.ts';

export type FrontendRole = 'cluster-ip' | 'external-ip' | 'load-balancer' | 'node-port';

/** An `address:port` at which clients reach a ServicePort. */
export interface Frontend {
  readonly role: FrontendRole;
  /** undefined for a node port, which is served on the node's addresses. */
  readonly address: Address | undefined;
  readonly port: number;
  readonly policy: TrafficPolicy;
  /** The fate of a new connection without backends: reject when no node has an endpoint, otherwise drop (docs/semantics.md 4.1). */
  readonly empty: 'reject' | 'drop' | undefined;
}

/** An endpoint that gets new connections. */
export interface Backend {
  readonly address: Address;
  readonly port: number;
  /** `ip:port`. */
  readonly text: string;
  /** It runs on this node, or its node is unknown: by every frontend it can reach itself (docs/semantics.md 7.7). */
  readonly hairpin: boolean;
  /** Its part of new connections, of the sum of all weights of its list; absent in a list whose endpoints get equal parts (docs/traffic.md). */
  readonly weight?: number;
}

/** The sum of the weights of a list; the number of its backends where they have none. */
export function totalWeight(backends: readonly Pick<Backend, 'weight'>[]): number {
  return backends.reduce((sum, { weight = 1 }) => sum + weight, 0);
}

/** `namespace/name[:port]/PROTOCOL/family`: the unit of the model's changes. */
export type ServicePortKey = string;

/** The family in a key. */
export function familyOfPort(key: ServicePortKey): Family {
  return key.endsWith('/IPv6') ? 'IPv6' : 'IPv4';
}

/** The Service in a key. */
export function serviceOfPort(key: ServicePortKey): ServiceKey {
  return /^[^/]*\/[^/:]*/.exec(key)?.[0] ?? key;
}

/** A port of a Service in one family. Its frontends share the backends. */
export interface ServicePort {
  readonly key: ServicePortKey;
  /** `namespace/name[:port]`, as kube-proxy writes and hashes it. */
  readonly id: string;
  readonly service: ServiceKey;
  readonly family: Family;
  readonly protocol: Protocol;
  readonly frontends: readonly Frontend[];
  /** Backends of policy Cluster and of policy Local, each sorted by `ip:port`. */
  readonly cluster: readonly Backend[];
  readonly local: readonly Backend[];
  readonly hasAny: boolean;
  readonly internalPolicy: TrafficPolicy;
  readonly externalPolicy: TrafficPolicy;
  readonly affinitySeconds: number;
  /** Clients of this family that may use the load balancer's addresses; undefined when all may, empty when none may. */
  readonly sourceRanges: readonly Cidr[] | undefined;
  /** 0 for none. */
  readonly healthCheckNodePort: number;
  /** With a health check port: addresses of the endpoints on this node that are ready (docs/semantics.md 9.5); otherwise none. */
  readonly readyLocal: readonly Address[];
  /** For UDP: endpoints whose flows may go on. undefined for other protocols, whose connections end by themselves. */
  readonly flowTargets: FlowTargets | undefined;
  /**
   * For other protocols: endpoints, as `ip:port`, that are ready or serve but are no backends. A terminating endpoint, or one that
   * hints exclude, may still answer an opening connection. Usually empty.
   */
  readonly alsoAnswering: readonly string[];
  /** By what of the client its endpoint is chosen; absent: by chance. */
  readonly hashes?: HashedBy;
  /** In the order of `LIMIT_NAMES`; absent for none. */
  readonly limits?: readonly Limit[];
  /** The Service's own scheduler in IPVS mode; absent where it has that of the node. */
  readonly ipvsScheduler?: SchedulerText;
  /** The reason why hints are not used; undefined when they are used, or when there are none. */
  readonly idleHints: IdleHints | undefined;
}

/**
 * Endpoints, as `socketBytes`, whose existing flows may go on: ready and serving ones. Policies and hints decide only about new
 * flows (docs/semantics.md 8.2).
 */
export interface FlowTargets {
  readonly all: readonly string[];
  /** Those on this node. */
  readonly local: readonly string[];
}

/**
 * Whether the limits of a ServicePort hold at a frontend. They do not where this node drops or refuses clients anyway: strangers would use
 * them up. And not where an endpoint has the address and port of the frontend: what is translated to itself looks as if it was not.
 */
export function isLimitedAt(
  { limits, cluster, local }: Pick<ServicePort, 'limits' | 'cluster' | 'local'>,
  { address, port, empty }: Frontend,
): boolean {
  if (limits === undefined || empty !== undefined) return false;
  const isItself = (backend: Backend) =>
    backend.port === port && (address === undefined || backend.address === address);
  return !cluster.some(isItself) && !local.some(isItself);
}

/** The place of the agent, on which the selection of endpoints depends. */
export interface Location {
  readonly nodeName: string;
  readonly zone: string;
  /** Nodes that do not answer this one, sorted (docs/semantics.md 3.6). */
  readonly suspects?: readonly string[];
}

/** The keys of the ports in slices that a Service asks for. */
function wantedPorts({ ports }: Service): ReadonlySet<string> {
  return new Set(ports.map(({ name, protocol }) => portKey(name, protocol)));
}

/** The slices of a Service whose pairs are within `MAX_PAIRS`, the first by name, and the number of all pairs. */
export function withinPairs(
  service: Service,
  slices: readonly Slice[],
): { readonly slices: readonly Slice[]; readonly pairs: number } {
  // Nearly every Service is far below the limit with all ports of its slices.
  const most = slices.reduce((sum, { ports, endpoints }) => sum + ports.length * endpoints.length, 0);
  if (most <= MAX_PAIRS) return { slices, pairs: most };
  const wanted = wantedPorts(service);
  const pairsOf = ({ ports, endpoints }: Slice) =>
    ports.filter(({ name, protocol }) => wanted.has(portKey(name, protocol))).length * endpoints.length;
  const ordered = [...slices].sort((a, b) => (a.key < b.key ? -1 : 1));
  let pairs = 0;
  const within = ordered.filter((slice) => {
    pairs += pairsOf(slice);
    return pairs <= MAX_PAIRS;
  });
  return { slices: within, pairs };
}

/** All ServicePorts of a Service, of both families. */
export function servicePorts(service: Service, slices: readonly Slice[], location: Location): ServicePort[] {
  const ports: ServicePort[] = [];
  const wanted = wantedPorts(service);
  for (const family of FAMILIES) {
    const clusterIP = service.clusterIPs.find((address) => familyOf(address) === family);
    if (clusterIP === undefined) continue;
    const endpoints = mergeSlices(slices, family, wanted);
    for (const spec of service.ports) ports.push(servicePort({ service, spec, clusterIP, endpoints, location }));
  }
  return ports;
}

interface PortInput {
  readonly service: Service;
  readonly spec: ServicePortSpec;
  readonly clusterIP: Address;
  readonly endpoints: EndpointsByPort;
  readonly location: Location;
}

function servicePort({ service, spec, clusterIP, endpoints, location }: PortInput): ServicePort {
  const family = familyOf(clusterIP);
  const ofFamily = (list: readonly Address[]) => list.filter((address) => familyOf(address) === family);
  const externalIPs = ofFamily(service.externalIPs);
  const loadBalancerIPs = ofFamily(service.loadBalancerIPs);
  const externallyAccessible = spec.nodePort !== 0 || externalIPs.length > 0 || loadBalancerIPs.length > 0;
  const internalPolicy = service.internalTrafficPolicy;
  const externalPolicy = honoursExternalLocal(service) ? service.externalTrafficPolicy : 'Cluster';
  const ofPort = endpoints.get(portKey(spec.name, spec.protocol)) ?? [];
  const selection = selectEndpoints({
    endpoints: ofPort,
    internalPolicy,
    externalPolicy,
    externallyAccessible,
    ...location,
  });
  const empty = (policy: TrafficPolicy): Frontend['empty'] => {
    if (!selection.hasAny) return 'reject';
    return policy === 'Local' && selection.local.length === 0 ? 'drop' : undefined;
  };
  const internal = { policy: internalPolicy, empty: empty(internalPolicy) };
  const external = { policy: externalPolicy, empty: empty(externalPolicy) };
  const frontends: Frontend[] = [{ role: 'cluster-ip', address: clusterIP, port: spec.port, ...internal }];
  for (const address of externalIPs) frontends.push({ role: 'external-ip', address, port: spec.port, ...external });
  for (const address of loadBalancerIPs)
    frontends.push({ role: 'load-balancer', address, port: spec.port, ...external });
  if (spec.nodePort !== 0) {
    frontends.push({ role: 'node-port', address: undefined, port: spec.nodePort, ...external });
  }
  const healthCheckNodePort = healthCheckPort(service);
  const id = spec.name === '' ? service.key : `${service.key}:${spec.name}`;
  return {
    key: `${id}/${spec.protocol}/${family}`,
    id,
    service: service.key,
    family,
    protocol: spec.protocol,
    frontends,
    cluster: backends(selection.cluster, location.nodeName),
    local: backends(selection.local, location.nodeName),
    hasAny: selection.hasAny,
    internalPolicy,
    externalPolicy,
    affinitySeconds: service.affinitySeconds,
    sourceRanges: rangesOf(service, family),
    healthCheckNodePort,
    readyLocal: healthCheckNodePort === 0 ? [] : readyLocal(ofPort, location.nodeName, selection),
    idleHints: selection.idleHints,
    flowTargets: spec.protocol === 'UDP' ? flowTargets(ofPort, location.nodeName, selection) : undefined,
    alsoAnswering: spec.protocol === 'UDP' ? [] : alsoAnswering(ofPort, selection),
    ...(service.hashes === undefined ? {} : { hashes: service.hashes }),
    ...(service.limits === undefined ? {} : { limits: service.limits }),
    ...(service.ipvsScheduler === undefined ? {} : { ipvsScheduler: service.ipvsScheduler }),
  };
}

/**
 * A range of length 0 opens its family (docs/semantics.md 1.8). A family without ranges is closed, because the API restricts traffic
 * to the ranges; kube-proxy opens it. If the other family is open to everybody, this one is, too.
 */
function rangesOf({ sourceRanges }: Service, family: Family): readonly Cidr[] | undefined {
  if (sourceRanges === undefined) return undefined;
  const ranges = sourceRanges.filter((range) => familyOf(range) === family);
  return ranges.some(holdsAll) || (ranges.length === 0 && sourceRanges.some(holdsAll)) ? undefined : ranges;
}

function flowTargets(endpoints: readonly PortEndpoint[], nodeName: string, selection: Selection): FlowTargets {
  const answering = answeringOf(endpoints, selection);
  const bytes = (list: readonly PortEndpoint[]) => list.map((e) => socketBytes(e.endpoint.address, e.port));
  return { all: bytes(answering), local: bytes(answering.filter((e) => isHere(e.endpoint, nodeName))) };
}

/** Endpoints that may answer. Those of a Node that does not answer are left out. */
function answeringOf(endpoints: readonly PortEndpoint[], { held }: Pick<Selection, 'held'>): PortEndpoint[] {
  return endpoints.filter(({ endpoint }) => (endpoint.ready || endpoint.serving) && !held.has(endpoint));
}

function alsoAnswering(endpoints: readonly PortEndpoint[], selection: Selection): readonly string[] {
  const { cluster, local } = selection;
  const answering = answeringOf(endpoints, selection);
  // All selected endpoints answer.
  if (answering.length === cluster.length) return [];
  const selected = new Set([...cluster, ...local]);
  return answering.filter((e) => !selected.has(e)).map(({ text }) => text);
}

function backends(list: readonly PortEndpoint[], nodeName: string): Backend[] {
  const first = weightOf(list[0]);
  const isEven = list.every((e) => weightOf(e) === first);
  return list.map((e) => {
    const { address, nodeName: at } = e.endpoint;
    const backend = { address, port: e.port, text: e.text, hairpin: at === '' || at === nodeName };
    return isEven ? backend : { ...backend, weight: weightOf(e) };
  });
}

function weightOf(e: PortEndpoint | undefined): number {
  return e?.endpoint.weight ?? USUAL_WEIGHT;
}

function healthCheckPort({ type, externalTrafficPolicy, healthCheckNodePort }: Service): number {
  return type === 'LoadBalancer' && externalTrafficPolicy === 'Local' ? healthCheckNodePort : 0;
}

function readyLocal(
  endpoints: readonly PortEndpoint[],
  nodeName: string,
  { standby }: Pick<Selection, 'standby'>,
): Address[] {
  const ready = endpoints.filter(
    ({ endpoint }) => endpoint.ready && isHere(endpoint, nodeName) && !standby.has(endpoint),
  );
  return [...new Set(ready.map(({ endpoint }) => endpoint.address))].sort();
}

/** The addresses of the ready endpoints on a node, as slices of one Service list them, on any port. */
export function readyOnNode(slices: readonly Slice[], family: Family, nodeName: string): ReadonlySet<Address> {
  const there = slices.filter((slice) => slice.family === family && slice.ports.length > 0);
  const ready = there.flatMap(({ endpoints }) => endpoints.filter((one) => one.ready && isHere(one, nodeName)));
  return new Set(ready.map(({ address }) => address));
}

/** Whether some traffic of the Service goes to endpoints of its own node alone: by its internal policy, or by the external one. */
export function hasLocalPolicy(service: Service): boolean {
  if (service.internalTrafficPolicy === 'Local') return true;
  return service.externalTrafficPolicy === 'Local' && honoursExternalLocal(service);
}

/** externalTrafficPolicy applies only to Services that are external by type or by external IPs (docs/semantics.md 1.10). */
function honoursExternalLocal(service: Service): boolean {
  return service.type !== 'ClusterIP' || service.externalIPs.length > 0;
}
