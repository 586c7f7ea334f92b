/**
 * API objects → what slicewire uses, once and only here. Every value that later reaches a command line or a netlink
 * message is checked here, for security: names by Kubernetes' own rules, addresses and numbers by parsing.
 */
import type { z } from 'zod';
import { type Address, type Cidr, familyOf, parseAddress, parseCidr } from '../../model/address.ts';
import type { SourceEvent } from '../../model/events.ts';
import type { NodeView, Protocol, Service, ServicePortSpec, TrafficPolicy } from '../../model/objects.ts';
import { PROTOCOLS } from '../../model/objects.ts';
import { trimmed } from '../../model/trimmed.ts';
import { isUnserved } from '../../producers/objects.ts';
import { ServiceMessage } from '../protobuf.ts';
import { FaultList } from './faults.ts';
import { type ApiNode, type ApiService, nodeSchema, serviceCidrSchema, serviceSchema } from './schema.ts';

export const ZONE_LABEL = 'topology.kubernetes.io/zone';
/** Of the API server (ClientIPConfig). */
const DEFAULT_AFFINITY_SECONDS = 10_800;
/** RFC 1035 and 1123 labels and names: what the API server admits as names. */
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export function isObjectName(text: string): boolean {
  return NAME.test(text);
}

/** `namespace/name`, with "default" for a manifest that does not say; undefined when it is no name. */
export function objectKey(object: unknown): string | undefined {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown; namespace?: unknown } };
  const name = metadata?.name;
  const namespace = metadata?.namespace ?? 'default';
  if (typeof name !== 'string' || typeof namespace !== 'string') return undefined;
  return isObjectName(name) && isObjectName(namespace) ? `${namespace}/${name}` : undefined;
}

/** A v1 Service. Kinds that a service proxy skips (docs/semantics.md 1.1) come out as gone, without a fault. */
export function decodeService(object: unknown, key: string): SourceEvent {
  const faults = new FaultList('Service', key, object);
  const parsed = object instanceof ServiceMessage ? object : parse(serviceSchema, object, faults);
  const service = parsed === undefined ? undefined : toService(parsed, key, faults);
  return { kind: 'service', key, service, faults: trimmed(faults.list) };
}

/** A v1 Node. */
export function decodeNode(object: unknown, name: string): SourceEvent {
  const faults = new FaultList('Node', name, object);
  const parsed = parse(nodeSchema, object, faults);
  const node = parsed === undefined ? undefined : toNode(parsed, name, faults);
  return { kind: 'node', key: name, node, faults: trimmed(faults.list) };
}

/** A networking.k8s.io/v1 ServiceCIDR. */
export function decodeServiceCidr(object: unknown, name: string): SourceEvent {
  const faults = new FaultList('ServiceCIDR', name, object);
  const parsed = parse(serviceCidrSchema, object, faults);
  const texts = parsed?.spec?.cidrs ?? [];
  const cidrs = parsed && readCidrs(texts, 'spec.cidrs', faults);
  return { kind: 'serviceCidr', key: name, cidrs, faults: trimmed(faults.list) };
}

function readCidrs(texts: readonly string[], field: string, faults: FaultList): Cidr[] {
  const cidrs: Cidr[] = [];
  for (const [i, text] of texts.entries()) {
    const cidr = parseCidr(text);
    if (cidr === undefined) faults.leaveOut(`${field}[${i}]`, text, 'must be a CIDR');
    else cidrs.push(cidr);
  }
  return cidrs;
}

/** Check the shape; undefined with faults when it is another. */
export function parse<S extends z.ZodType>(schema: S, object: unknown, faults: FaultList): z.infer<S> | undefined {
  const result = schema.safeParse(object);
  return result.success ? result.data : faults.shape(result.error.issues, object);
}

export function isPortNumber(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= 65_535;
}

/** A port's name goes into comments of rules: IANA_SVC_NAME or a DNS label; "" for none. */
export function isPortName(name: string): boolean {
  return name === '' || /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name);
}

export function readProtocol(text: string | null | undefined): Protocol | undefined {
  const name = text ?? 'TCP';
  return PROTOCOLS.find((protocol) => protocol === name);
}

export const PROTOCOL_PROBLEM = `must be one of ${PROTOCOLS.join(', ')}`;
export const PORT_PROBLEM = 'must be a whole number from 1 to 65535';
export const PORT_NAME_PROBLEM = 'must be a port name: small letters, digits and -, at most 63';

function toService(api: ApiService, key: string, faults: FaultList): Service | undefined {
  const { spec, metadata } = api;
  if (spec.type === 'ExternalName' || isUnserved(metadata.labels)) return undefined;
  const clusterIPs = readClusterIPs(spec, faults);
  if (clusterIPs === undefined || clusterIPs.length === 0) return undefined;
  const ports = (spec.ports ?? []).map((port, i) => readPort(port, `spec.ports[${i}]`, faults));
  if (ports.length === 0)
    return faults.setAside('spec.ports', '', 'must list a port; without one there is nothing to serve');
  if (faults.list.length > 0) return undefined;
  const affinity = readAffinity(spec, faults);
  return {
    key,
    ...(metadata.uid ? { uid: metadata.uid } : {}),
    createdAt: Date.parse(metadata.creationTimestamp ?? '') || 0,
    type: readType(spec.type, faults),
    clusterIPs: trimmed(clusterIPs),
    externalIPs: trimmed(readAddresses(spec.externalIPs ?? [], 'spec.externalIPs', faults)),
    loadBalancerIPs: trimmed(readIngress(api, faults)),
    sourceRanges: readSourceRanges(spec.loadBalancerSourceRanges ?? [], faults),
    ports: uniquePorts(
      ports.filter((port) => port !== undefined),
      faults,
    ),
    internalTrafficPolicy: readPolicy(spec.internalTrafficPolicy, 'spec.internalTrafficPolicy', faults),
    externalTrafficPolicy: readPolicy(spec.externalTrafficPolicy, 'spec.externalTrafficPolicy', faults),
    affinitySeconds: affinity,
    healthCheckNodePort: readHealthPort(spec.healthCheckNodePort ?? 0, faults),
  };
}

/** One cluster IP per family (docs/semantics.md 1.2); undefined for a headless Service or one that has none yet. */
function readClusterIPs(spec: ApiService['spec'], faults: FaultList): Address[] | undefined {
  const listed = spec.clusterIPs ?? [];
  const texts = listed.length > 0 ? listed : [spec.clusterIP ?? ''];
  if (texts[0] === '' || texts[0] === 'None') return undefined;
  const found: Address[] = [];
  for (const [i, text] of texts.entries()) {
    const field = listed.length > 0 ? `spec.clusterIPs[${i}]` : 'spec.clusterIP';
    const address = parseAddress(text);
    const family = spec.ipFamilies?.[i];
    if (address === undefined) faults.setAside(field, text, 'must be an IP address');
    else if (family !== undefined && familyOf(address) !== family) {
      faults.setAside(field, text, `must be an ${family} address, as spec.ipFamilies[${i}] says`);
    } else if (found.some((other) => familyOf(other) === familyOf(address))) {
      faults.setAside(field, text, 'must be of another family than the address before it');
    } else found.push(address);
  }
  return found;
}

type ApiPort = NonNullable<ApiService['spec']['ports']>[number];

function readPort(port: ApiPort, field: string, faults: FaultList): ServicePortSpec | undefined {
  const name = port.name ?? '';
  const protocol = readProtocol(port.protocol);
  const nodePort = port.nodePort ?? 0;
  if (!isPortName(name)) return faults.setAside(`${field}.name`, name, PORT_NAME_PROBLEM);
  if (protocol === undefined) return faults.setAside(`${field}.protocol`, port.protocol, PROTOCOL_PROBLEM);
  if (!isPortNumber(port.port)) return faults.setAside(`${field}.port`, port.port, PORT_PROBLEM);
  if (nodePort !== 0 && !isPortNumber(nodePort)) return faults.setAside(`${field}.nodePort`, nodePort, PORT_PROBLEM);
  return { name, protocol, port: port.port, nodePort };
}

/** The API server refuses a Service that has a port, or a port's name, twice; a manifest may still have one. */
function uniquePorts(ports: readonly ServicePortSpec[], faults: FaultList): ServicePortSpec[] {
  const seen = new Set<string>();
  const unique: ServicePortSpec[] = [];
  for (const [i, spec] of ports.entries()) {
    const { name, protocol, port, nodePort } = spec;
    const field = `spec.ports[${i}]`;
    const marks = [`${protocol} ${port}`, `${name}/${protocol}`];
    const isTwice = marks.some((mark) => seen.has(mark));
    for (const mark of marks) seen.add(mark);
    if (isTwice) {
      faults.leaveOut(field, `${name} ${protocol} ${port}`, 'has the number or the name of an earlier port');
      continue;
    }
    const nodeMark = `node port ${protocol} ${nodePort}`;
    const isTaken = nodePort !== 0 && seen.has(nodeMark);
    if (isTaken) faults.leaveOut(`${field}.nodePort`, nodePort, 'is the node port of an earlier port');
    seen.add(nodeMark);
    unique.push(isTaken ? { ...spec, nodePort: 0 } : spec);
  }
  return unique;
}

function readType(text: string | null | undefined, faults: FaultList): Service['type'] {
  if (text === undefined || text === null || text === 'ClusterIP') return 'ClusterIP';
  if (text === 'NodePort' || text === 'LoadBalancer') return text;
  faults.useDefault(
    'spec.type',
    text,
    'must be ClusterIP, NodePort, LoadBalancer or ExternalName; treated as ClusterIP',
  );
  return 'ClusterIP';
}

function readPolicy(text: string | null | undefined, field: string, faults: FaultList): TrafficPolicy {
  if (text === 'Local' || text === 'Cluster') return text;
  if (text !== undefined && text !== null && text !== '') {
    faults.useDefault(field, text, 'must be Cluster or Local; treated as Cluster');
  }
  return 'Cluster';
}

function readAffinity(spec: ApiService['spec'], faults: FaultList): number {
  const kind = spec.sessionAffinity ?? 'None';
  if (kind !== 'None' && kind !== 'ClientIP') {
    faults.useDefault('spec.sessionAffinity', kind, 'must be None or ClientIP; treated as None');
  }
  if (kind !== 'ClientIP') return 0;
  const seconds = spec.sessionAffinityConfig?.clientIP?.timeoutSeconds;
  const field = 'spec.sessionAffinityConfig.clientIP.timeoutSeconds';
  if (seconds === undefined || seconds === null) {
    faults.useDefault(
      field,
      undefined,
      `is missing, and sessionAffinity ClientIP needs it; treated as ${DEFAULT_AFFINITY_SECONDS}`,
    );
    return DEFAULT_AFFINITY_SECONDS;
  }
  // 1 to 86400: the API server's own limits.
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= 86_400) return seconds;
  faults.useDefault(field, seconds, `must be a whole number from 1 to 86400; treated as ${DEFAULT_AFFINITY_SECONDS}`);
  return DEFAULT_AFFINITY_SECONDS;
}

function readAddresses(texts: readonly string[], field: string, faults: FaultList): Address[] {
  const found = new Set<Address>();
  for (const [i, text] of texts.entries()) {
    const address = parseAddress(text);
    if (address === undefined) faults.leaveOut(`${field}[${i}]`, text, 'must be an IP address');
    else found.add(address);
  }
  return [...found];
}

/** Addresses of ipMode VIP: others are translated before they reach the node (KEP-1860). Names are not addresses. */
function readIngress(api: ApiService, faults: FaultList): Address[] {
  const found = new Set<Address>();
  for (const [i, { ip, hostname, ipMode }] of (api.status?.loadBalancer?.ingress ?? []).entries()) {
    const field = `status.loadBalancer.ingress[${i}]`;
    if (ip === undefined || ip === null || ip === '') {
      const isNamed = hostname !== undefined && hostname !== null && hostname !== '';
      if (isNamed)
        faults.notice(
          `${field}.hostname`,
          hostname,
          'is a name, not an address; nothing is served for it on this node',
        );
      continue;
    }
    const address = parseAddress(ip);
    if (address === undefined) faults.leaveOut(`${field}.ip`, ip, 'must be an IP address');
    else if ((ipMode ?? 'VIP') === 'VIP') found.add(address);
    else if (ipMode !== 'Proxy') faults.leaveOut(`${field}.ipMode`, ipMode, 'must be VIP or Proxy');
  }
  return [...found];
}

/**
 * Who is named; undefined when nobody is, which leaves the addresses open. Ranges that cannot be read admit nobody: where
 * none is left, the addresses are closed (kube-proxy opens them).
 */
function readSourceRanges(texts: readonly string[], faults: FaultList): readonly Cidr[] | undefined {
  if (texts.length === 0) return undefined;
  const found = new Set<Cidr>();
  for (const [i, text] of texts.entries()) {
    const range = parseCidr(text);
    if (range !== undefined) found.add(range);
    else faults.leaveOut(`spec.loadBalancerSourceRanges[${i}]`, text, 'must be a CIDR; it admits nobody');
  }
  return trimmed([...found]);
}

function readHealthPort(port: number, faults: FaultList): number {
  if (port === 0 || isPortNumber(port)) return port;
  faults.leaveOut('spec.healthCheckNodePort', port, PORT_PROBLEM);
  return 0;
}

/** The cluster's autoscaler is about to delete the Node (KEP-3836). */
const LEAVING_TAINT = 'ToBeDeletedByClusterAutoscaler';

function toNode(api: ApiNode, name: string, faults: FaultList): NodeView {
  const addresses: Address[] = [];
  for (const type of ['InternalIP', 'ExternalIP']) {
    for (const [i, entry] of (api.status?.addresses ?? []).entries()) {
      if (entry.type !== type) continue;
      const address = parseAddress(entry.address);
      if (address === undefined) faults.leaveOut(`status.addresses[${i}]`, entry.address, 'must be an IP address');
      else addresses.push(address);
    }
  }
  const texts = api.spec?.podCIDRs ?? (api.spec?.podCIDR === undefined ? [] : [api.spec.podCIDR]);
  const podCIDRs = readCidrs(texts, 'spec.podCIDRs', faults);
  const { labels, deletionTimestamp } = api.metadata;
  const isLeaving = (api.spec?.taints ?? []).some(({ key }) => key === LEAVING_TAINT);
  const isEligible = (deletionTimestamp ?? '') === '' && !isLeaving;
  return { name, zone: labels?.[ZONE_LABEL] ?? '', addresses, podCIDRs, isEligible };
}
