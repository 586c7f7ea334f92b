/**
 * What the producers read (small views of Pods, Services and Nodes) and what they write: EndpointSlices and Endpoints in
 * the API's own shape, because what others wrote into them must survive an update.
 */
import type { Address, Family } from '../model/address.ts';
import type { Protocol } from '../model/objects.ts';

/** `namespace/name`. */
export type ObjectKey = string;

export type Labels = Readonly<Record<string, string>>;

export interface ContainerPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** What is used of a v1 Pod. */
export interface PodView {
  readonly key: ObjectKey;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Labels;
  /** status.podIPs, or status.podIP where they are not given. */
  readonly addresses: readonly Address[];
  /** "" while it is not scheduled. */
  readonly nodeName: string;
  readonly hostname: string;
  readonly subdomain: string;
  /** Named ports of its containers and of its restartable init containers (KEP-753), in order: the first of a name counts. */
  readonly ports: readonly ContainerPort[];
  readonly ready: boolean;
  /** When `ready` became what it is; milliseconds since 1970, 0 when it does not say. */
  readonly readySince: number;
  /** It has a deletionTimestamp. */
  readonly terminating: boolean;
  /** Succeeded or Failed: none of its containers runs again. */
  readonly finished: boolean;
}

export interface TargetPort {
  /** "" when the Service's only port has no name. */
  readonly name: string;
  readonly protocol: Protocol;
  /** A number, or the name of a container's port. */
  readonly target: number | string;
  readonly appProtocol: string | undefined;
}

/** https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-distribution */
export const TRAFFIC_DISTRIBUTIONS = ['PreferClose', 'PreferSameZone', 'PreferSameNode'] as const;
export type TrafficDistribution = (typeof TRAFFIC_DISTRIBUTIONS)[number];

/** What is used of a v1 Service, headless ones included. */
export interface SelectingService {
  readonly key: ObjectKey;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Labels;
  /** Milliseconds since 1970, 0 when it does not say. */
  readonly createdAt: number;
  readonly terminating: boolean;
  /** undefined: its endpoints are somebody else's affair, or it stands for a name (ExternalName). */
  readonly selector: Labels | undefined;
  /** It names no selector: Endpoints that a person wrote are its own. */
  readonly takesEndpoints: boolean;
  readonly ports: readonly TargetPort[];
  /** Families of its endpoints, the first one that of its Endpoints object. */
  readonly families: readonly Family[];
  readonly isHeadless: boolean;
  readonly publishNotReady: boolean;
  /** Annotation service.kubernetes.io/topology-mode: Auto; it wins over `distribution`. */
  readonly wantsTopology: boolean;
  readonly distribution: TrafficDistribution | undefined;
}

/** What is used of a v1 Node. */
export interface ZonedNode {
  readonly name: string;
  /** Label topology.kubernetes.io/zone, "" when it has none. */
  readonly zone: string;
  /** Its condition Ready is True. */
  readonly ready: boolean;
  /** Allocatable CPU, in thousandths. */
  readonly milliCpu: number;
  /** A control plane node takes no part in the zones' shares. */
  readonly isControlPlane: boolean;
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** metadata as it is written; further fields pass through. */
export interface Metadata {
  /** Absent in what is to be created with a name of the API server's making. */
  readonly name?: string;
  readonly generateName?: string;
  readonly namespace: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly creationTimestamp?: string | null | undefined;
  readonly deletionTimestamp?: string | null | undefined;
  readonly labels?: Labels | null | undefined;
  readonly annotations?: Labels | null | undefined;
  readonly ownerReferences?: readonly OwnerReference[] | null;
}

export interface ObjectReference {
  readonly kind?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly uid?: string;
}

export interface SliceEndpoint {
  readonly addresses: readonly string[];
  readonly conditions?: {
    readonly ready?: boolean | null;
    readonly serving?: boolean | null;
    readonly terminating?: boolean | null;
  };
  readonly hostname?: string | null;
  readonly targetRef?: ObjectReference | null;
  readonly nodeName?: string | null;
  readonly zone?: string | null;
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[];
    readonly forNodes?: readonly { readonly name: string }[];
  } | null;
}

export interface SlicePortObject {
  readonly name?: string | null;
  readonly protocol?: string | null;
  readonly port?: number | null;
  readonly appProtocol?: string | null;
}

/** discovery.k8s.io/v1 EndpointSlice. */
export interface SliceObject {
  readonly apiVersion: 'discovery.k8s.io/v1';
  readonly kind: 'EndpointSlice';
  readonly metadata: Metadata;
  readonly addressType: string;
  readonly endpoints: readonly SliceEndpoint[];
  readonly ports: readonly SlicePortObject[];
}

export interface EndpointsAddress {
  readonly ip: string;
  readonly hostname?: string;
  readonly nodeName?: string;
  readonly targetRef?: ObjectReference;
}

export interface EndpointsPort {
  readonly name?: string;
  readonly port: number;
  readonly protocol?: string;
  readonly appProtocol?: string;
}

export interface EndpointsSubset {
  readonly addresses?: readonly EndpointsAddress[];
  readonly notReadyAddresses?: readonly EndpointsAddress[];
  readonly ports?: readonly EndpointsPort[];
}

/** v1 Endpoints. */
export interface EndpointsObject {
  readonly apiVersion: 'v1';
  readonly kind: 'Endpoints';
  readonly metadata: Metadata;
  readonly subsets: readonly EndpointsSubset[];
}

export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';
export const MANAGED_BY_LABEL = 'endpointslice.kubernetes.io/managed-by';
/** Another proxy's Services have it (KEP-2447). */
export const PROXY_NAME_LABEL = 'service.kubernetes.io/service-proxy-name';
export const HEADLESS_LABEL = 'service.kubernetes.io/headless';
/**
 * Services and slices with one of these are nobody's: another program serves the one, and nothing proxies the other, whatever
 * its cluster IP is (KEP-2447; `IsHeadlessService` in k8s.io/api/core/v1).
 */
export const UNSERVED_LABELS = [PROXY_NAME_LABEL, HEADLESS_LABEL] as const;

export function isUnserved(labels: Labels | null | undefined): boolean {
  return UNSERVED_LABELS.some((label) => labels?.[label] !== undefined);
}
/** When the change happened for which an object was written, with nanoseconds (KEP-752, docs/semantics.md 2.5). */
export const TRIGGER_ANNOTATION = 'endpoints.kubernetes.io/last-change-trigger-time';

/** Whose slices they are (KEP-752, label managed-by): the names of the controllers that are stood in for. */
export const SLICES_MANAGER = 'endpointslice-controller.k8s.io';
export const MIRROR_MANAGER = 'endpointslicemirroring-controller.k8s.io';

/** What a producer wants written. Creates have no name yet; updates carry the resourceVersion they are made from. */
export interface SliceChanges {
  readonly create: readonly SliceObject[];
  /** In this order: who takes endpoints over from another comes before it. */
  readonly update: readonly SliceObject[];
  readonly remove: readonly SliceObject[];
}

/** Something to tell with `kubectl describe`. */
export interface Notice {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly note: string;
}

/** RFC 3339 without a fraction where there is none, as Go's RFC3339Nano writes it. `at`: milliseconds since 1970. */
export function triggerText(at: number): string {
  return new Date(at).toISOString().replace('.000Z', 'Z');
}
