/**
 * The producers read small views of Pods, Services and Nodes. They write EndpointSlices and Endpoints in the API's own shape,
 * because fields of other writers must survive an update.
 */
import type { Address, Family, Protocol } from '../../base/address.ts';
import type { Labels } from '../../proxy/model/labels.ts';
import type { TrafficDistribution } from '../../proxy/model/objects.ts';

/** `namespace/name`. */
export type ObjectKey = string;

export interface ContainerPort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** The used part of a v1 Pod. */
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
  /** Named ports of its containers and of its restartable init containers (KEP-753), in order. The first port of a name counts. */
  readonly ports: readonly ContainerPort[];
  readonly ready: boolean;
  /** Time of the last change of `ready`; milliseconds since 1970, 0 when unknown. */
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

/** The used part of a v1 Service, also of a headless one. */
export interface SelectingService {
  readonly key: ObjectKey;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Labels;
  /** Milliseconds since 1970, 0 when unknown. */
  readonly createdAt: number;
  readonly terminating: boolean;
  /** undefined when others maintain its endpoints, or its type is ExternalName. */
  readonly selector: Labels | undefined;
  /** It has no selector: user-written Endpoints are its own. */
  readonly takesEndpoints: boolean;
  readonly ports: readonly TargetPort[];
  /** Families of its endpoints. Its Endpoints object has the first one. */
  readonly families: readonly Family[];
  readonly isHeadless: boolean;
  readonly publishNotReady: boolean;
  /** It has the annotation service.kubernetes.io/topology-mode: Auto, which overrides `distribution`. */
  readonly wantsTopology: boolean;
  readonly distribution: TrafficDistribution | undefined;
}

/** The used part of a v1 Node. */
export interface ZonedNode {
  readonly name: string;
  /** Label topology.kubernetes.io/zone, "" when it has none. */
  readonly zone: string;
  /** Its condition Ready is True. */
  readonly ready: boolean;
  /** Allocatable CPU, in thousandths. */
  readonly milliCpu: number;
  /** Nodes of the control plane do not count for the zones' shares. */
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

/** The metadata to write; other fields pass through. */
export interface Metadata {
  /** Absent when the API server generates the name. */
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

/** The writes of a producer. Creates have no name yet. Updates have the resourceVersion of the slice that they replace. */
export interface SliceChanges {
  readonly create: readonly SliceObject[];
  /** In the order of writing: a slice that gets endpoints of another comes before it. */
  readonly update: readonly SliceObject[];
  readonly remove: readonly SliceObject[];
}

/** An event for `kubectl describe`. */
export interface Notice {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly note: string;
}

/** RFC 3339 in the form of Go's RFC3339Nano, which omits a zero fraction. `at` is in milliseconds since 1970. */
export function triggerText(at: number): string {
  return new Date(at).toISOString().replace('.000Z', 'Z');
}
