/** A Pod as an endpoint of a Service, with its ports. */
import { type Family, familyOf } from '../../base/address.ts';
import type {
  PodView,
  SelectingService,
  SliceEndpoint,
  SlicePortObject,
  TargetPort,
  ZonedNode,
} from './api-objects.ts';

/** Whether the Pod has an address and has not finished. Terminating Pods stay in slices, with their conditions (KEP-1672). */
export function belongsInSlices({ finished, addresses }: PodView): boolean {
  return !finished && addresses.length > 0;
}

/** The Service's ports on this Pod. A named target can have another number on each Pod. A port without a number is omitted. */
export function portsOn(service: SelectingService, pod: PodView): SlicePortObject[] {
  const found: SlicePortObject[] = [];
  for (const wanted of service.ports) {
    const port = portNumber(wanted, pod);
    const { name, protocol, appProtocol } = wanted;
    if (port !== undefined) found.push({ name, protocol, port, ...(appProtocol === undefined ? {} : { appProtocol }) });
  }
  return found;
}

/** The number of a Service's port on a Pod; undefined when none of its containers has a port of that name and protocol. */
export function portNumber({ target, protocol }: TargetPort, { ports }: PodView): number | undefined {
  if (typeof target === 'number') return target;
  return ports.find((port) => port.name === target && port.protocol === protocol)?.port;
}

/** The key of a set of ports, in any order. All endpoints of a slice have the same ports. */
export function portsKey(ports: readonly SlicePortObject[]): string {
  return ports
    .map(({ name, protocol, port, appProtocol }) => JSON.stringify([name ?? '', protocol, port, appProtocol ?? null]))
    .sort()
    .join();
}

/** The endpoint of one family; undefined when the Pod has no address of it. `node` is undefined when unknown. */
export function podEndpoint(
  pod: PodView,
  { service, family, node }: { service: SelectingService; family: Family; node: ZonedNode | undefined },
): SliceEndpoint | undefined {
  const addresses = pod.addresses.filter((address) => familyOf(address) === family);
  if (addresses.length === 0) return undefined;
  const { ready: serving, terminating } = pod;
  return {
    addresses,
    // A terminating Pod is never ready (KEP-1672), unless the Service publishes addresses that are not ready.
    conditions: { ready: service.publishNotReady || (serving && !terminating), serving, terminating },
    ...(hasHostname(pod, service) ? { hostname: pod.hostname } : {}),
    targetRef: podReference(pod),
    ...(pod.nodeName === '' ? {} : { nodeName: pod.nodeName }),
    ...(node === undefined || node.zone === '' ? {} : { zone: node.zone }),
  };
}

/** Whether the endpoint has the Pod's host name: the Service must be the Pod's subdomain, as with StatefulSets. */
export function hasHostname({ hostname, subdomain, namespace }: PodView, service: SelectingService): boolean {
  return hostname !== '' && subdomain === service.name && namespace === service.namespace;
}

/** The targetRef of a Pod. */
export function podReference({ namespace, name, uid }: PodView) {
  return { kind: 'Pod', namespace, name, ...(uid === '' ? {} : { uid }) };
}

/** The identity of an endpoint. Its other fields may change in place. */
export function endpointId({ addresses, hostname, targetRef }: SliceEndpoint): string {
  const sorted = addresses.length > 1 ? [...addresses].sort().join() : addresses[0];
  return `${sorted} ${hostname ?? ''} ${targetRef?.namespace ?? ''} ${targetRef?.name ?? ''}`;
}

/** Whether two endpoints with the same id are equal, apart from hints, which are compared where they are made. */
export function sameEndpoint(a: SliceEndpoint, b: SliceEndpoint): boolean {
  const [x, y] = [a.conditions ?? {}, b.conditions ?? {}];
  return (
    (a.nodeName ?? undefined) === (b.nodeName ?? undefined) &&
    (a.zone ?? undefined) === (b.zone ?? undefined) &&
    (x.ready ?? undefined) === (y.ready ?? undefined) &&
    (x.serving ?? undefined) === (y.serving ?? undefined) &&
    (x.terminating ?? undefined) === (y.terminating ?? undefined) &&
    a.targetRef?.kind === b.targetRef?.kind &&
    (a.targetRef?.uid ?? '') === (b.targetRef?.uid ?? '')
  );
}
