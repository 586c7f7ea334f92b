/** A discovery.k8s.io/v1 EndpointSlice → the `Slice` that the proxy reads. */
import { familyOf, parseAddress } from '../../model/address.ts';
import type { SourceEvent } from '../../model/events.ts';
import { isUnserved, SERVICE_NAME_LABEL, TRIGGER_ANNOTATION } from '../../model/labels.ts';
import type { Endpoint, Slice, SlicePort } from '../../model/objects.ts';
import { trimmed } from '../../model/trimmed.ts';
import { SliceMessage } from '../protobuf/slice.ts';
import { FaultList } from './faults.ts';
import {
  isPortName,
  isPortNumber,
  PORT_NAME_PROBLEM,
  PORT_PROBLEM,
  PROTOCOL_PROBLEM,
  parse,
  readProtocol,
} from './fields.ts';
import { type ApiSlice, sliceSchema } from './schema.ts';

/** A slice of a headless Service, or for another proxy, is decoded as gone, without a fault; a slice of host names (FQDN) with a notice. */
export function decodeSlice(object: unknown, key: string): SourceEvent {
  const faults = new FaultList('EndpointSlice', key, object);
  const parsed = object instanceof SliceMessage ? object : parse(sliceSchema, object, faults);
  const slice = parsed === undefined ? undefined : toSlice(parsed, key, faults);
  const changed = parsed?.metadata.annotations?.[TRIGGER_ANNOTATION];
  return { kind: 'slice', key, slice, triggeredAt: timeOf(changed), faults: trimmed(faults.list) };
}

/** Endpoints of a slice; an API server allows 1,000 (maxEndpoints in pkg/apis/discovery/validation), and manifests are not checked by one. */
export const MOST_ENDPOINTS = 20_000;
/** Pairs of an endpoint and a port of a slice: an API server allows 20,000 ports. */
export const MOST_PAIRS = 1_000_000;

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
  const field = `metadata.labels[${SERVICE_NAME_LABEL}]`;
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(service)) {
    return faults.setAside(field, service, 'must be the name of the Service of the slice');
  }
  const family = api.addressType;
  if (family !== 'IPv4' && family !== 'IPv6') {
    return faults.setAside('addressType', family, 'must be IPv4, IPv6 or FQDN');
  }
  const [endpoints, ports] = [api.endpoints?.length ?? 0, api.ports?.length ?? 0];
  if (endpoints > MOST_ENDPOINTS)
    return faults.setAside(
      'endpoints',
      `${endpoints} endpoints`,
      `must be at most ${MOST_ENDPOINTS}; Kubernetes allows 1000`,
    );
  if (endpoints * ports > MOST_PAIRS)
    return faults.setAside(
      'ports',
      `${ports} ports`,
      `at ${endpoints} endpoints make ${endpoints * ports} pairs; ${MOST_PAIRS} is the limit`,
    );
  const namespace = key.slice(0, key.indexOf('/'));
  return {
    key,
    service: `${namespace}/${service}`,
    family,
    ports: readPorts(api.ports ?? [], faults),
    endpoints: readEndpoints(api.endpoints ?? [], family, faults),
  };
}

function readPorts(ports: NonNullable<ApiSlice['ports']>, faults: FaultList): readonly SlicePort[] {
  const found: SlicePort[] = [];
  for (const [i, { name, protocol: text, port }] of ports.entries()) {
    const field = `ports[${i}]`;
    const protocol = readProtocol(text);
    // A manifest may leave the name out; an API server fills in "".
    const label = name ?? '';
    if (!isPortName(label)) faults.leaveOut(`${field}.name`, label, PORT_NAME_PROBLEM);
    else if (protocol === undefined) faults.leaveOut(`${field}.protocol`, text, PROTOCOL_PROBLEM);
    else if (port === undefined || port === null || !isPortNumber(port)) {
      faults.leaveOut(`${field}.port`, port, PORT_PROBLEM);
    } else found.push({ name: label, protocol, port });
  }
  return trimmed(found);
}

type ApiEndpoint = NonNullable<ApiSlice['endpoints']>[number];

function readEndpoints(
  endpoints: readonly ApiEndpoint[],
  family: Slice['family'],
  faults: FaultList,
): readonly Endpoint[] {
  const found: Endpoint[] = [];
  for (const [i, endpoint] of endpoints.entries()) {
    // Only the first address counts (KEP-752: all of them reach the same endpoint).
    const text = endpoint.addresses?.[0];
    const field = `endpoints[${i}].addresses[0]`;
    const address = text === undefined ? undefined : parseAddress(text);
    if (address === undefined) faults.leaveOut(field, text, 'must be an IP address');
    else if (familyOf(address) !== family)
      faults.leaveOut(field, text, `must be an ${family} address, as addressType says`);
    else found.push(toEndpoint(endpoint, { address, field: `endpoints[${i}]`, faults }));
  }
  return trimmed(found);
}

/** Shared by all endpoints without hints: there are very many. */
const NO_NAMES: readonly string[] = [];

interface EndpointContext {
  readonly address: Endpoint['address'];
  readonly field: string;
  readonly faults: FaultList;
}

function toEndpoint(api: ApiEndpoint, { address, field, faults }: EndpointContext): Endpoint {
  const names = (which: 'forZones' | 'forNodes') => {
    const list = api.hints?.[which];
    return (list ?? []).length === 0 ? NO_NAMES : readHints(list ?? [], `${field}.hints.${which}`, faults);
  };
  return {
    address,
    ready: api.conditions?.ready ?? true,
    serving: api.conditions?.serving ?? true,
    terminating: api.conditions?.terminating ?? false,
    nodeName: api.nodeName ?? '',
    zoneHints: names('forZones'),
    nodeHints: names('forNodes'),
  };
}

type ApiHints = readonly { readonly name: string }[];

/** Valid hints: names that a Node can have as its name or as the value of its zone label. */
function readHints(hints: ApiHints, field: string, faults: FaultList): readonly string[] {
  const found: string[] = [];
  for (const [i, { name }] of hints.entries()) {
    if (/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?$/.test(name)) found.push(name);
    else faults.leaveOut(`${field}[${i}].name`, name, 'must be the name of a zone or node');
  }
  return found;
}
