/**
 * Services and EndpointSlices, packed, each behind its resourceVersion. The key of a Service, and of the Service of a slice, stays outside:
 * the cache has it as the key of a map. Names of nodes and zones have numbers (`Names`). Pure.
 */
import { type Address, type Cidr, PROTOCOLS } from '../../../base/address.ts';
import { LIMIT_NAMES, type Limit } from '../limits.ts';
import type { Endpoint, HashedBy, Service, ServiceKey, ServicePortSpec, Slice, SlicePort } from '../objects.ts';
import { isUuid, type Packed, Packer, packUuid, Unpacker, unpackUuid } from './bytes.ts';

const packer = new Packer();
const TYPES: readonly Service['type'][] = ['ClusterIP', 'NodePort', 'LoadBalancer'];

const HASHED_BY: readonly HashedBy[] = ['address', 'address and port'];

/** Bits of a Service; the lowest two are the type. */
const INTERNAL_LOCAL = 4;
const EXTERNAL_LOCAL = 8;
const HAS_RANGES = 16;
const HAS_UID = 32;
const HAS_UUID = 64;
/** Milliseconds of the time of creation: the API server's times have whole seconds. */
const HAS_MILLISECONDS = 128;

/** `version`: its resourceVersion; "" for none. */
export function packService(service: Service, version = ''): Packed<Service> {
  const { type, uid, createdAt, clusterIPs, externalIPs, loadBalancerIPs, sourceRanges, ports } = service;
  const hasUuid = uid !== undefined && isUuid(uid);
  packer.begin();
  packVersion(packer, version);
  packer.byte(
    TYPES.indexOf(type) |
      (service.internalTrafficPolicy === 'Local' ? INTERNAL_LOCAL : 0) |
      (service.externalTrafficPolicy === 'Local' ? EXTERNAL_LOCAL : 0) |
      (sourceRanges === undefined ? 0 : HAS_RANGES) |
      (uid === undefined ? 0 : hasUuid ? HAS_UUID : HAS_UID) |
      (createdAt % 1000 === 0 ? 0 : HAS_MILLISECONDS),
  );
  if (hasUuid) packUuid(packer, uid);
  else if (uid !== undefined) packer.text(uid);
  packer.number(createdAt % 1000 === 0 ? createdAt / 1000 : createdAt);
  const addresses = (all: readonly Address[]) => packer.list(all, (address) => packer.address(address));
  addresses(clusterIPs);
  addresses(externalIPs);
  addresses(loadBalancerIPs);
  if (sourceRanges !== undefined) packer.list(sourceRanges, (range) => packer.text(range));
  packer.list(ports, ({ name, protocol, port, nodePort }) => {
    packer.byte(PROTOCOLS.indexOf(protocol));
    packer.text(name);
    packer.number(port);
    packer.number(nodePort);
  });
  packer.number(service.affinitySeconds);
  packer.number(service.healthCheckNodePort);
  packer.text(service.ipvsScheduler ?? '');
  packer.number(service.slowStart ?? 0);
  packer.byte(service.hashes === undefined ? 0 : HASHED_BY.indexOf(service.hashes) + 1);
  packer.list(service.limits ?? [], (limit) => packLimit(packer, limit));
  return packer.end();
}

export function unpackService(key: ServiceKey, packed: Packed<Service>): Service {
  const from = new Unpacker(packed);
  from.number();
  const bits = from.byte();
  const has = (bit: number) => (bits & bit) !== 0;
  const uid = has(HAS_UUID) ? unpackUuid(from) : has(HAS_UID) ? from.text() : undefined;
  const time = from.number();
  const addresses = () => from.list(() => from.address());
  const service: Service = {
    key,
    ...(uid === undefined ? {} : { uid }),
    createdAt: has(HAS_MILLISECONDS) ? time : time * 1000,
    type: TYPES[bits & 3] ?? 'ClusterIP',
    clusterIPs: addresses(),
    externalIPs: addresses(),
    loadBalancerIPs: addresses(),
    sourceRanges: has(HAS_RANGES) ? from.list(() => from.text() as Cidr) : undefined,
    ports: from.list(() => portSpec(from)),
    internalTrafficPolicy: has(INTERNAL_LOCAL) ? 'Local' : 'Cluster',
    externalTrafficPolicy: has(EXTERNAL_LOCAL) ? 'Local' : 'Cluster',
    affinitySeconds: from.number(),
    healthCheckNodePort: from.number(),
  };
  const ipvsScheduler = from.text();
  const slowStart = from.number();
  const hashes = HASHED_BY[from.byte() - 1];
  const limits = from.list(() => unpackLimit(from));
  if (ipvsScheduler === '' && slowStart === 0 && hashes === undefined && limits.length === 0) return service;
  return {
    ...service,
    ...(ipvsScheduler === '' ? {} : { ipvsScheduler }),
    ...(slowStart === 0 ? {} : { slowStart }),
    ...(hashes === undefined ? {} : { hashes }),
    ...(limits.length === 0 ? {} : { limits }),
  };
}

/** A limit of a Service or of a ServicePort. */
export function packLimit(into: Packer, { name, most, burst }: Limit): void {
  into.byte(LIMIT_NAMES.indexOf(name));
  into.number(most);
  into.number(burst);
}

export function unpackLimit(from: Unpacker): Limit {
  return { name: LIMIT_NAMES[from.byte()] ?? 'max-connections', most: from.number(), burst: from.number() };
}

function portSpec(from: Unpacker): ServicePortSpec {
  const protocol = PROTOCOLS[from.byte()] ?? 'TCP';
  return { protocol, name: from.text(), port: from.number(), nodePort: from.number() };
}

/** Bits of an endpoint. */
const READY = 1;
const SERVING = 2;
const TERMINATING = 4;
const HAS_ZONES = 8;
const HAS_NODES = 16;
const HAS_NODE = 32;
const HAS_WEIGHT = 64;
const IS_BACKUP = 128;
/** Forms of a slice's name. */
const OF_SERVICE = 0;
const OTHER = 1;

/** `version`: its resourceVersion; "" for none. */
export function packSlice(slice: Slice, names: Names, version = ''): Packed<Slice> {
  const { key, service, family, ports, endpoints } = slice;
  const isOfService = key.startsWith(service);
  packer.begin();
  packVersion(packer, version);
  packer.byte((family === 'IPv4' ? 0 : 2) | (isOfService ? OF_SERVICE : OTHER));
  packer.text(isOfService ? key.slice(service.length) : key);
  packer.list(ports, ({ name, protocol, port }) => {
    packer.byte(PROTOCOLS.indexOf(protocol));
    packer.text(name);
    packer.number(port);
  });
  packer.list(endpoints, (endpoint) => packEndpoint(endpoint, names));
  return packer.end();
}

function packEndpoint(endpoint: Endpoint, names: Names): void {
  const { address, ready, serving, terminating, nodeName, zoneHints, nodeHints, weight, isBackup } = endpoint;
  packer.byte(
    (ready ? READY : 0) |
      (serving ? SERVING : 0) |
      (terminating ? TERMINATING : 0) |
      (zoneHints.length > 0 ? HAS_ZONES : 0) |
      (nodeHints.length > 0 ? HAS_NODES : 0) |
      (nodeName === '' ? 0 : HAS_NODE) |
      (weight === undefined ? 0 : HAS_WEIGHT) |
      (isBackup === undefined ? 0 : IS_BACKUP),
  );
  packer.address(address);
  const number = (name: string) => packer.number(names.number(name));
  if (nodeName !== '') number(nodeName);
  if (zoneHints.length > 0) packer.list(zoneHints, number);
  if (nodeHints.length > 0) packer.list(nodeHints, number);
  if (weight !== undefined) packer.number(weight);
}

export function unpackSlice(service: ServiceKey, packed: Packed<Slice>, names: Names): Slice {
  const from = new Unpacker(packed);
  from.number();
  const bits = from.byte();
  const name = from.text();
  return {
    key: (bits & OTHER) === 0 ? service + name : name,
    service,
    family: (bits & 2) === 0 ? 'IPv4' : 'IPv6',
    ports: from.list(() => slicePort(from)),
    endpoints: from.list(() => endpointFrom(from, names)),
  };
}

function slicePort(from: Unpacker): SlicePort {
  const protocol = PROTOCOLS[from.byte()] ?? 'TCP';
  return { protocol, name: from.text(), port: from.number() };
}

const NO_NAMES: readonly string[] = Object.freeze([]);
const NOTHING = Object.freeze({});
const BACKUP = Object.freeze({ isBackup: true } as const);

function endpointFrom(from: Unpacker, names: Names): Endpoint {
  const bits = from.byte();
  const has = (bit: number) => (bits & bit) !== 0;
  const name = () => names.name(from.number());
  return {
    address: from.address(),
    ready: has(READY),
    serving: has(SERVING),
    terminating: has(TERMINATING),
    nodeName: has(HAS_NODE) ? name() : '',
    zoneHints: has(HAS_ZONES) ? from.list(name) : NO_NAMES,
    nodeHints: has(HAS_NODES) ? from.list(name) : NO_NAMES,
    ...(has(HAS_WEIGHT) ? { weight: from.number() } : NOTHING),
    ...(has(IS_BACKUP) ? BACKUP : NOTHING),
  };
}

/** The key of a packed slice. */
export function keyOfSlice(service: ServiceKey, packed: Packed<Slice>): string {
  const from = new Unpacker(packed);
  from.number();
  const isOfService = (from.byte() & OTHER) === 0;
  return isOfService ? service + from.text() : from.text();
}

// The resourceVersion is no part of the object's value: two texts of one value may differ in it alone (`sameContent`).

/** A number without leading zeros that a double holds exactly (KEP-5504); others count as none. */
const KEPT = /^[1-9]\d{0,14}$/;

/** Four or five bytes in most clusters; one where there is none. */
function packVersion(packer: Packer, version: string): void {
  packer.number(KEPT.test(version) ? Number(version) : 0);
}

/** "" where the object has none. */
export function packedVersion(packed: Packed<unknown>): string {
  const number = new Unpacker(packed).number();
  return number === 0 ? '' : String(number);
}

/** Whether two texts are of the same value, whatever their versions. */
export function sameContent(a: Packed<unknown>, b: Packed<unknown>): boolean {
  return a === b || contentOf(a) === contentOf(b);
}

function contentOf(packed: Packed<unknown>): string {
  let length = 1;
  while (packed.charCodeAt(length - 1) > 127) length++;
  return packed.slice(length);
}

/** Numbers for names that very many objects repeat, such as those of nodes and zones. */
export class Names {
  readonly #names: string[] = [];
  readonly #numbers = new Map<string, number>();

  get size(): number {
    return this.#names.length;
  }

  /** The number of a name; a new one for a new name. */
  number(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const number = this.#names.length;
    this.#names.push(name);
    this.#numbers.set(name, number);
    return number;
  }

  /** Throws RangeError for a number that no name has. */
  name(number: number): string {
    const name = this.#names[number];
    if (name === undefined) throw new RangeError(`no name has the number ${number}`);
    return name;
  }
}
