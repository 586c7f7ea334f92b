/** EndpointSlices in protobuf, as far as it is used (`generated.proto` of k8s.io/api discovery/v1). */
import type { ApiSlice } from '../decode/schema.ts';
import { kindReader } from './kind.ts';
import { metaField, ObjectMeta } from './metadata.ts';
import type { WireReader } from './wire.ts';

class Conditions {
  ready: boolean | undefined = undefined;
  serving: boolean | undefined = undefined;
  terminating: boolean | undefined = undefined;
}

function conditionsField(tag: number, conditions: Conditions, from: WireReader): void {
  if (tag === 1) conditions.ready = from.bool();
  else if (tag === 2) conditions.serving = from.bool();
  else if (tag === 3) conditions.terminating = from.bool();
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
  addresses: string[] = [];
  conditions: Conditions | undefined = undefined;
  nodeName: string | undefined = undefined;
  hints: Hints | undefined = undefined;
}

function endpointField(tag: number, endpoint: EndpointMessage, from: WireReader): void {
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

function endpointPortField(tag: number, port: EndpointPort, from: WireReader): void {
  if (tag === 1) port.name = from.common();
  else if (tag === 2) port.protocol = from.common();
  else if (tag === 3) port.port = from.int();
}

/** An EndpointSlice from protobuf: it has the schema's shape already. */
export class SliceMessage implements ApiSlice {
  metadata: ApiSlice['metadata'] = new ObjectMeta();
  addressType = '';
  endpoints: EndpointMessage[] = [];
  ports: EndpointPort[] = [];
}

function sliceField(tag: number, slice: SliceMessage, from: WireReader): void {
  if (tag === 1) slice.metadata = from.into(new ObjectMeta(), metaField);
  else if (tag === 2) slice.endpoints.push(from.into(new EndpointMessage(), endpointField));
  else if (tag === 3) slice.ports.push(from.into(new EndpointPort(), endpointPortField));
  else if (tag === 4) slice.addressType = from.common();
}

export const SLICES = kindReader('EndpointSlice', (from, end) => from.into(new SliceMessage(), sliceField, end));
