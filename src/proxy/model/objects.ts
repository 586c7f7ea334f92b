/** Small readonly copies of the used parts of API objects. `cluster/api/decode` makes them; no other code reads API objects. */
import type { Address, Cidr, Family, Protocol } from '../../base/address.ts';
import type { SchedulerText } from './ipvs-scheduler.ts';
import type { Limit } from './limits.ts';

export type TrafficPolicy = 'Cluster' | 'Local';
/** https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-distribution */
export const TRAFFIC_DISTRIBUTIONS = ['PreferClose', 'PreferSameZone', 'PreferSameNode'] as const;
export type TrafficDistribution = (typeof TRAFFIC_DISTRIBUTIONS)[number];

/** `namespace/name` of a Service. */
export type ServiceKey = string;
/** `namespace/name` of an EndpointSlice. */
export type SliceKey = string;

/** The parts of a client by which its endpoint is chosen (docs/traffic.md). */
export type HashedBy = 'address' | 'address and port';

export interface ServicePortSpec {
  /** "" when the Service's only port has no name. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0 when there is none. The type of the Service does not matter, as in kube-proxy (docs/semantics.md 1.5). */
  readonly nodePort: number;
}

/** A Service that a service proxy programs; never headless or ExternalName (docs/semantics.md 1.1). */
export interface Service {
  readonly key: ServiceKey;
  /** undefined when the object has none. */
  readonly uid?: string;
  /** Milliseconds since 1970, 0 when unknown. The older of two Services with the same address keeps it. */
  readonly createdAt: number;
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
  /** At most one per family (docs/semantics.md 1.2). */
  readonly clusterIPs: readonly Address[];
  readonly externalIPs: readonly Address[];
  /** Ingress addresses with ipMode VIP or none. */
  readonly loadBalancerIPs: readonly Address[];
  /** Clients that may use the load balancer's addresses, of either family; undefined when all may. */
  readonly sourceRanges: readonly Cidr[] | undefined;
  readonly ports: readonly ServicePortSpec[];
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  /** Seconds of ClientIP affinity, 0 for none. */
  readonly affinitySeconds: number;
  /** 0 when there is none. */
  readonly healthCheckNodePort: number;
  /** Its own scheduler in IPVS mode; absent where it has that of the node. */
  readonly ipvsScheduler?: SchedulerText;
  /** The client's address, or that and its port, decides about its endpoint; absent: chance does. */
  readonly hashes?: HashedBy;
  /** Milliseconds in which the weight of an endpoint grows that became ready; absent: it has all of it at once. */
  readonly slowStart?: number;
  /** In the order of `LIMIT_NAMES`; absent for none. */
  readonly limits?: readonly Limit[];
}

/** The fields of a Service that few have. They are absent where it has none. */
export const RARE_FIELDS = ['ipvsScheduler', 'slowStart', 'hashes', 'limits'] as const satisfies (keyof Service)[];
export type RareField = (typeof RARE_FIELDS)[number];

/** The API server's own Service. */
const API_SERVER = 'default/kubernetes';
const DNS_PORT = 53;

/**
 * Whether other programs need this Service at their start: it is the API server's own Service, or DNS, which is found by its port because
 * its name differs. The first sync of a node writes such Services before all others. A Service with external or load balancer addresses is
 * not among them: another Service may own such an address (`claims.ts`).
 */
export function isNeededFirst(service: Service | undefined): boolean {
  if (service === undefined || service.type !== 'ClusterIP' || service.externalIPs.length > 0) return false;
  return service.key === API_SERVER || service.ports.some(({ port }) => port === DNS_PORT);
}

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** An endpoint of a slice. Missing conditions have their defaults (docs/semantics.md 2.3). */
export interface Endpoint {
  readonly address: Address;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** "" when the slice has none. */
  readonly nodeName: string;
  readonly zoneHints: readonly string[];
  readonly nodeHints: readonly string[];
  /** 0 to `MAX_WEIGHT`; absent for `USUAL_WEIGHT` (docs/traffic.md). */
  readonly weight?: number;
  /** Its weight grows to this one (slow start). */
  readonly growsTo?: number;
  /** It is used where no other endpoint is ready. */
  readonly isBackup?: true;
}

/** The weight of an endpoint whose slice says nothing. */
export const USUAL_WEIGHT = 100;
export const MAX_WEIGHT = 1000;

/** An EndpointSlice. */
export interface Slice {
  readonly key: SliceKey;
  readonly service: ServiceKey;
  readonly family: Family;
  readonly ports: readonly SlicePort[];
  readonly endpoints: readonly Endpoint[];
}

/** The used part of the agent's own Node. */
export interface NodeView {
  readonly name: string;
  /** Label topology.kubernetes.io/zone, "" when it has none. */
  readonly zone: string;
  /** status.addresses, InternalIP first, then ExternalIP (docs/semantics.md 9.1). */
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
  /** Load balancers may send traffic to the node: it is not terminating, and no autoscaler is about to delete it (docs/semantics.md 9.4). */
  readonly isEligible: boolean;
  /** Its annotation slicewire.dev/takeover; absent where it has none. */
  readonly takeover?: string;
  /** Names of other Nodes that do not answer this one, sorted (docs/semantics.md 3.6); absent where there are none. */
  readonly suspects?: readonly string[];
}

export type ObjectKind = 'Service' | 'EndpointSlice' | 'Node' | 'ServiceCIDR' | 'Pod' | 'Endpoints' | 'file';

/** A fault of an object: the field, its value, the problem, and the effect. */
export interface Fault {
  readonly kind: ObjectKind;
  /** `namespace/name`, or a file. */
  readonly object: string;
  /** undefined when the object has none. */
  readonly uid?: string;
  /** Path of the field, such as `spec.ports[0].port`; "" for the whole object. */
  readonly field: string;
  readonly value: string;
  readonly problem: string;
  /**
   * slicewire's reaction: it ignores the object or the part, or uses the API's default. A valid value that does nothing on this node
   * has no effect; it is worth a note, but no mistake.
   */
  readonly effect: 'object set aside' | 'part left out' | 'default used' | 'no effect here';
  /** An endpoint of a slice, or hints: they are counted, or explained, on their own. */
  readonly part?: 'endpoint' | 'hints';
  /** The Service that has the address and the port already. */
  readonly holder?: ServiceKey;
}

/** Limit of the faults that are kept of one object. The last one counts the others. */
export const MAX_FAULTS = 100;

/** The fields of a fault that answers show. */
export function shownFault({ kind, object, field, value, problem, effect }: Fault) {
  return { kind, object, field, value, problem, effect };
}

/** `Service default/web: spec.ports[0].port: 70000: must be 1 to 65535 (object set aside)` */
export function faultText(fault: FaultWords): string {
  return `${fault.kind} ${fault.object}: ${problemText(fault)}`;
}

type FaultWords = Omit<Fault, 'kind' | 'uid' | 'part' | 'holder'> & { readonly kind: string };

/** The text of a fault without its object. */
export function problemText({ kind, field, value, problem, effect }: FaultWords): string {
  const isWholeFile = kind === 'file' && field === '' && effect === 'object set aside';
  const follows = isWholeFile ? 'file set aside' : effect;
  return `${field === '' ? '' : `${field}: `}${value === '' ? '' : `${value}: `}${problem} (${follows})`;
}

/**
 * A copy of a list without spare room. A list that grew by `push` has room for 16 more, which adds up over tens of thousands of
 * short lists. All empty lists are the same object.
 */
export function compact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NOTHING : list.slice();
}

const NOTHING: readonly never[] = Object.freeze([]);
