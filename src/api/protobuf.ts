/**
 * Lists and answers of the API server in protobuf, as far as they are used: what is not, such as `managedFields`, is
 * passed over by its length, where JSON has it parsed. The numbers are those of Kubernetes' own `generated.proto`
 * (k8s.io/api core/v1, discovery/v1, k8s.io/apimachinery meta/v1 and runtime); they never change.
 */
import { PbfReader } from 'pbf';
import { HEADLESS_LABEL, PROXY_NAME_LABEL, SERVICE_NAME_LABEL, TRIGGER_ANNOTATION } from '../model/labels.ts';
import type { ApiService, ApiSlice } from './decode/schema.ts';

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

/** What came is not what it says, or breaks off. */
export class ProtobufUnreadable extends Error {}

/** What begins every answer. */
const MAGIC = Buffer.from('k8s\0');

/** How a field is written: as a number, or with its length (protobuf.dev, «Encoding»). */
const VARINT = 0;
const WITH_LENGTH = 2;

class Reader extends PbfReader {
  readonly #bytes: Buffer;
  /** One string for all that are alike: a node's name is in very many endpoints. */
  readonly #known = new Map<string, string>();

  constructor(bytes: Buffer) {
    super(bytes);
    this.#bytes = bytes;
  }

  #mustBe(type: number): void {
    if (this.type !== type) throw new ProtobufUnreadable('a field is of another type');
  }

  /** Where the value that comes ends. */
  end(): number {
    this.#mustBe(WITH_LENGTH);
    const end = this.readVarint() + this.pos;
    if (end <= this.length) return end;
    throw new ProtobufUnreadable('it breaks off');
  }

  text(): string {
    const end = this.end();
    const text = this.#bytes.toString('utf8', this.pos, end);
    this.pos = end;
    return text;
  }

  /** The same, of what many have. */
  common(): string {
    const text = this.text();
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    this.#known.set(text, text);
    return text;
  }

  /** The same, of a field that its JSON leaves out when it is empty. */
  commonOrNone(): string | undefined {
    return this.common() || undefined;
  }

  /** Which of these it is; no text is made of what is none of them. */
  oneOf(keys: readonly Key[]): string | undefined {
    const end = this.end();
    const start = this.pos;
    this.pos = end;
    const isIt = ({ bytes }: Key) =>
      bytes.length === end - start && this.#bytes.compare(bytes, 0, bytes.length, start, end) === 0;
    return keys.find(isIt)?.text;
  }

  int(): number {
    this.#mustBe(VARINT);
    return this.readVarint(true);
  }

  bool(): boolean {
    return this.int() !== 0;
  }

  /** Read a message into an object, field by field; fields that are not read are passed over. */
  into<T>(object: T, field: (tag: number, object: T, from: Reader) => void, end = this.end()): T {
    while (this.pos < end) {
      const tag = this.nextField(end);
      if (tag === 0) throw new ProtobufUnreadable('a field has no number');
      const start = this.pos;
      field(tag, object, this);
      if (this.pos === start) this.skip(this.type);
    }
    if (this.pos !== end) throw new ProtobufUnreadable('a field is longer than its message');
    return object;
  }
}

/** Labels and annotations that mean something here; all others are passed over. */
const LABELS = [PROXY_NAME_LABEL, HEADLESS_LABEL, SERVICE_NAME_LABEL].map(asKey);
const ANNOTATIONS = [TRIGGER_ANNOTATION].map(asKey);

interface Key {
  readonly text: string;
  readonly bytes: Buffer;
}

function asKey(text: string): Key {
  return { text, bytes: Buffer.from(text) };
}

/** Add an entry of a map when its key is one of these. Returns the map, which is made for the first. */
function addEntry(
  map: Record<string, string> | undefined,
  keys: readonly Key[],
  from: Reader,
): Record<string, string> | undefined {
  const entry = { key: undefined as string | undefined, value: '', hasKey: false };
  from.into(entry, (tag, it) => {
    if (tag === 1) {
      it.key = from.oneOf(keys);
      it.hasKey = true;
    } else if (tag === 2) {
      if (!it.hasKey) throw new ProtobufUnreadable('a value comes before its key');
      if (it.key !== undefined) it.value = from.text();
    }
  });
  if (entry.key === undefined) return map;
  return { ...map, [entry.key]: entry.value };
}

/** Seconds since 1970; undefined for a time that is not set. */
function seconds(from: Reader): number | undefined {
  return from.into<{ value: number | undefined }>({ value: undefined }, (tag, it) => {
    if (tag === 1) it.value = from.int();
  }).value;
}

type Metadata = ApiService['metadata'];

class ObjectMeta {
  name = '';
  namespace = '';
  uid = '';
  resourceVersion = '';
  labels: Record<string, string> | undefined = undefined;
  annotations: Record<string, string> | undefined = undefined;
  created: number | undefined = undefined;

  /** RFC 3339, to the second. */
  get creationTimestamp(): string | undefined {
    const date = new Date((this.created ?? Number.NaN) * 1000);
    return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
  }
}

function metaField(tag: number, meta: ObjectMeta, from: Reader): void {
  if (tag === 1) meta.name = from.text();
  else if (tag === 3) meta.namespace = from.common();
  else if (tag === 5) meta.uid = from.text();
  else if (tag === 6) meta.resourceVersion = from.text();
  else if (tag === 8) meta.created = seconds(from);
  else if (tag === 11) meta.labels = addEntry(meta.labels, LABELS, from);
  else if (tag === 12) meta.annotations = addEntry(meta.annotations, ANNOTATIONS, from);
}

class Port {
  name = '';
  protocol: string | undefined = undefined;
  port = 0;
  nodePort = 0;
}

function portField(tag: number, port: Port, from: Reader): void {
  if (tag === 1) port.name = from.common();
  else if (tag === 2) port.protocol = from.commonOrNone();
  else if (tag === 3) port.port = from.int();
  else if (tag === 5) port.nodePort = from.int();
}

type ClientIp = { timeoutSeconds: number | undefined };
type AffinityConfig = { clientIP: ClientIp | undefined };

function affinityField(tag: number, config: AffinityConfig, from: Reader): void {
  if (tag !== 1) return;
  config.clientIP = from.into<ClientIp>({ timeoutSeconds: undefined }, (inner, clientIP) => {
    if (inner === 1) clientIP.timeoutSeconds = from.int();
  });
}

class ServiceSpec {
  ports: Port[] = [];
  clusterIP = '';
  type: string | undefined = undefined;
  externalIPs: string[] = [];
  sessionAffinity: string | undefined = undefined;
  loadBalancerSourceRanges: string[] = [];
  externalTrafficPolicy: string | undefined = undefined;
  healthCheckNodePort = 0;
  sessionAffinityConfig: AffinityConfig | undefined = undefined;
  clusterIPs: string[] = [];
  ipFamilies: string[] = [];
  internalTrafficPolicy: string | undefined = undefined;
}

function specField(tag: number, spec: ServiceSpec, from: Reader): void {
  if (tag === 1) spec.ports.push(from.into(new Port(), portField));
  else if (tag === 3) spec.clusterIP = from.text();
  else if (tag === 4) spec.type = from.commonOrNone();
  else if (tag === 5) spec.externalIPs.push(from.text());
  else if (tag === 7) spec.sessionAffinity = from.commonOrNone();
  else if (tag === 9) spec.loadBalancerSourceRanges.push(from.text());
  else if (tag === 11) spec.externalTrafficPolicy = from.commonOrNone();
  else if (tag === 12) spec.healthCheckNodePort = from.int();
  else if (tag === 14) spec.sessionAffinityConfig = from.into({ clientIP: undefined }, affinityField);
  else if (tag === 18) spec.clusterIPs.push(from.text());
  else if (tag === 19) spec.ipFamilies.push(from.common());
  else if (tag === 22) spec.internalTrafficPolicy = from.common();
}

class Ingress {
  ip: string | undefined = undefined;
  hostname: string | undefined = undefined;
  ipMode: string | undefined = undefined;
}

function ingressField(tag: number, ingress: Ingress, from: Reader): void {
  if (tag === 1) ingress.ip = from.text();
  else if (tag === 2) ingress.hostname = from.text();
  else if (tag === 3) ingress.ipMode = from.common();
}

function statusField(tag: number, ingress: Ingress[], from: Reader): void {
  if (tag !== 1) return;
  from.into(ingress, (inner) => {
    if (inner === 1) ingress.push(from.into(new Ingress(), ingressField));
  });
}

/** A Service that was read from protobuf: it has the schema's shape already. */
export class ServiceMessage implements ApiService {
  metadata: Metadata = new ObjectMeta();
  spec = new ServiceSpec();
  status: { loadBalancer: { ingress: Ingress[] } } | undefined = undefined;
}

function serviceField(tag: number, service: ServiceMessage, from: Reader): void {
  if (tag === 1) service.metadata = from.into(new ObjectMeta(), metaField);
  else if (tag === 2) from.into(service.spec, specField);
  else if (tag === 3) service.status = { loadBalancer: { ingress: from.into([], statusField) } };
}

class Conditions {
  ready: boolean | undefined = undefined;
  serving: boolean | undefined = undefined;
  terminating: boolean | undefined = undefined;
}

function conditionsField(tag: number, conditions: Conditions, from: Reader): void {
  if (tag === 1) conditions.ready = from.bool();
  else if (tag === 2) conditions.serving = from.bool();
  else if (tag === 3) conditions.terminating = from.bool();
}

type Named = { name: string };
type Hints = { forZones: Named[]; forNodes: Named[] };

function nameField(tag: number, named: Named, from: Reader): void {
  if (tag === 1) named.name = from.common();
}

function hintsField(tag: number, hints: Hints, from: Reader): void {
  if (tag === 1) hints.forZones.push(from.into({ name: '' }, nameField));
  else if (tag === 2) hints.forNodes.push(from.into({ name: '' }, nameField));
}

class EndpointMessage {
  addresses: string[] = [];
  conditions: Conditions | undefined = undefined;
  nodeName: string | undefined = undefined;
  hints: Hints | undefined = undefined;
}

function endpointField(tag: number, endpoint: EndpointMessage, from: Reader): void {
  if (tag === 1) endpoint.addresses.push(from.text());
  else if (tag === 2) endpoint.conditions = from.into(new Conditions(), conditionsField);
  else if (tag === 6) endpoint.nodeName = from.common();
  else if (tag === 8) endpoint.hints = from.into({ forZones: [], forNodes: [] }, hintsField);
}

class EndpointPort {
  name: string | undefined = undefined;
  protocol: string | undefined = undefined;
  port: number | undefined = undefined;
}

function endpointPortField(tag: number, port: EndpointPort, from: Reader): void {
  if (tag === 1) port.name = from.common();
  else if (tag === 2) port.protocol = from.common();
  else if (tag === 3) port.port = from.int();
}

/** An EndpointSlice that was read from protobuf: it has the schema's shape already. */
export class SliceMessage implements ApiSlice {
  metadata: Metadata = new ObjectMeta();
  addressType = '';
  endpoints: EndpointMessage[] = [];
  ports: EndpointPort[] = [];
}

function sliceField(tag: number, slice: SliceMessage, from: Reader): void {
  if (tag === 1) slice.metadata = from.into(new ObjectMeta(), metaField);
  else if (tag === 2) slice.endpoints.push(from.into(new EndpointMessage(), endpointField));
  else if (tag === 3) slice.ports.push(from.into(new EndpointPort(), endpointPortField));
  else if (tag === 4) slice.addressType = from.common();
}

/** A page of a list of Services. Throws ProtobufUnreadable. */
export const readServices = (bytes: Buffer) =>
  readList(bytes, 'ServiceList', (from) => from.into(new ServiceMessage(), serviceField));

/** A page of a list of EndpointSlices. Throws ProtobufUnreadable. */
export const readSlices = (bytes: Buffer) =>
  readList(bytes, 'EndpointSliceList', (from) => from.into(new SliceMessage(), sliceField));

/** A page, as its JSON would be. */
export class ListMessage<T> {
  readonly metadata: { resourceVersion: string | undefined; continue: string | undefined } = {
    resourceVersion: undefined,
    continue: undefined,
  };
  readonly items: T[] = [];
}

function listMetaField(tag: number, meta: ListMessage<unknown>['metadata'], from: Reader): void {
  if (tag === 2) meta.resourceVersion = from.text() || undefined;
  else if (tag === 3) meta.continue = from.text();
}

function readList<T>(bytes: Buffer, kind: string, item: (from: Reader) => T): ListMessage<T> {
  const read = readAnswer(bytes, kind, new ListMessage<T>(), (tag, list, from) => {
    if (tag === 1) from.into(list.metadata, listMetaField);
    else if (tag === 2) list.items.push(item(from));
  });
  if (read.metadata.resourceVersion === undefined) throw new ProtobufUnreadable('it has no resourceVersion');
  return read;
}

/** What the API server says instead of what was asked for. */
export class StatusMessage {
  message: string | undefined = undefined;
  reason: string | undefined = undefined;
  readonly details: { readonly causes: { reason: string | undefined }[] } = { causes: [] };
}

/** A Status. Throws ProtobufUnreadable. */
export function readStatusMessage(bytes: Buffer): StatusMessage {
  return readAnswer(bytes, 'Status', new StatusMessage(), (tag, status, from) => {
    if (tag === 3) status.message = from.text() || undefined;
    else if (tag === 4) status.reason = from.text() || undefined;
    else if (tag === 5) from.into(status.details, detailsField);
  });
}

function detailsField(tag: number, { causes }: StatusMessage['details'], from: Reader): void {
  if (tag !== 4) return;
  const cause = from.into<{ reason: string | undefined }>({ reason: undefined }, (inner, it) => {
    if (inner === 1) it.reason = from.text() || undefined;
  });
  causes.push(cause);
}

/** Of k8s.io/apimachinery/pkg/runtime: an object, and what it is. */
type Envelope<T> = { kind: string; object: T; isThere: boolean };

function readAnswer<T>(
  bytes: Buffer,
  kind: string,
  object: T,
  field: (tag: number, object: T, from: Reader) => void,
): T {
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) throw new ProtobufUnreadable('it does not begin as it should');
  const from = new Reader(bytes.subarray(MAGIC.length));
  const envelope: Envelope<T> = { kind: '', object, isThere: false };
  try {
    from.into(
      envelope,
      (tag, it) => {
        if (tag === 1) it.kind = from.into({ name: '' }, kindField).name;
        else if (tag === 2) {
          if (it.kind !== kind) throw new ProtobufUnreadable(`it is a ${it.kind || 'thing'} and no ${kind}`);
          from.into(it.object, field);
          it.isThere = true;
        }
      },
      from.length,
    );
  } catch (error) {
    // The library's own are plain: a number that does not end, a type that there is not.
    const isPlain = error instanceof Error && error.constructor === Error;
    throw isPlain ? new ProtobufUnreadable(error.message) : error;
  }
  if (!envelope.isThere) throw new ProtobufUnreadable('there is nothing in it');
  return envelope.object;
}

function kindField(tag: number, kind: Named, from: Reader): void {
  if (tag === 2) kind.name = from.text();
}
