/**
 * Answers as a kube-apiserver writes them in protobuf, with all fields that such objects have: from the tables of
 * `generated.proto` (k8s.io/api core/v1 and discovery/v1, k8s.io/apimachinery meta/v1 and runtime), apart from what reads
 * them (`src/cluster/api/protobuf/`).
 */
import { PbfWriter } from 'pbf';
import type { ApiObject, ToldObject } from './api-store.ts';

export const PROTOBUF_TYPE = { 'content-type': 'application/vnd.kubernetes.protobuf' };

/**
 * `string`, `int`, `bool`, a message's name; `*`: any number of them; `map`: texts by text; `json`: bytes in a message.
 * `!`: Go writes it also when it is not set.
 */
type Field = readonly [number: number, type: string];
type Message = Readonly<Record<string, Field>>;

const MESSAGES: Readonly<Record<string, Message>> = {
  Time: { seconds: [1, 'int'], nanos: [2, 'int'] },
  OwnerReference: {
    kind: [1, 'string!'],
    name: [3, 'string!'],
    uid: [4, 'string!'],
    apiVersion: [5, 'string!'],
    controller: [6, 'bool'],
    blockOwnerDeletion: [7, 'bool'],
  },
  ManagedFieldsEntry: {
    manager: [1, 'string!'],
    operation: [2, 'string!'],
    apiVersion: [3, 'string!'],
    time: [4, 'Time'],
    fieldsType: [6, 'string!'],
    fieldsV1: [7, 'json'],
    subresource: [8, 'string!'],
  },
  ObjectMeta: {
    name: [1, 'string!'],
    generateName: [2, 'string!'],
    namespace: [3, 'string!'],
    selfLink: [4, 'string!'],
    uid: [5, 'string!'],
    resourceVersion: [6, 'string!'],
    generation: [7, 'int!'],
    creationTimestamp: [8, 'Time!'],
    deletionTimestamp: [9, 'Time'],
    deletionGracePeriodSeconds: [10, 'int'],
    labels: [11, 'map'],
    annotations: [12, 'map'],
    ownerReferences: [13, 'OwnerReference*'],
    finalizers: [14, 'string*'],
    managedFields: [17, 'ManagedFieldsEntry*'],
  },
  ServicePort: {
    name: [1, 'string!'],
    protocol: [2, 'string!'],
    port: [3, 'int!'],
    targetPort: [4, 'IntOrString!'],
    nodePort: [5, 'int!'],
    appProtocol: [6, 'string'],
  },
  ClientIPConfig: { timeoutSeconds: [1, 'int'] },
  SessionAffinityConfig: { clientIP: [1, 'ClientIPConfig'] },
  ServiceSpec: {
    ports: [1, 'ServicePort*'],
    selector: [2, 'map'],
    clusterIP: [3, 'string!'],
    type: [4, 'string!'],
    externalIPs: [5, 'string*'],
    sessionAffinity: [7, 'string!'],
    loadBalancerIP: [8, 'string!'],
    loadBalancerSourceRanges: [9, 'string*'],
    externalName: [10, 'string!'],
    externalTrafficPolicy: [11, 'string!'],
    healthCheckNodePort: [12, 'int!'],
    publishNotReadyAddresses: [13, 'bool!'],
    sessionAffinityConfig: [14, 'SessionAffinityConfig'],
    ipFamilyPolicy: [17, 'string'],
    clusterIPs: [18, 'string*'],
    ipFamilies: [19, 'string*'],
    allocateLoadBalancerNodePorts: [20, 'bool'],
    loadBalancerClass: [21, 'string'],
    internalTrafficPolicy: [22, 'string'],
    trafficDistribution: [23, 'string'],
  },
  PortStatus: { port: [1, 'int!'], protocol: [2, 'string!'], error: [3, 'string'] },
  LoadBalancerIngress: {
    ip: [1, 'string!'],
    hostname: [2, 'string!'],
    ipMode: [3, 'string'],
    ports: [4, 'PortStatus*'],
  },
  LoadBalancerStatus: { ingress: [1, 'LoadBalancerIngress*'] },
  Condition: {
    type: [1, 'string!'],
    status: [2, 'string!'],
    observedGeneration: [3, 'int!'],
    lastTransitionTime: [4, 'Time!'],
    reason: [5, 'string!'],
    message: [6, 'string!'],
  },
  ServiceStatus: { loadBalancer: [1, 'LoadBalancerStatus!'], conditions: [2, 'Condition*'] },
  Service: { metadata: [1, 'ObjectMeta!'], spec: [2, 'ServiceSpec!'], status: [3, 'ServiceStatus!'] },
  EndpointConditions: { ready: [1, 'bool'], serving: [2, 'bool'], terminating: [3, 'bool'] },
  ObjectReference: {
    kind: [1, 'string!'],
    namespace: [2, 'string!'],
    name: [3, 'string!'],
    uid: [4, 'string!'],
    apiVersion: [5, 'string!'],
    resourceVersion: [6, 'string!'],
    fieldPath: [7, 'string!'],
  },
  Named: { name: [1, 'string!'] },
  EndpointHints: { forZones: [1, 'Named*'], forNodes: [2, 'Named*'] },
  Endpoint: {
    addresses: [1, 'string*'],
    conditions: [2, 'EndpointConditions!'],
    hostname: [3, 'string'],
    targetRef: [4, 'ObjectReference'],
    deprecatedTopology: [5, 'map'],
    nodeName: [6, 'string'],
    zone: [7, 'string'],
    hints: [8, 'EndpointHints'],
  },
  EndpointPort: { name: [1, 'string'], protocol: [2, 'string'], port: [3, 'int'], appProtocol: [4, 'string'] },
  EndpointSlice: {
    metadata: [1, 'ObjectMeta!'],
    endpoints: [2, 'Endpoint*'],
    ports: [3, 'EndpointPort*'],
    addressType: [4, 'string!'],
  },
  ContainerPort: {
    name: [1, 'string!'],
    hostPort: [2, 'int!'],
    containerPort: [3, 'int!'],
    protocol: [4, 'string!'],
    hostIP: [5, 'string!'],
  },
  Container: {
    name: [1, 'string!'],
    image: [2, 'string!'],
    ports: [6, 'ContainerPort*'],
    terminationMessagePath: [13, 'string!'],
    imagePullPolicy: [14, 'string!'],
    restartPolicy: [24, 'string'],
  },
  PodSpec: {
    containers: [2, 'Container*'],
    restartPolicy: [3, 'string!'],
    nodeName: [10, 'string!'],
    hostname: [16, 'string!'],
    subdomain: [17, 'string!'],
    schedulerName: [19, 'string!'],
    initContainers: [20, 'Container*'],
  },
  PodCondition: {
    type: [1, 'string!'],
    status: [2, 'string!'],
    lastProbeTime: [3, 'Time!'],
    lastTransitionTime: [4, 'Time!'],
    reason: [5, 'string!'],
    message: [6, 'string!'],
  },
  PodIP: { ip: [1, 'string!'] },
  PodStatus: {
    phase: [1, 'string!'],
    conditions: [2, 'PodCondition*'],
    message: [3, 'string!'],
    hostIP: [5, 'string!'],
    podIP: [6, 'string!'],
    startTime: [7, 'Time'],
    podIPs: [12, 'PodIP*'],
  },
  Pod: { metadata: [1, 'ObjectMeta!'], spec: [2, 'PodSpec!'], status: [3, 'PodStatus!'] },
  ListMeta: {
    selfLink: [1, 'string!'],
    resourceVersion: [2, 'string!'],
    continue: [3, 'string!'],
    remainingItemCount: [4, 'int'],
  },
  StatusCause: { reason: [1, 'string!'], message: [2, 'string!'], field: [3, 'string!'] },
  StatusDetails: {
    name: [1, 'string!'],
    group: [2, 'string!'],
    kind: [3, 'string!'],
    causes: [4, 'StatusCause*'],
    retryAfterSeconds: [5, 'int!'],
    uid: [6, 'string!'],
  },
  Status: {
    metadata: [1, 'ListMeta!'],
    status: [2, 'string!'],
    message: [3, 'string!'],
    reason: [4, 'string!'],
    details: [5, 'StatusDetails'],
    code: [6, 'int!'],
  },
};

/** Of these only some of the fields are written: nobody reads the others. */
const IN_PART: ReadonlySet<string> = new Set(['Container', 'PodSpec', 'PodStatus']);

/** A value that no such message holds: a real server would never have it. */
export class NotProtobuf extends Error {}

function expect<T>(fits: boolean, value: T, what: string): T {
  if (!fits) throw new NotProtobuf(`${what}: ${JSON.stringify(value)}`);
  return value;
}

function writeFields(pbf: PbfWriter, type: string, object: object): void {
  const message = MESSAGES[type];
  if (message === undefined) throw new Error(`there is no message ${type}`);
  for (const name of Object.keys(object))
    if (!(name in message) && !IN_PART.has(type)) throw new Error(`${type} has no field ${name} here`);
  for (const [name, [tag, kind]] of Object.entries(message)) {
    const value = (object as Record<string, unknown>)[name] ?? undefined;
    if (kind.endsWith('*')) {
      const list = (value ?? []) as unknown[];
      for (const one of expect(Array.isArray(list), list, name)) writeValue(pbf, tag, kind.slice(0, -1), one);
    } else if (kind.endsWith('!')) writeValue(pbf, tag, kind.slice(0, -1), value);
    else if (value !== undefined) writeValue(pbf, tag, kind, value);
  }
}

function writeText(pbf: PbfWriter, tag: number, value: unknown): void {
  pbf.writeTag(tag, 2);
  pbf.writeString(expect(typeof value === 'string', value as string, 'no text'));
}

function writeInt(pbf: PbfWriter, tag: number, value: unknown): void {
  pbf.writeTag(tag, 0);
  pbf.writeVarint(expect(Number.isSafeInteger(value), value as number, 'no whole number'));
}

function writeValue(pbf: PbfWriter, tag: number, type: string, value: unknown): void {
  if (type === 'string') writeText(pbf, tag, value ?? '');
  else if (type === 'int') writeInt(pbf, tag, value ?? 0);
  else if (type === 'bool') {
    pbf.writeTag(tag, 0);
    pbf.writeBoolean(expect(typeof (value ?? false) === 'boolean', (value ?? false) as boolean, 'no truth'));
  } else if (type === 'map') {
    for (const [key, text] of Object.entries(expect(typeof value === 'object', value as object, 'no map')))
      pbf.writeMessage(
        tag,
        (_, inner) => {
          writeText(inner, 1, key);
          writeText(inner, 2, text);
        },
        text,
      );
  } else if (type === 'json') pbf.writeMessage(tag, (_, inner) => writeText(inner, 1, JSON.stringify(value)), value);
  else if (type === 'Time') pbf.writeMessage(tag, writeTime, value);
  else if (type === 'IntOrString') pbf.writeMessage(tag, writeIntOrString, value);
  else
    pbf.writeMessage(
      tag,
      (object, inner) => writeFields(inner, type, expect(typeof object === 'object', object as object, type)),
      value ?? {},
    );
}

/** Nothing of a time that is not set. */
function writeTime(value: unknown, pbf: PbfWriter): void {
  if (value === undefined) return;
  const milliseconds = Date.parse(String(value));
  writeInt(pbf, 1, Math.floor(milliseconds / 1000));
  writeInt(pbf, 2, (milliseconds % 1000) * 1_000_000);
}

function writeIntOrString(value: unknown, pbf: PbfWriter): void {
  const isText = typeof value === 'string';
  writeInt(pbf, 1, isText ? 1 : 0);
  writeInt(pbf, 2, isText ? 0 : (value ?? 0));
  writeText(pbf, 3, isText ? value : '');
}

function bytesOf(write: (pbf: PbfWriter) => void): Uint8Array {
  const pbf = new PbfWriter();
  write(pbf);
  return Buffer.from(pbf.finish());
}

/** What comes before bytes that are a field of a message. */
function before(tag: number, length: number): Uint8Array {
  return bytesOf((pbf) => {
    pbf.writeTag(tag, 2);
    pbf.writeVarint(length);
  });
}

const items = new WeakMap<ApiObject, Uint8Array>();

/** As a field of a list, kept for the next time. Throws NotProtobuf. */
export function itemBytes(item: ApiObject): Uint8Array {
  const known = items.get(item);
  if (known !== undefined) return known;
  const { kind, apiVersion: _, ...object } = item;
  expect(kind in MESSAGES, kind, 'no table of this kind');
  const bytes = bytesOf((pbf) => pbf.writeMessage(2, (value, inner) => writeFields(inner, kind, value), object));
  items.set(item, bytes);
  return bytes;
}

/** Whether objects of a kind can be written here. */
export function canWrite(kind: string): boolean {
  return kind in MESSAGES;
}

interface Kind {
  readonly kind: string;
  readonly apiVersion: string;
}

/** The pieces of an answer. Throws NotProtobuf. */
export function listBytes(head: Kind & { readonly metadata: object }, objects: readonly ApiObject[]): Uint8Array[] {
  const metadata = bytesOf((pbf) =>
    pbf.writeMessage(1, (value, inner) => writeFields(inner, 'ListMeta', value), head.metadata),
  );
  return answerBytes(head, [metadata, ...objects.map(itemBytes)]);
}

/** The same. */
export function statusBytes(status: Kind): Uint8Array[] {
  const { kind, apiVersion: _, ...fields } = status;
  return answerBytes(status, [bytesOf((pbf) => writeFields(pbf, kind, fields))]);
}

/** An event of a watch behind its length. Throws NotProtobuf. */
export function eventFrame(type: string, object: ToldObject): Buffer {
  return frameOf(type, Buffer.concat(objectBytes(object)));
}

/** An object in its envelope. Throws NotProtobuf. */
export function objectBytes({ kind, apiVersion = '', ...fields }: ToldObject): Uint8Array[] {
  return answerBytes({ kind, apiVersion }, [bytesOf((pbf) => writeFields(pbf, kind, fields))]);
}

/** An event (WatchEvent of meta/v1) behind its length (pkg/util/framer). `object`: in its envelope. */
export function frameOf(type: string, object: Uint8Array): Buffer {
  const extension = [before(1, object.length), object];
  const event = [
    bytesOf((pbf) => writeText(pbf, 1, type)),
    before(
      2,
      extension.reduce((sum, { length }) => sum + length, 0),
    ),
    ...extension,
  ];
  const length = Buffer.alloc(4);
  length.writeUInt32BE(event.reduce((sum, part) => sum + part.length, 0));
  return Buffer.concat([length, ...event]);
}

/** In the envelope of all answers. */
function answerBytes({ kind, apiVersion }: Kind, parts: readonly Uint8Array[]): Uint8Array[] {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const type = bytesOf((pbf) => {
    writeText(pbf, 1, apiVersion);
    writeText(pbf, 2, kind);
  });
  const encodings = bytesOf((pbf) => {
    writeText(pbf, 3, '');
    writeText(pbf, 4, '');
  });
  return [Buffer.from('k8s\0'), before(1, type.length), type, before(2, length), ...parts, encodings];
}
