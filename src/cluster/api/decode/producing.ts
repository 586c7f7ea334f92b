/**
 * Decodes API objects for the producers of slices: Pods, Services with their selectors and target ports, Nodes with zone and CPUs,
 * and existing slices and Endpoints, which keep the API's shape.
 */
import type * as z from 'zod/mini';
import { type Address, FAMILIES, type Family, familyOf, parseAddress } from '../../../base/address.ts';
import { CONTROL_PLANE_LABELS, TOPOLOGY_ANNOTATIONS, ZONE_LABEL } from '../../../proxy/model/labels.ts';
import { compact, type ObjectKind, TRAFFIC_DISTRIBUTIONS } from '../../../proxy/model/objects.ts';
import type {
  ContainerPort,
  EndpointsObject,
  EndpointsSubset,
  PodView,
  SelectingService,
  SliceObject,
  TargetPort,
  ZonedNode,
} from '../../producers/api-objects.ts';
import { kindReader, metaField, ObjectMeta } from '../protobuf/kind.ts';
import { addLabel, append, isoTime, NOTHING, type WireReader } from '../protobuf/wire.ts';
import {
  type Decoded,
  FaultList,
  isPortName,
  isPortNumber,
  PORT_NAME_PROBLEM,
  PORT_PROBLEM,
  PROTOCOL_PROBLEM,
  parse,
  readProtocol,
} from './checks.ts';
import {
  type ApiPod,
  type ApiSelectingService,
  type ApiZonedNode,
  endpointsSchema,
  podSchema,
  selectingServiceSchema,
  sliceObjectSchema,
  zonedNodeSchema,
} from './schema.ts';

interface DecodeInput<S extends z.core.$ZodType> {
  readonly kind: ObjectKind;
  readonly key: string;
  readonly schema: S;
  /** Whether a reader of protobuf made the object, so that it already has the shape of the schema. */
  readonly isRead?: (object: unknown) => object is z.infer<S>;
}

function decoded<S extends z.core.$ZodType, T>(
  { kind, key, schema, isRead }: DecodeInput<S>,
  object: unknown,
  convert: (parsed: z.infer<S>, faults: FaultList) => T | undefined,
): Decoded<T> {
  const faults = new FaultList(kind, key, object);
  const parsed = isRead?.(object) ? object : parse(schema, object, faults);
  const value = parsed === undefined ? undefined : convert(parsed, faults);
  return { value, faults: compact(faults.list) };
}

/** No controller fills in the status of a hand-written Pod: without conditions it is ready, and it must have its address. */
interface PodDefaults {
  readonly isHandWritten: boolean;
}

export function decodePod(object: unknown, key: string, defaults: PodDefaults): Decoded<PodView> {
  const isRead = (it: unknown) => it instanceof PodMessage;
  return decoded({ kind: 'Pod', key, schema: podSchema, isRead }, object, (pod, faults) =>
    toPod(pod, { key, faults, defaults }),
  );
}

interface PodContext {
  readonly key: string;
  readonly faults: FaultList;
  readonly defaults: PodDefaults;
}

function toPod({ metadata, spec, status }: ApiPod, { key, faults, defaults }: PodContext): PodView {
  const conditions = status?.conditions ?? [];
  const ready = conditions.find(({ type }) => type === 'Ready');
  const finished = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  const addresses = podAddresses(status, faults);
  if (defaults.isHandWritten && addresses.length === 0 && !finished && faults.list.length === 0) {
    faults.notice('status.podIP', undefined, 'is missing; a Pod without an address is not an endpoint');
  }
  return {
    key,
    namespace: namespaceOf(key),
    name: metadata.name,
    uid: metadata.uid ?? '',
    labels: metadata.labels ?? {},
    addresses,
    nodeName: spec.nodeName ?? '',
    hostname: spec.hostname ?? '',
    subdomain: spec.subdomain ?? '',
    ports: compact(containerPorts(spec, faults)),
    ready: ready === undefined ? defaults.isHandWritten && conditions.length === 0 : ready.status === 'True',
    readySince: timeOf(ready?.lastTransitionTime),
    terminating: isSet(metadata.deletionTimestamp),
    finished,
  };
}

function podAddresses(status: ApiPod['status'], faults: FaultList): readonly Address[] {
  const listed = (status?.podIPs ?? []).map(({ ip }) => ip ?? '');
  const texts = listed.length > 0 ? listed : [status?.podIP ?? ''];
  const found: Address[] = [];
  for (const [i, text] of texts.entries()) {
    if (text === '') continue;
    const address = parseAddress(text);
    if (address !== undefined) found.push(address);
    else faults.leaveOut(listed.length > 0 ? `status.podIPs[${i}].ip` : 'status.podIP', text, 'must be an IP address');
  }
  return compact(found);
}

/** Ports of containers, and of init containers that run beside them (KEP-753). */
function containerPorts({ containers, initContainers }: ApiPod['spec'], faults: FaultList): ContainerPort[] {
  const found: ContainerPort[] = [];
  const add = (container: NonNullable<typeof containers>[number], field: string) => {
    for (const [i, { name, protocol: text, containerPort }] of (container.ports ?? []).entries()) {
      const protocol = readProtocol(text);
      const where = `${field}.ports[${i}]`;
      if (protocol === undefined) faults.leaveOut(`${where}.protocol`, text, PROTOCOL_PROBLEM);
      else if (!isPortNumber(containerPort)) faults.leaveOut(`${where}.containerPort`, containerPort, PORT_PROBLEM);
      else if (name) found.push({ name, protocol, port: containerPort });
    }
  };
  for (const [i, container] of (containers ?? []).entries()) add(container, `spec.containers[${i}]`);
  for (const [i, container] of (initContainers ?? []).entries()) {
    if (container.restartPolicy === 'Always') add(container, `spec.initContainers[${i}]`);
  }
  return found;
}

/** A Service of type ExternalName is decoded without a selector: it has a name in place of endpoints. */
export function decodeSelectingService(object: unknown, key: string): Decoded<SelectingService> {
  return decoded({ kind: 'Service', key, schema: selectingServiceSchema }, object, (service, faults) =>
    toSelecting(service, key, faults),
  );
}

function toSelecting({ metadata, spec }: ApiSelectingService, key: string, faults: FaultList): SelectingService {
  const selector = spec.selector ?? {};
  const takesEndpoints = Object.keys(selector).length === 0;
  // The older annotation overrides the newer one.
  const mode = TOPOLOGY_ANNOTATIONS.map((name) => metadata.annotations?.[name]).find((value) => value !== undefined);
  return {
    key,
    namespace: namespaceOf(key),
    name: metadata.name,
    uid: metadata.uid ?? '',
    labels: metadata.labels ?? {},
    createdAt: timeOf(metadata.creationTimestamp),
    terminating: isSet(metadata.deletionTimestamp),
    selector: takesEndpoints || spec.type === 'ExternalName' ? undefined : selector,
    takesEndpoints,
    ports: compact(spec.type === 'ExternalName' ? [] : targetPorts(spec.ports ?? [], faults)),
    families: readFamilies(spec, faults),
    isHeadless: ['', 'None'].includes(clusterIPTexts(spec)[0] ?? ''),
    publishNotReady: spec.publishNotReadyAddresses ?? false,
    wantsTopology: mode === 'Auto' || mode === 'auto',
    distribution: readDistribution(spec.trafficDistribution, faults),
  };
}

function readDistribution(text: string | null | undefined, faults: FaultList) {
  if (text === undefined || text === null || text === '') return undefined;
  const known = TRAFFIC_DISTRIBUTIONS.find((value) => value === text);
  if (known === undefined) {
    faults.leaveOut('spec.trafficDistribution', text, `must be one of ${TRAFFIC_DISTRIBUTIONS.join(', ')}`);
  }
  return known;
}

type ApiTargetPort = NonNullable<ApiSelectingService['spec']['ports']>[number];

function targetPorts(ports: readonly ApiTargetPort[], faults: FaultList): TargetPort[] {
  const found: TargetPort[] = [];
  for (const [i, { name, protocol: text, port, targetPort, appProtocol }] of ports.entries()) {
    const protocol = readProtocol(text);
    // 0 and "" mean that the field is not set.
    const target = targetPort || port;
    const field = `spec.ports[${i}]`;
    const targetField = `${field}.${targetPort ? 'targetPort' : 'port'}`;
    // The proxy reports the same faults, but does not read the ports of headless Services.
    if (protocol === undefined) faults.leaveOut(`${field}.protocol`, text, PROTOCOL_PROBLEM);
    else if (typeof target === 'number' && !isPortNumber(target)) faults.leaveOut(targetField, target, PORT_PROBLEM);
    else if (typeof target === 'string' && !isPortName(target)) faults.leaveOut(targetField, target, PORT_NAME_PROBLEM);
    else if (typeof target === 'string' && !/[a-z]/.test(target)) faults.leaveOut(targetField, target, DIGITS_PROBLEM);
    else found.push({ name: name ?? '', protocol, target, appProtocol: appProtocol ?? undefined });
  }
  return found;
}

/** Digits in quotes are a port name, and a port name needs a letter. */
const DIGITS_PROBLEM = 'must be a number without quotes, or a port name with a letter';

type ApiSpec = ApiSelectingService['spec'];

/** spec.ipFamilies. Without it (an old API server, a manifest) the families of the cluster IPs count, and for a headless Service both. */
function readFamilies(spec: ApiSpec, faults: FaultList): Family[] {
  const named = new Set<Family>();
  for (const [i, text] of (spec.ipFamilies ?? []).entries()) {
    const family = FAMILIES.find((known) => known === text);
    if (family === undefined) faults.leaveOut(`spec.ipFamilies[${i}]`, text, `must be ${FAMILIES.join(' or ')}`);
    else named.add(family);
  }
  if (named.size > 0) return [...named];
  const addresses = clusterIPTexts(spec)
    .map(parseAddress)
    .filter((address) => address !== undefined);
  return addresses.length > 0 ? [...new Set(addresses.map(familyOf))] : [...FAMILIES];
}

function clusterIPTexts({ clusterIPs, clusterIP }: ApiSpec): readonly string[] {
  const listed = clusterIPs ?? [];
  return listed.length > 0 ? listed : [clusterIP ?? ''];
}

export function decodeZonedNode(object: unknown, name: string): Decoded<ZonedNode> {
  return decoded({ kind: 'Node', key: name, schema: zonedNodeSchema }, object, (node, faults) =>
    toZoned(node, name, faults),
  );
}

function toZoned({ metadata, status }: ApiZonedNode, name: string, faults: FaultList): ZonedNode {
  const labels = metadata.labels ?? {};
  const cpu = status?.allocatable?.cpu;
  const milliCpu = cpu === undefined || cpu === null ? 0 : readCpu(cpu);
  if (milliCpu === undefined) faults.leaveOut('status.allocatable.cpu', cpu, 'must be a quantity such as 4 or 3920m');
  return {
    name,
    zone: labels[ZONE_LABEL] ?? '',
    ready: (status?.conditions ?? []).some(({ type, status: is }) => type === 'Ready' && is === 'True'),
    milliCpu: milliCpu ?? 0,
    isControlPlane: CONTROL_PLANE_LABELS.some((label) => labels[label] !== undefined),
  };
}

/** Suffixes of a quantity, as powers of ten that convert it to thousandths. */
const EXPONENTS: Readonly<Record<string, number>> = { n: -6, u: -3, m: 0, '': 3, k: 6, M: 9 };

/** More than any machine has, and small enough that sums of many stay exact. */
const MAX_MILLI_CPU = 1_000_000_000;

/** A quantity of CPUs in thousandths, rounded up; undefined for an invalid text. */
function readCpu(text: string | number): number | undefined {
  const [, amount, unit = ''] = /^(\d+(?:\.\d*)?|\.\d+)([numkM]?)$/.exec(String(text)) ?? [];
  if (amount === undefined) return undefined;
  // Shifted as text: 2.007 * 1000 is more than 2007.
  const milliCpu = Math.ceil(Number(`${amount}e${EXPONENTS[unit]}`));
  return milliCpu <= MAX_MILLI_CPU ? milliCpu : undefined;
}

/** An EndpointSlice with all fields that other programs wrote, except managedFields. */
export function decodeSliceObject(object: unknown, key: string): Decoded<SliceObject> {
  return decoded({ kind: 'EndpointSlice', key, schema: sliceObjectSchema }, object, ({ metadata, ...slice }) => ({
    ...slice,
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: writable(metadata, key),
    endpoints: slice.endpoints ?? [],
    ports: slice.ports ?? [],
  }));
}

/** v1 Endpoints with all fields, without invalid addresses and ports. */
export function decodeEndpointsObject(object: unknown, key: string): Decoded<EndpointsObject> {
  return decoded({ kind: 'Endpoints', key, schema: endpointsSchema }, object, ({ metadata, subsets }, faults) => ({
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: writable(metadata, key),
    subsets: (subsets ?? []).map((subset, i) => usable(subset, `subsets[${i}]`, faults)),
  }));
}

function usable(subset: EndpointsSubset, field: string, faults: FaultList): EndpointsSubset {
  const addresses = (of: 'addresses' | 'notReadyAddresses') => {
    const list = subset[of]?.filter(({ ip }, i) => {
      const isOne = parseAddress(ip) !== undefined;
      if (!isOne) faults.leaveOut(`${field}.${of}[${i}].ip`, ip, 'must be an IP address');
      return isOne;
    });
    return list === undefined ? {} : { [of]: list };
  };
  const ports = subset.ports?.filter(({ port }, i) => {
    if (!isPortNumber(port)) faults.leaveOut(`${field}.ports[${i}].port`, port, PORT_PROBLEM);
    return isPortNumber(port);
  });
  return { ...subset, ...addresses('addresses'), ...addresses('notReadyAddresses'), ...(ports ? { ports } : {}) };
}

/** Metadata without managedFields: the API server keeps them when an update leaves them out. */
function writable<M extends { managedFields?: unknown }>(
  metadata: M,
  key: string,
): Omit<M, 'managedFields'> & { namespace: string } {
  const { managedFields: _, ...rest } = metadata;
  return { ...rest, namespace: namespaceOf(key) };
}

function namespaceOf(key: string): string {
  return key.slice(0, key.indexOf('/'));
}

function timeOf(text: string | null | undefined): number {
  return Date.parse(text ?? '') || 0;
}

function isSet(time: string | null | undefined): boolean {
  return (time ?? '') !== '';
}

// A Pod in protobuf: the fields that the controllers use (`generated.proto` of k8s.io/api core/v1). Most of a Pod is skipped: volumes,
// environments, probes, statuses of containers.

/** With all labels: a selector may name any of them. */
class PodMeta extends ObjectMeta {
  deletionTimestamp: string | undefined = undefined;
}

function podMetaField(tag: number, meta: PodMeta, from: WireReader): void {
  if (tag === 9) meta.deletionTimestamp = isoTime(from);
  else if (tag === 11) meta.labels = addLabel(meta.labels, from);
  else metaField(tag, meta, from);
}

class PortMessage {
  name: string | undefined = undefined;
  protocol: string | undefined = undefined;
  containerPort = 0;
}

function containerPortField(tag: number, port: PortMessage, from: WireReader): void {
  if (tag === 1) port.name = from.common();
  else if (tag === 3) port.containerPort = from.int();
  else if (tag === 4) port.protocol = from.commonOrNone();
}

class ContainerMessage {
  restartPolicy: string | undefined = undefined;
  ports: PortMessage[] = NOTHING;
}

function containerField(tag: number, container: ContainerMessage, from: WireReader): void {
  if (tag === 6) container.ports = append(container.ports, from.into(new PortMessage(), containerPortField));
  else if (tag === 24) container.restartPolicy = from.common();
}

class PodSpec {
  nodeName: string | undefined = undefined;
  hostname: string | undefined = undefined;
  subdomain: string | undefined = undefined;
  containers: ContainerMessage[] = NOTHING;
  initContainers: ContainerMessage[] = NOTHING;
}

function specField(tag: number, spec: PodSpec, from: WireReader): void {
  if (tag === 2) spec.containers = append(spec.containers, from.into(new ContainerMessage(), containerField));
  else if (tag === 10) spec.nodeName = from.common();
  else if (tag === 16) spec.hostname = from.text();
  else if (tag === 17) spec.subdomain = from.common();
  else if (tag === 20)
    spec.initContainers = append(spec.initContainers, from.into(new ContainerMessage(), containerField));
}

class Condition {
  type = '';
  status = '';
  lastTransitionTime: string | undefined = undefined;
}

function conditionField(tag: number, condition: Condition, from: WireReader): void {
  if (tag === 1) condition.type = from.common();
  else if (tag === 2) condition.status = from.common();
  else if (tag === 4) condition.lastTransitionTime = isoTime(from);
}

class PodIp {
  ip: string | undefined = undefined;
}

function podIpField(tag: number, address: PodIp, from: WireReader): void {
  if (tag === 1) address.ip = from.text();
}

class PodStatus {
  phase: string | undefined = undefined;
  podIP: string | undefined = undefined;
  podIPs: PodIp[] = NOTHING;
  conditions: Condition[] = NOTHING;
}

function statusField(tag: number, status: PodStatus, from: WireReader): void {
  if (tag === 1) status.phase = from.common();
  else if (tag === 2) status.conditions = append(status.conditions, from.into(new Condition(), conditionField));
  else if (tag === 6) status.podIP = from.text();
  else if (tag === 12) status.podIPs = append(status.podIPs, from.into(new PodIp(), podIpField));
}

/** A Pod from protobuf already has the shape of the schema. */
class PodMessage implements ApiPod {
  metadata: ApiPod['metadata'] = new PodMeta();
  spec = new PodSpec();
  status: PodStatus | undefined = undefined;
}

function podField(tag: number, pod: PodMessage, from: WireReader): void {
  if (tag === 1) pod.metadata = from.into(new PodMeta(), podMetaField);
  else if (tag === 2) from.into(pod.spec, specField);
  else if (tag === 3) pod.status = from.into(new PodStatus(), statusField);
}

export const PODS = kindReader('Pod', (from, end) => from.into(new PodMessage(), podField, end));
