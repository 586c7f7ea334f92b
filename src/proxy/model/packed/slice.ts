/** An EndpointSlice, packed. The key of its Service stays outside; names of nodes and zones have numbers (`Names`). Pure. */
import { PROTOCOLS } from '../../../base/address.ts';
import type { Endpoint, ServiceKey, Slice, SlicePort } from '../objects.ts';
import { type Packed, Packer, Unpacker } from './bytes.ts';
import { packVersion } from './version.ts';

const packer = new Packer();

/** Bits of an endpoint. */
const READY = 1;
const SERVING = 2;
const TERMINATING = 4;
const HAS_ZONES = 8;
const HAS_NODES = 16;
const HAS_NODE = 32;
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
  const { address, ready, serving, terminating, nodeName, zoneHints, nodeHints } = endpoint;
  packer.byte(
    (ready ? READY : 0) |
      (serving ? SERVING : 0) |
      (terminating ? TERMINATING : 0) |
      (zoneHints.length > 0 ? HAS_ZONES : 0) |
      (nodeHints.length > 0 ? HAS_NODES : 0) |
      (nodeName === '' ? 0 : HAS_NODE),
  );
  packer.address(address);
  const number = (name: string) => packer.number(names.number(name));
  if (nodeName !== '') number(nodeName);
  if (zoneHints.length > 0) packer.list(zoneHints, number);
  if (nodeHints.length > 0) packer.list(nodeHints, number);
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
  };
}

/** The key of a packed slice. */
export function keyOfSlice(service: ServiceKey, packed: Packed<Slice>): string {
  const from = new Unpacker(packed);
  from.number();
  const isOfService = (from.byte() & OTHER) === 0;
  return isOfService ? service + from.text() : from.text();
}

/** Numbers for names that very many objects repeat, such as those of nodes and zones. Pure. */
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
