/** The v1 Endpoints of a Service with a selector, for clients without support for slices: packed into subsets, at most 1,000 addresses. */
import { type Family, familyOf } from '../../base/address.ts';
import { sameData } from '../../base/equal.ts';
import {
  ENDPOINTS_MANAGED_BY_LABEL,
  ENDPOINTS_MANAGER,
  HEADLESS_LABEL,
  type Labels,
  TRIGGER_ANNOTATION,
} from '../../proxy/model/labels.ts';
import {
  type EndpointsAddress,
  type EndpointsObject,
  type EndpointsPort,
  type EndpointsSubset,
  type PodView,
  type SelectingService,
  triggerText,
} from './api-objects.ts';
import { hasHostname, podReference, portNumber } from './pod-endpoint.ts';

/** The largest number of addresses of an Endpoints object (KEP-752, "Endpoints truncation"). */
const CAPACITY = 1000;
export const OVER_CAPACITY_ANNOTATION = 'endpoints.kubernetes.io/over-capacity';

interface EndpointsInput {
  readonly service: SelectingService;
  readonly pods: Iterable<PodView>;
  readonly existing: EndpointsObject | undefined;
  /** Time of the change that caused this; milliseconds since 1970, 0 when unknown. */
  readonly triggeredAt: number;
}

/** The Endpoints to write; undefined when the existing ones are right. Endpoints without a resourceVersion are new. */
export function reconcileEndpoints({
  service,
  pods,
  existing,
  triggeredAt,
}: EndpointsInput): EndpointsObject | undefined {
  const all = packSubsets(listedAddresses(service, pods));
  const subsets = truncated(all);
  const isCut = subsets !== all;
  if (existing !== undefined && isRight(existing, { subsets, isCut, service })) return undefined;
  const annotations: Record<string, string> = { ...existing?.metadata.annotations };
  setOrDrop(annotations, TRIGGER_ANNOTATION, triggeredAt > 0 ? triggerText(triggeredAt) : undefined);
  setOrDrop(annotations, OVER_CAPACITY_ANNOTATION, isCut ? 'truncated' : undefined);
  const { name, namespace } = service;
  const metadata = { ...existing?.metadata, name, namespace, labels: labelsOf(service), annotations };
  return { apiVersion: 'v1', kind: 'Endpoints', metadata, subsets };
}

function setOrDrop(annotations: Record<string, string>, name: string, value: string | undefined): void {
  if (value === undefined) delete annotations[name];
  else annotations[name] = value;
}

function labelsOf({ labels, isHeadless }: SelectingService): Labels {
  const { [HEADLESS_LABEL]: _, ...own } = labels;
  return { ...own, ...(isHeadless ? { [HEADLESS_LABEL]: '' } : {}), [ENDPOINTS_MANAGED_BY_LABEL]: ENDPOINTS_MANAGER };
}

/**
 * Whether a controller wrote the Endpoints: those of Kubernetes 1.33 and later have its label, and earlier ones the time of their
 * change, as long as a change had one. Hand-written ones, and locks of old leader elections, have neither.
 */
export function isWrittenByController({ metadata }: EndpointsObject): boolean {
  const { labels, annotations } = metadata;
  return labels?.[ENDPOINTS_MANAGED_BY_LABEL] === ENDPOINTS_MANAGER || annotations?.[TRIGGER_ANNOTATION] !== undefined;
}

interface DesiredEndpoints {
  readonly subsets: readonly EndpointsSubset[];
  readonly isCut: boolean;
  readonly service: SelectingService;
}

/** Whether the Endpoints are right, in any order of subsets, ports and addresses. */
function isRight(
  { metadata, subsets: before }: EndpointsObject,
  { subsets, isCut, service }: DesiredEndpoints,
): boolean {
  return (
    (metadata.annotations?.[OVER_CAPACITY_ANNOTATION] !== undefined) === isCut &&
    sameData(metadata.labels ?? {}, labelsOf(service)) &&
    sameData(before.map(canonical).sort(), subsets.map(canonical).sort())
  );
}

function canonical({ addresses = [], notReadyAddresses = [], ports = [] }: EndpointsSubset): string {
  const listed = (list: readonly EndpointsAddress[]) => list.map(addressId).sort();
  return JSON.stringify([listed(addresses), listed(notReadyAddresses), ports.map(portId).sort()]);
}

function addressId({ ip, hostname, nodeName, targetRef }: EndpointsAddress): string {
  const { kind, namespace, name, uid } = targetRef ?? {};
  return [ip, hostname ?? '', nodeName ?? '', kind, namespace, name, uid].join(' ');
}

/** The address of each Pod, with its ports. A headless Service without ports has addresses without ports. */
function* listedAddresses(service: SelectingService, pods: Iterable<PodView>): Generator<ListedAddress> {
  for (const pod of pods) {
    const listed = listedAddress(service, pod);
    if (listed === undefined) continue;
    const ports = portsOf(service, pod);
    if (ports.length > 0 || (service.ports.length === 0 && service.isHeadless)) yield { ...listed, ports };
  }
}

/** The Pod's address of the first family. Terminating Pods have none, unless the Service publishes addresses that are not ready. */
function listedAddress(service: SelectingService, pod: PodView): Omit<ListedAddress, 'ports'> | undefined {
  if (pod.finished || (pod.terminating && !service.publishNotReady)) return undefined;
  const family: Family = service.families[0] ?? 'IPv4';
  const ip = pod.addresses.find((address) => familyOf(address) === family);
  if (ip === undefined) return undefined;
  const address = {
    ip,
    ...(hasHostname(pod, service) ? { hostname: pod.hostname } : {}),
    ...(pod.nodeName === '' ? {} : { nodeName: pod.nodeName }),
    targetRef: podReference(pod),
  };
  return { address, ready: service.publishNotReady || pod.ready };
}

function portsOf(service: SelectingService, pod: PodView): EndpointsPort[] {
  const found: EndpointsPort[] = [];
  for (const wanted of service.ports) {
    const port = portNumber(wanted, pod);
    const { name, protocol, appProtocol } = wanted;
    if (port === undefined) continue;
    found.push({
      ...(name === '' ? {} : { name }),
      port,
      protocol,
      ...(appProtocol === undefined ? {} : { appProtocol }),
    });
  }
  return found;
}

/**
 * At most 1,000 addresses, ready ones first. Each subset keeps its share, rounded up. Returns the same list when all fit.
 */
function truncated(subsets: EndpointsSubset[]): readonly EndpointsSubset[] {
  const count = (of: 'addresses' | 'notReadyAddresses') =>
    subsets.reduce((sum, subset) => sum + (subset[of]?.length ?? 0), 0);
  const [ready, notReady] = [count('addresses'), count('notReadyAddresses')];
  if (ready + notReady <= CAPACITY) return subsets;
  const cutsReady = ready > CAPACITY;
  const [total, room] = cutsReady ? [ready, CAPACITY] : [notReady, CAPACITY - ready];
  let left = room;
  const cut = inOrder(subsets).map(({ addresses, notReadyAddresses, ports }): EndpointsSubset => {
    const list = (cutsReady ? addresses : notReadyAddresses) ?? [];
    const kept = list.slice(0, Math.min(left, Math.ceil((list.length / total) * room)));
    left -= kept.length;
    const [readyOnes, others] = cutsReady ? [kept, []] : [addresses ?? [], kept];
    return {
      ...(readyOnes.length > 0 ? { addresses: readyOnes } : {}),
      ...(others.length > 0 ? { notReadyAddresses: others } : {}),
      ...(ports ? { ports } : {}),
    };
  });
  // The API server refuses a subset without addresses.
  return cut.filter(({ addresses, notReadyAddresses }) => addresses || notReadyAddresses);
}

/** Sorted subsets. The last one loses the addresses that rounding up gave to the others, so the order must not depend on that of the Pods. */
function inOrder(subsets: readonly EndpointsSubset[]): EndpointsSubset[] {
  const sorted = subsets.map((subset) => ({ subset, text: canonical(subset) }));
  return sorted.sort((a, b) => (a.text < b.text ? -1 : 1)).map(({ subset }) => subset);
}

// The subsets of Endpoints in canonical form (k8s.io/kubernetes/pkg/api/v1/endpoints): each set of addresses once, with all its ports.

/** An address with its readiness and its ports; without ports it counts once. */
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
 * their text. An address that is ready and not ready for one port counts as not ready. Of entries of one address with different fields
 * the first counts.
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
function portId({ name, port, protocol, appProtocol }: EndpointsPort): string {
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
