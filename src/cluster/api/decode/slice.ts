/** A discovery.k8s.io/v1 EndpointSlice, in JSON or protobuf → the `Slice` that the proxy reads. */
import { familyOf, parseAddress } from '../../../base/address.ts';
import { MAX_PAIRS } from '../../../proxy/model/endpoints.ts';
import type { SourceEvent } from '../../../proxy/model/events.ts';
import { isUnserved, SERVICE_NAME_LABEL, TRIGGER_ANNOTATION } from '../../../proxy/model/labels.ts';
import { compact, type Endpoint, type Slice, type SlicePort } from '../../../proxy/model/objects.ts';
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
  readProtocol,
} from './checks.ts';
import { type ApiSlice, sliceSchema } from './schema.ts';
import { withTraffic } from './traffic.ts';

/** A slice of a headless Service, or for another proxy, is decoded as gone, without a fault; a slice of host names (FQDN) with a notice. */
export function decodeSlice(object: unknown, key: string): Extract<SourceEvent, { readonly kind: 'slice' }> {
  const faults = new FaultList('EndpointSlice', key, object);
  const parsed = object instanceof SliceMessage ? object : parse(sliceSchema, object, faults);
  const slice = parsed === undefined ? undefined : toSlice(parsed, key, faults);
  const changed = parsed?.metadata.annotations?.[TRIGGER_ANNOTATION];
  return { kind: 'slice', key, slice, triggeredAt: timeOf(changed), faults: compact(faults.list) };
}

/** Limit for manifests, which no API server checks; an API server allows 1,000 (maxEndpoints in pkg/apis/discovery/validation). */
export const MAX_ENDPOINTS = 20_000;

function timeOf(text: string | undefined): number {
  const time = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(time) ? 0 : time;
}

function toSlice(api: ApiSlice, key: string, faults: FaultList): Slice | undefined {
  const labels = api.metadata.labels ?? {};
  if (isUnserved(labels)) return undefined;
  if (api.addressType === 'FQDN')
    return faults.notice(
      'addressType',
      'FQDN',
      'the endpoints are host names, not addresses; the proxy serves addresses only',
    );
  const service = labels[SERVICE_NAME_LABEL] ?? '';
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(service)) {
    return faults.setAside(
      `metadata.labels[${SERVICE_NAME_LABEL}]`,
      service,
      'must be the name of the Service of the slice',
    );
  }
  const family = api.addressType;
  if (family !== 'IPv4' && family !== 'IPv6') {
    return faults.setAside('addressType', family, 'must be IPv4, IPv6 or FQDN');
  }
  const endpoints = api.endpoints?.length ?? 0;
  const ports = api.ports?.length ?? 0;
  if (endpoints > MAX_ENDPOINTS)
    return faults.setAside(
      'endpoints',
      `${endpoints} endpoints`,
      `must be at most ${MAX_ENDPOINTS}; Kubernetes allows 1000`,
    );
  if (endpoints * ports > MAX_PAIRS)
    return faults.setAside(
      'ports',
      `${ports} ports`,
      `at ${endpoints} endpoints make ${endpoints * ports} pairs; ${MAX_PAIRS} is the limit`,
    );
  const namespace = key.slice(0, key.indexOf('/'));
  return {
    key,
    service: `${namespace}/${service}`,
    family,
    ports: readPorts(api.ports ?? [], faults),
    endpoints: withTraffic(readEndpoints(api.endpoints ?? [], family, faults), api.metadata.annotations, faults),
  };
}

function readPorts(ports: NonNullable<ApiSlice['ports']>, faults: FaultList): readonly SlicePort[] {
  let found: SlicePort[] = [];
  for (let i = 0; i < ports.length; i++) {
    const { name, protocol: text, port } = ports[i] ?? {};
    const protocol = readProtocol(text);
    // A manifest may leave the name out; an API server fills in "".
    const label = name ?? '';
    if (!isPortName(label)) faults.leaveOut(`ports[${i}].name`, label, PORT_NAME_PROBLEM);
    else if (protocol === undefined) faults.leaveOut(`ports[${i}].protocol`, text, PROTOCOL_PROBLEM);
    else if (port === undefined || port === null || !isPortNumber(port)) {
      faults.leaveOut(`ports[${i}].port`, port, PORT_PROBLEM);
    } else found = append(found, { name: label, protocol, port });
  }
  return found.length > 1 ? compact(found) : found;
}

type ApiEndpoint = NonNullable<ApiSlice['endpoints']>[number];

function readEndpoints(
  endpoints: readonly ApiEndpoint[],
  family: Slice['family'],
  faults: FaultList,
): readonly Endpoint[] {
  const context = { family, faults };
  const found = endpoints.map((endpoint, i) => readEndpoint(endpoint, i, context));
  return found.every((one) => one !== undefined) ? found : found.filter((one) => one !== undefined);
}

interface EndpointContext {
  readonly family: Slice['family'];
  readonly faults: FaultList;
}

function readEndpoint(api: ApiEndpoint, i: number, { family, faults }: EndpointContext): Endpoint | undefined {
  // All addresses reach the same endpoint (KEP-752), so the first one is enough.
  const text = api.addresses?.[0];
  const address = text === undefined ? undefined : parseAddress(text);
  if (address === undefined)
    return faults.leaveOut(`endpoints[${i}].addresses[0]`, text, 'must be an IP address', 'endpoint');
  if (familyOf(address) !== family) {
    const problem = `must be an ${family} address, as addressType says`;
    return faults.leaveOut(`endpoints[${i}].addresses[0]`, text, problem, 'endpoint');
  }
  return {
    address,
    ready: api.conditions?.ready ?? true,
    serving: api.conditions?.serving ?? true,
    terminating: api.conditions?.terminating ?? false,
    nodeName: api.nodeName ?? '',
    zoneHints: readHints(api, i, 'forZones', faults),
    nodeHints: readHints(api, i, 'forNodes', faults),
  };
}

/** Shared by all endpoints without hints: there are very many. */
const NO_NAMES: readonly string[] = [];

/**
 * Valid hints are names that a Node can have as its name or as the value of its zone label. An empty hint is ignored:
 * kube-controller-manager 1.32 writes it for an endpoint without a zone (KEP-4444), and a Node without a zone is not in the same zone.
 */
function readHints(api: ApiEndpoint, i: number, which: 'forZones' | 'forNodes', faults: FaultList): readonly string[] {
  const hints = api.hints?.[which];
  if (hints === undefined || hints === null || hints.length === 0) return NO_NAMES;
  let found: string[] = [];
  for (let n = 0; n < hints.length; n++) {
    const name = hints[n]?.name ?? '';
    if (name === '') continue;
    if (/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?$/.test(name)) found = append(found, name);
    else faults.leaveOut(`endpoints[${i}].hints.${which}[${n}].name`, name, 'must be the name of a zone or node');
  }
  return found;
}

// An EndpointSlice in protobuf: the fields that are read (`generated.proto` of k8s.io/api discovery/v1).

interface Conditions {
  readonly ready: boolean | undefined;
  readonly serving: boolean | undefined;
  readonly terminating: boolean | undefined;
}

/** All 27 combinations of conditions: very many endpoints share one object. */
const VALUES = [undefined, false, true] as const;
const CONDITIONS: readonly Conditions[] = VALUES.flatMap((terminating) =>
  VALUES.flatMap((serving) => VALUES.map((ready) => ({ ready, serving, terminating }))),
);

/** Indexes of VALUES, while conditions are read. */
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

export class EndpointMessage {
  addresses: string[] = NOTHING;
  conditions: Conditions | undefined = undefined;
  nodeName: string | undefined = undefined;
  hints: Hints | undefined = undefined;
}

export function endpointField(tag: number, endpoint: EndpointMessage, from: WireReader): void {
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

/** An EndpointSlice from protobuf already has the shape of the schema. */
export class SliceMessage implements ApiSlice {
  metadata: ApiSlice['metadata'] = new ObjectMeta();
  addressType = '';
  endpoints: EndpointMessage[] = NOTHING;
  ports: EndpointPort[] = NOTHING;
}

export function sliceField(tag: number, slice: SliceMessage, from: WireReader): void {
  if (tag === 1) slice.metadata = from.into(new ObjectMeta(), metaField);
  else if (tag === 2) slice.endpoints = append(slice.endpoints, from.into(new EndpointMessage(), endpointField));
  else if (tag === 3) slice.ports = append(slice.ports, from.into(new EndpointPort(), endpointPortField));
  else if (tag === 4) slice.addressType = from.common();
}

export const SLICES = kindReader('EndpointSlice', (from, end) => from.into(new SliceMessage(), sliceField, end));
