/** The subsets of Endpoints in canonical form (k8s.io/kubernetes/pkg/api/v1/endpoints): each set of addresses once, with all its ports. */
import type { EndpointsAddress, EndpointsPort, EndpointsSubset } from './api-objects.ts';

/** An address with its readiness and its ports; no ports: it counts without one. */
export interface ListedAddress {
  readonly address: EndpointsAddress;
  readonly ready: boolean;
  readonly ports: readonly EndpointsPort[];
}

interface ReadyAddress {
  readonly address: EndpointsAddress;
  readonly ready: boolean;
}

/** The addresses of a port, by `addressKey`. */
interface PortEntry {
  readonly port: EndpointsPort | undefined;
  readonly listed: Map<string, ReadyAddress>;
}

/**
 * Subsets in canonical form: each set of addresses once, with all ports that exactly these addresses have, addresses in the order of
 * their text. An address that is ready and not ready for one port counts as not ready. Of an address that stands there with
 * different fields the first one counts.
 */
export function packSubsets(list: Iterable<ListedAddress>): EndpointsSubset[] {
  const byPort = new Map<string, PortEntry>();
  const known = new Map<string, EndpointsAddress>();
  for (const { address, ready, ports } of list) {
    const key = addressKey(address);
    const first = known.get(key) ?? address;
    known.set(key, first);
    for (const port of ports.length > 0 ? ports : [undefined]) {
      const id = port === undefined ? '' : portId(port);
      const entry = byPort.get(id) ?? { port, listed: new Map<string, ReadyAddress>() };
      byPort.set(id, entry);
      if (entry.listed.get(key)?.ready !== false) entry.listed.set(key, { address: first, ready });
    }
  }
  const sameAddresses = Map.groupBy(byPort.values(), ({ listed }) => setId(listed));
  return [...sameAddresses.values()].map(subsetOf);
}

/** One subset of ports that have the same addresses. */
function subsetOf(entries: readonly PortEntry[]): EndpointsSubset {
  const sorted = [...(entries[0]?.listed.values() ?? [])].sort(byAddress);
  const of = (wanted: boolean) => sorted.filter(({ ready }) => ready === wanted).map(({ address }) => address);
  const [addresses, notReadyAddresses] = [of(true), of(false)];
  const ports = entries.map(({ port }) => port).filter((port) => port !== undefined);
  return {
    ...(addresses.length > 0 ? { addresses } : {}),
    ...(notReadyAddresses.length > 0 ? { notReadyAddresses } : {}),
    ...(ports.length > 0 ? { ports } : {}),
  };
}

/** The identity of a port of Endpoints. */
export function portId({ name, port, protocol, appProtocol }: EndpointsPort): string {
  return [name ?? '', port, protocol ?? 'TCP', appProtocol ?? ''].join(' ');
}

/** Two Pods may have one address. */
function addressKey({ ip, targetRef }: EndpointsAddress): string {
  return `${ip} ${targetRef?.uid ?? ''}`;
}

function setId(listed: ReadonlyMap<string, ReadyAddress>): string {
  return [...listed]
    .map(([key, { ready }]) => `${key} ${ready}`)
    .sort()
    .join();
}

function byAddress({ address: a }: ReadyAddress, { address: b }: ReadyAddress): number {
  if (a.ip !== b.ip) return a.ip < b.ip ? -1 : 1;
  return (a.targetRef?.uid ?? '') < (b.targetRef?.uid ?? '') ? -1 : 1;
}
