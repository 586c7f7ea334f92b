/** Labels and annotations of the API that have a meaning for a service proxy or for the producers of EndpointSlices. */

import { durationText } from '../../base/duration.ts';
import { limitAnnotation, limitText } from './limits.ts';
import type { HashedBy, RareField, Service } from './objects.ts';

export type Labels = Readonly<Record<string, string>>;

/** On an EndpointSlice: the Service that it belongs to. */
export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';
/** On an EndpointSlice: the controller that writes it (KEP-752). */
export const MANAGED_BY_LABEL = 'endpointslice.kubernetes.io/managed-by';
/** On a Service and its slices: another proxy serves it (KEP-2447). */
export const PROXY_NAME_LABEL = 'service.kubernetes.io/service-proxy-name';
/** On slices and Endpoints of a headless Service. */
export const HEADLESS_LABEL = 'service.kubernetes.io/headless';
/** On a Node: its zone. */
export const ZONE_LABEL = 'topology.kubernetes.io/zone';

/**
 * A service proxy skips Services and slices with one of these labels: another program serves the one, and nothing proxies
 * the other, whatever its cluster IP is (KEP-2447; `IsHeadlessService` in k8s.io/api/core/v1).
 */
export const UNSERVED_LABELS = [PROXY_NAME_LABEL, HEADLESS_LABEL] as const;

/**
 * The label selector of the objects that a service proxy serves. The API server does not send others; to a watch a label that appears is
 * a deletion, and one that goes an addition.
 */
export const SERVED = UNSERVED_LABELS.map((label) => `!${label}`).join(',');

/** The field selector of the Services that a service proxy serves, beside `SERVED`: those with a cluster IP. */
export const SERVED_FIELDS = 'spec.clusterIP!=None';

export function isUnserved(labels: Labels | null | undefined): boolean {
  return UNSERVED_LABELS.some((label) => labels?.[label] !== undefined);
}

/** Time of the change that an object was written for, to the nanosecond (KEP-752). */
export const TRIGGER_ANNOTATION = 'endpoints.kubernetes.io/last-change-trigger-time';

/** On a bookmark: the initial events of a streaming list are complete where it is `true` (KEP-3157). */
export const INITIAL_EVENTS_END = 'k8s.io/initial-events-end';

/** Values of the label managed-by (KEP-752): the names of the controllers of kube-controller-manager that slicewire replaces. */
export const SLICES_MANAGER = 'endpointslice-controller.k8s.io';
export const MIRROR_MANAGER = 'endpointslicemirroring-controller.k8s.io';

/** On Endpoints: the controller that writes them, since Kubernetes 1.33 (k8s#130564). */
export const ENDPOINTS_MANAGED_BY_LABEL = 'endpoints.kubernetes.io/managed-by';
export const ENDPOINTS_MANAGER = 'endpoint-controller';

/** On a Service: hints by topology (KEP-2433). The first one, the older, wins where both are set. */
export const TOPOLOGY_ANNOTATIONS = [
  'service.kubernetes.io/topology-aware-hints',
  'service.kubernetes.io/topology-mode',
] as const;

/** On a Service: its scheduler in IPVS mode, as `SchedulerText`. */
export const IPVS_SCHEDULER_ANNOTATION = 'slicewire.dev/ipvs-scheduler';

/** On a Service: how an endpoint is chosen, `random`, `hash` or `hash-port` (docs/traffic.md). */
export const BALANCE_ANNOTATION = 'slicewire.dev/balance';

/** Its values, and the parts of the client that decide by them; undefined for chance. */
export const BALANCES: ReadonlyMap<string, HashedBy | undefined> = new Map([
  ['random', undefined],
  ['hash', 'address'],
  ['hash-port', 'address and port'],
]);

/** The value of that annotation for a choice by these parts of the client. */
export function balanceText(by: HashedBy): string {
  return [...BALANCES].find(([, parts]) => parts === by)?.[0] ?? '';
}

/** On a Service: the time in which new endpoints get their share, such as `60s` (docs/traffic.md). */
export const SLOW_START_ANNOTATION = 'slicewire.dev/slow-start';

/** `slicewire.dev/balance: hash`: the annotations of slicewire that a Service has, with right values. */
export function annotationTexts({ ipvsScheduler, hashes, slowStart, limits = [] }: Pick<Service, RareField>): string[] {
  return [
    ...(ipvsScheduler === undefined ? [] : [`${IPVS_SCHEDULER_ANNOTATION}: ${ipvsScheduler}`]),
    ...(hashes === undefined ? [] : [`${BALANCE_ANNOTATION}: ${balanceText(hashes)}`]),
    ...(slowStart === undefined ? [] : [`${SLOW_START_ANNOTATION}: ${durationText(slowStart)}`]),
    ...limits.map((limit) => `${limitAnnotation(limit.name)}: ${limitText(limit)}`),
  ];
}

/** On an EndpointSlice: the weight of its endpoints, a number or an object of addresses with numbers (docs/traffic.md). */
export const WEIGHT_ANNOTATION = 'slicewire.dev/weight';

/** On an EndpointSlice: its endpoints are used where no other one is ready, if `true`. */
export const BACKUP_ANNOTATION = 'slicewire.dev/backup';

/** On a Node: another value than before tells the agent to try a takeover again that it took back. */
export const TAKEOVER_ANNOTATION = 'slicewire.dev/takeover';

/** On a Node of the control plane. */
export const CONTROL_PLANE_LABELS = [
  'node-role.kubernetes.io/control-plane',
  'node-role.kubernetes.io/master',
] as const;
