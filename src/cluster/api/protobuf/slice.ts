/** EndpointSlices in protobuf, as far as it is used (`generated.proto` of k8s.io/api discovery/v1). */
import { append, NOTHING } from '../append.ts';
import type { ApiSlice } from '../decode/schema.ts';
import { kindReader, metaField, ObjectMeta } from './kind.ts';
import type { WireReader } from './wire.ts';

interface Conditions {
  readonly ready: boolean | undefined;
  readonly serving: boolean | undefined;
  readonly terminating: boolean | undefined;
}

/** One of the 27 conditions that there are: very many endpoints have the same. */
const VALUES = [undefined, false, true] as const;
const CONDITIONS: readonly Conditions[] = VALUES.flatMap((terminating) =>
  VALUES.flatMap((serving) => VALUES.map((ready) => ({ ready, serving, terminating }))),
);

/** Places in VALUES, while conditions are read. */
const conditions = { ready: 0, serving: 0, terminating: 0 };

function conditionsField(tag: number, it: typeof conditions, from: WireReader): void {
  if (tag === 1) it.ready = from.bool() ? 2 : 1;
  else if (tag === 2) it.serving = from.bool() ? 2 : 1;
  else if (tag === 3) it.terminating = from.bool() ? 2 : 1;
}

function readConditions(from: WireReader): Conditions | undefined {
  conditions.ready = 0;
  conditions.serving = 0;
  conditions.terminating = 0;
  const { ready, serving, terminating } = from.into(conditions, conditionsField);
  return CONDITIONS[ready + 3 * serving + 9 * terminating];
}

type Named = { name: string };
type Hints = { forZones: Named[]; forNodes: Named[] };

function nameField(tag: number, named: Named, from: WireReader): void {
  if (tag === 1) named.name = from.common();
}

function hintsField(tag: number, hints: Hints, from: WireReader): void {
  if (tag === 1) hints.forZones.push(from.into({ name: '' }, nameField));
  else if (tag === 2) hints.forNodes.push(from.into({ name: '' }, nameField));
}

class EndpointMessage {
  addresses: string[] = NOTHING;
  conditions: Conditions | undefined = undefined;
  nodeName: string | undefined = undefined;
  hints: Hints | undefined = undefined;
}

function endpointField(tag: number, endpoint: EndpointMessage, from: WireReader): void {
  if (tag === 1) endpoint.addresses = append(endpoint.addresses, from.text());
  else if (tag === 2) endpoint.conditions = readConditions(from);
  else if (tag === 6) endpoint.nodeName = from.common();
  else if (tag === 8) endpoint.hints = from.into({ forZones: [], forNodes: [] }, hintsField);
}

class EndpointPort {
  name: string | undefined = undefined;
  protocol: string | undefined = undefined;
  port: number | undefined = undefined;
}

function endpointPortField(tag: number, port: EndpointPort, from: WireReader): void {
  if (tag === 1) port.name = from.common();
  else if (tag === 2) port.protocol = from.common();
  else if (tag === 3) port.port = from.int();
}

/** An EndpointSlice from protobuf: it has the schema's shape already. */
export class SliceMessage implements ApiSlice {
  metadata: ApiSlice['metadata'] = new ObjectMeta();
  addressType = '';
  endpoints: EndpointMessage[] = NOTHING;
  ports: EndpointPort[] = NOTHING;
}

function sliceField(tag: number, slice: SliceMessage, from: WireReader): void {
  if (tag === 1) slice.metadata = from.into(new ObjectMeta(), metaField);
  else if (tag === 2) slice.endpoints = append(slice.endpoints, from.into(new EndpointMessage(), endpointField));
  else if (tag === 3) slice.ports = append(slice.ports, from.into(new EndpointPort(), endpointPortField));
  else if (tag === 4) slice.addressType = from.common();
}

export const SLICES = kindReader('EndpointSlice', (from, end) => from.into(new SliceMessage(), sliceField, end));

// EndpointSlices in protobuf with the Pods of their endpoints, which a proxy does not need (`generated.proto` of k8s.io/api discovery/v1).

/** ObjectReference of k8s.io/api core/v1. */
class ObjectReference {
  kind = '';
  namespace = '';
  name = '';
}

function referenceField(tag: number, reference: ObjectReference, from: WireReader): void {
  if (tag === 1) reference.kind = from.common();
  else if (tag === 2) reference.namespace = from.common();
  else if (tag === 3) reference.name = from.text();
}

class NamedEndpoint extends EndpointMessage {
  targetRef: ObjectReference | undefined = undefined;
}

function namedField(tag: number, endpoint: NamedEndpoint, from: WireReader): void {
  if (tag === 4) endpoint.targetRef = from.into(new ObjectReference(), referenceField);
  else endpointField(tag, endpoint, from);
}

function namedSliceField(tag: number, slice: SliceMessage, from: WireReader): void {
  if (tag === 2) slice.endpoints = append(slice.endpoints, from.into(new NamedEndpoint(), namedField));
  else sliceField(tag, slice, from);
}

export const NAMED_SLICES = kindReader('EndpointSlice', (from, end) =>
  from.into(new SliceMessage(), namedSliceField, end),
);
