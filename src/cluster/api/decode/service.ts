/** A v1 Service, in JSON or protobuf → the `Service` that a proxy programs. A ServiceCIDR is read here as well. */
import { type Address, type Cidr, familyOf, parseAddress, parseCidr } from '../../../base/address.ts';
import type { SourceEvent } from '../../../proxy/model/events.ts';
import { type SchedulerText, serviceSchedulerProblem } from '../../../proxy/model/ipvs-scheduler.ts';
import { IPVS_SCHEDULER_ANNOTATION, isUnserved, type Labels } from '../../../proxy/model/labels.ts';
import { compact, type Service, type ServicePortSpec, type TrafficPolicy } from '../../../proxy/model/objects.ts';
import { kindReader, metaField, ObjectMeta } from '../protobuf/kind.ts';
import { append, NOTHING, type WireReader } from '../protobuf/wire.ts';
import {
  FaultList,
  isPortName,
  isPortNumber,
  PORT_NAME_PROBLEM,
  PORT_PROBLEM,
  PROTOCOL_PROBLEM,
  parse,
  readCidrs,
  readProtocol,
} from './checks.ts';
import { type ApiService, serviceCidrSchema, serviceSchema } from './schema.ts';
import { readBalance, readLimits, readSlowStart } from './traffic.ts';

/** The API server's default (ClientIPConfig). */
const DEFAULT_AFFINITY_SECONDS = 10_800;

/** A Service that a service proxy skips (headless, ExternalName, another proxy's) is decoded as gone, without a fault. */
export function decodeService(object: unknown, key: string): Extract<SourceEvent, { readonly kind: 'service' }> {
  const faults = new FaultList('Service', key, object);
  const parsed = object instanceof ServiceMessage ? object : parse(serviceSchema, object, faults);
  const service = parsed === undefined ? undefined : toService(parsed, key, faults);
  return { kind: 'service', key, service, faults: compact(faults.list) };
}

function toService(api: ApiService, key: string, faults: FaultList): Service | undefined {
  const { spec, metadata } = api;
  if (spec.type === 'ExternalName' || isUnserved(metadata.labels)) return undefined;
  const clusterIPs = readClusterIPs(spec, faults);
  if (clusterIPs === undefined || clusterIPs.length === 0) return undefined;
  const ports = (spec.ports ?? []).map((port, i) => readPort(port, i, faults));
  if (ports.length === 0)
    return faults.setAside('spec.ports', '', 'must list a port; without one there is nothing to serve');
  if (faults.list.length > 0) return undefined;
  const affinity = readAffinity(spec, faults);
  const service: Service = {
    key,
    uid: metadata.uid ?? '',
    createdAt: createdAt(metadata),
    type: readType(spec.type, faults),
    clusterIPs: clusterIPs.length > 1 ? compact(clusterIPs) : clusterIPs,
    externalIPs: compact(readAddresses(spec.externalIPs ?? [], 'spec.externalIPs', faults)),
    loadBalancerIPs: compact(readIngress(api, faults)),
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
  const frontends = frontendsOf(service);
  if (frontends <= MAX_FRONTENDS) return complete(service, metadata, faults);
  const problem = `at all addresses of the Service, with its source ranges, make ${frontends} frontends; ${MAX_FRONTENDS} is the limit`;
  return faults.setAside('spec.ports', `${service.ports.length} ports`, problem);
}

/** A manifest names no uid, and few Services have annotations of slicewire. */
function complete(service: Service, { annotations }: ApiService['metadata'], faults: FaultList): Service {
  const found = annotations ? withAnnotations(service, annotations, faults) : service;
  if (found.uid !== '') return found;
  const { uid: _, ...others } = found;
  return others;
}

function withAnnotations(service: Service, annotations: Labels, faults: FaultList): Service {
  const text = annotations[IPVS_SCHEDULER_ANNOTATION];
  const ipvsScheduler = text === undefined ? undefined : readScheduler(text, faults);
  const slowStart = readSlowStart(annotations, faults);
  const hashes = readBalance(annotations, { ...service, ipvsScheduler, frontends: frontendsOf(service) }, faults);
  const limits = readLimits(annotations, faults);
  return {
    ...service,
    ...(ipvsScheduler === undefined ? {} : { ipvsScheduler }),
    ...(slowStart === undefined ? {} : { slowStart }),
    ...(hashes === undefined ? {} : { hashes }),
    ...(limits.length === 0 ? {} : { limits }),
  };
}

/** Spaces around the parts do not matter. */
function readScheduler(text: string, faults: FaultList): SchedulerText | undefined {
  const found = text
    .split(',')
    .map((part) => part.trim())
    .join(',');
  const problem = serviceSchedulerProblem(found);
  if (problem === undefined) return found;
  return faults.useDefault(
    `metadata.annotations["${IPVS_SCHEDULER_ANNOTATION}"]`,
    text,
    `${problem}; the scheduler of the node is used`,
  );
}

/** Milliseconds since 1970; 0 for an earlier or invalid time. */
function createdAt(metadata: ApiService['metadata']): number {
  const time = metadata instanceof ObjectMeta ? metadata.createdAt : Date.parse(metadata.creationTimestamp ?? '') || 0;
  return Math.max(0, time);
}

/**
 * Limit of frontends of one Service. No API server bounds its ports and addresses, and a small object could multiply them to millions
 * of rules on every node.
 */
export const MAX_FRONTENDS = 100_000;

/** Each port at each address is a frontend; at an address of a load balancer, once for each source range. */
function frontendsOf({ clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, ports }: Service): number {
  const ofBalancers = loadBalancerIPs.length * Math.max(1, sourceRanges?.length ?? 1);
  return ports.length * (clusterIPs.length + externalIPs.length + ofBalancers);
}

/** One cluster IP per family; undefined for a headless Service, or one that has none yet. */
function readClusterIPs(spec: ApiService['spec'], faults: FaultList): Address[] | undefined {
  const listed = spec.clusterIPs ?? [];
  const texts = listed.length > 0 ? listed : [spec.clusterIP ?? ''];
  if (texts[0] === '' || texts[0] === 'None') return undefined;
  let found: Address[] = [];
  for (let i = 0; i < texts.length; i++) {
    const text = texts[i] ?? '';
    const address = parseAddress(text);
    const problem = clusterIPProblem(address, i, spec.ipFamilies?.[i], found);
    if (address !== undefined && problem === undefined) found = append(found, address);
    else faults.setAside(listed.length > 0 ? `spec.clusterIPs[${i}]` : 'spec.clusterIP', text, problem ?? '');
  }
  return found;
}

/** `before`: the addresses before this one. Returns undefined for a valid address. */
function clusterIPProblem(
  address: Address | undefined,
  i: number,
  family: string | undefined,
  before: readonly Address[],
): string | undefined {
  if (address === undefined) return 'must be an IP address';
  if (family !== undefined && familyOf(address) !== family)
    return `must be an ${family} address, as spec.ipFamilies[${i}] says`;
  const isTwice = before.length > 0 && before.some((other) => familyOf(other) === familyOf(address));
  return isTwice ? 'must not be of the same family as the address before it' : undefined;
}

type ApiPort = NonNullable<ApiService['spec']['ports']>[number];

function readPort(port: ApiPort, i: number, faults: FaultList): ServicePortSpec | undefined {
  const name = port.name ?? '';
  const protocol = readProtocol(port.protocol);
  const nodePort = port.nodePort ?? 0;
  if (!isPortName(name)) return faults.setAside(`spec.ports[${i}].name`, name, PORT_NAME_PROBLEM);
  if (protocol === undefined) return faults.setAside(`spec.ports[${i}].protocol`, port.protocol, PROTOCOL_PROBLEM);
  if (!isPortNumber(port.port)) return faults.setAside(`spec.ports[${i}].port`, port.port, PORT_PROBLEM);
  if (nodePort !== 0 && !isPortNumber(nodePort))
    return faults.setAside(`spec.ports[${i}].nodePort`, nodePort, PORT_PROBLEM);
  return { name, protocol, port: port.port, nodePort };
}

/** Leaves out repeated ports and port names: an API server refuses them, but a manifest may have them. */
function uniquePorts(ports: readonly ServicePortSpec[], faults: FaultList): readonly ServicePortSpec[] {
  if (ports.length === 1) return ports;
  const seen = new Set<string>();
  const unique: ServicePortSpec[] = [];
  for (const [i, spec] of ports.entries()) {
    const { name, protocol, port, nodePort } = spec;
    const field = `spec.ports[${i}]`;
    const marks = [`${protocol} ${port}`, `${name}/${protocol}`];
    const isTwice = marks.some((mark) => seen.has(mark));
    for (const mark of marks) seen.add(mark);
    if (isTwice) {
      faults.leaveOut(field, `${name} ${protocol} ${port}`, 'repeats the number or the name of an earlier port');
      continue;
    }
    const nodeMark = `node port ${protocol} ${nodePort}`;
    const isTaken = nodePort !== 0 && seen.has(nodeMark);
    if (isTaken) faults.leaveOut(`${field}.nodePort`, nodePort, 'is already the node port of an earlier port');
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
  // The API server's limits.
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= 86_400) return seconds;
  faults.useDefault(field, seconds, `must be a whole number from 1 to 86400; treated as ${DEFAULT_AFFINITY_SECONDS}`);
  return DEFAULT_AFFINITY_SECONDS;
}

const NO_ADDRESSES: readonly Address[] = [];

function readAddresses(texts: readonly string[], field: string, faults: FaultList): readonly Address[] {
  if (texts.length === 0) return NO_ADDRESSES;
  const found = new Set<Address>();
  for (const [i, text] of texts.entries()) {
    const address = parseAddress(text);
    if (address === undefined) faults.leaveOut(`${field}[${i}]`, text, 'must be an IP address');
    else found.add(address);
  }
  return [...found];
}

/** Ingress addresses of ipMode VIP; traffic to others is translated before it reaches the node (KEP-1860). Host names are skipped. */
function readIngress(api: ApiService, faults: FaultList): readonly Address[] {
  const ingress = api.status?.loadBalancer?.ingress ?? [];
  if (ingress.length === 0) return NO_ADDRESSES;
  const found = new Set<Address>();
  for (const [i, { ip, hostname, ipMode }] of ingress.entries()) {
    const field = `status.loadBalancer.ingress[${i}]`;
    if (ip === undefined || ip === null || ip === '') {
      const isNamed = hostname !== undefined && hostname !== null && hostname !== '';
      if (isNamed)
        faults.notice(`${field}.hostname`, hostname, 'is a host name, not an address; the proxy serves addresses only');
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
 * The ranges whose clients are admitted; undefined when all clients are. An invalid range admits no client: when no range is valid,
 * the addresses are closed (kube-proxy opens them).
 */
function readSourceRanges(texts: readonly string[], faults: FaultList): readonly Cidr[] | undefined {
  if (texts.length === 0) return undefined;
  const found = new Set<Cidr>();
  for (const [i, text] of texts.entries()) {
    const range = parseCidr(text);
    if (range !== undefined) found.add(range);
    else faults.leaveOut(`spec.loadBalancerSourceRanges[${i}]`, text, 'must be a CIDR; as it is, it admits no client');
  }
  return compact([...found]);
}

function readHealthPort(port: number, faults: FaultList): number {
  if (port === 0 || isPortNumber(port)) return port;
  faults.leaveOut('spec.healthCheckNodePort', port, PORT_PROBLEM);
  return 0;
}

/** A networking.k8s.io/v1 ServiceCIDR: the ranges of cluster IPs. */
export function decodeServiceCidr(object: unknown, name: string): SourceEvent {
  const faults = new FaultList('ServiceCIDR', name, object);
  const parsed = parse(serviceCidrSchema, object, faults);
  const texts = parsed?.spec?.cidrs ?? [];
  const cidrs = parsed && readCidrs(texts, 'spec.cidrs', faults);
  return { kind: 'serviceCidr', key: name, cidrs, faults: compact(faults.list) };
}

// A Service in protobuf: the fields that are read. Their numbers are those of Kubernetes' own `generated.proto` (k8s.io/api core/v1),
// and never change.

class Port {
  name = '';
  protocol: string | undefined = undefined;
  port = 0;
  nodePort = 0;
}

function portField(tag: number, port: Port, from: WireReader): void {
  if (tag === 1) port.name = from.common();
  else if (tag === 2) port.protocol = from.commonOrNone();
  else if (tag === 3) port.port = from.int();
  else if (tag === 5) port.nodePort = from.int();
}

type ClientIp = { timeoutSeconds: number | undefined };
type AffinityConfig = { clientIP: ClientIp | undefined };

function affinityField(tag: number, config: AffinityConfig, from: WireReader): void {
  if (tag !== 1) return;
  config.clientIP = from.into<ClientIp>({ timeoutSeconds: undefined }, (inner, clientIP) => {
    if (inner === 1) clientIP.timeoutSeconds = from.int();
  });
}

class ServiceSpec {
  ports: Port[] = NOTHING;
  clusterIP = '';
  type: string | undefined = undefined;
  externalIPs: string[] = NOTHING;
  sessionAffinity: string | undefined = undefined;
  loadBalancerSourceRanges: string[] = NOTHING;
  externalTrafficPolicy: string | undefined = undefined;
  healthCheckNodePort = 0;
  sessionAffinityConfig: AffinityConfig | undefined = undefined;
  clusterIPs: string[] = NOTHING;
  ipFamilies: string[] = NOTHING;
  internalTrafficPolicy: string | undefined = undefined;
}

function specField(tag: number, spec: ServiceSpec, from: WireReader): void {
  if (tag === 1) spec.ports = append(spec.ports, from.into(new Port(), portField));
  else if (tag === 3) spec.clusterIP = from.text();
  else if (tag === 4) spec.type = from.commonOrNone();
  else if (tag === 5) spec.externalIPs = append(spec.externalIPs, from.text());
  else if (tag === 7) spec.sessionAffinity = from.commonOrNone();
  else if (tag === 9) spec.loadBalancerSourceRanges = append(spec.loadBalancerSourceRanges, from.text());
  else if (tag === 11) spec.externalTrafficPolicy = from.commonOrNone();
  else if (tag === 12) spec.healthCheckNodePort = from.int();
  else if (tag === 14) spec.sessionAffinityConfig = from.into({ clientIP: undefined }, affinityField);
  else if (tag === 18) spec.clusterIPs = append(spec.clusterIPs, from.text());
  else if (tag === 19) spec.ipFamilies = append(spec.ipFamilies, from.common());
  else if (tag === 22) spec.internalTrafficPolicy = from.common();
}

class Ingress {
  ip: string | undefined = undefined;
  hostname: string | undefined = undefined;
  ipMode: string | undefined = undefined;
}

function ingressField(tag: number, ingress: Ingress, from: WireReader): void {
  if (tag === 1) ingress.ip = from.text();
  else if (tag === 2) ingress.hostname = from.text();
  else if (tag === 3) ingress.ipMode = from.common();
}

function balancerField(tag: number, ingress: Ingress[], from: WireReader): void {
  if (tag === 1) ingress.push(from.into(new Ingress(), ingressField));
}

function statusField(tag: number, ingress: Ingress[], from: WireReader): void {
  if (tag !== 1) return;
  from.into(ingress, balancerField);
}

/** A Service from protobuf already has the shape of the schema. */
class ServiceMessage implements ApiService {
  metadata: ApiService['metadata'] = new ObjectMeta();
  spec = new ServiceSpec();
  status: { loadBalancer: { ingress: Ingress[] } } | undefined = undefined;
}

function serviceField(tag: number, service: ServiceMessage, from: WireReader): void {
  if (tag === 1) service.metadata = from.into(new ObjectMeta(), metaField);
  else if (tag === 2) from.into(service.spec, specField);
  else if (tag === 3) service.status = { loadBalancer: { ingress: from.into([], statusField) } };
}

export const SERVICES = kindReader('Service', (from, end) => from.into(new ServiceMessage(), serviceField, end));
