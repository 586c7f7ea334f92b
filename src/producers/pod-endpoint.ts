/** A Pod as an endpoint of a Service, and the ports that it has there. */
import { type Family, familyOf } from '../model/address.ts';
import type { PodView, SelectingService, SliceEndpoint, SlicePortObject, TargetPort, ZonedNode } from './objects.ts';

/** A Pod that has an address and may run on. Those that end stay in slices, with their conditions (KEP-1672). */
export function belongsInSlices({ finished, addresses }: PodView): boolean {
  return !finished && addresses.length > 0;
}

/** What the Service's ports are on this Pod: a named target may have another number on each, or none (then the port is left out). */
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

/** Slices hold endpoints of one set of ports: this names it, whatever their order. */
export function portsKey(ports: readonly SlicePortObject[]): string {
  return ports
    .map(({ name, protocol, port, appProtocol }) => JSON.stringify([name ?? '', protocol, port, appProtocol ?? null]))
    .sort()
    .join();
}

/** The endpoint of one family; undefined when the Pod has no address of it. `node` is undefined where it is not known. */
export function podEndpoint(
  pod: PodView,
  { service, family, node }: { service: SelectingService; family: Family; node: ZonedNode | undefined },
): SliceEndpoint | undefined {
  const addresses = pod.addresses.filter((address) => familyOf(address) === family);
  if (addresses.length === 0) return undefined;
  const { ready: serving, terminating } = pod;
  return {
    addresses,
    // One that ends is never ready (KEP-1672), unless who is not ready is wanted as well.
    conditions: { ready: service.publishNotReady || (serving && !terminating), serving, terminating },
    ...(hasHostname(pod, service) ? { hostname: pod.hostname } : {}),
    targetRef: podReference(pod),
    ...(pod.nodeName === '' ? {} : { nodeName: pod.nodeName }),
    ...(node === undefined || node.zone === '' ? {} : { zone: node.zone }),
  };
}

/** A Pod's host name is told where the Service is its subdomain (names of StatefulSets). */
export function hasHostname({ hostname, subdomain, namespace }: PodView, service: SelectingService): boolean {
  return hostname !== '' && subdomain === service.name && namespace === service.namespace;
}

export function podReference({ namespace, name, uid }: PodView) {
  return { kind: 'Pod', namespace, name, ...(uid === '' ? {} : { uid }) };
}

/** Which endpoint it is: what else is said of it may change in place. */
export function endpointId({ addresses, hostname, targetRef }: SliceEndpoint): string {
  const sorted = addresses.length > 1 ? [...addresses].sort().join() : addresses[0];
  return `${sorted} ${hostname ?? ''} ${targetRef?.namespace ?? ''} ${targetRef?.name ?? ''}`;
}

/** Whether two endpoints of one id say the same; hints are compared where hints are made. */
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
