/** Reads a table of nftables as a whole, in portions. */
import { ENOENT } from '../../native/errno.ts';
import { NetlinkError } from '../../native/netlink.ts';
import type { NetlinkSocket } from '../../native/netlink-socket.ts';
import { type DecodedExpression, decodeExpressions } from '../../native/nft/decoding.ts';
import {
  type ListedElement,
  type ListedSet,
  readChain,
  readChains,
  readElement,
  readElements,
  readRules,
  readSet,
  readSets,
  tableHandle,
} from '../../native/nft/listings.ts';
import type { TableId } from '../../native/nft/request.ts';
import type { Family } from '../base/address.ts';
import { breath } from '../base/clock.ts';
import type {
  AnyTable,
  Hook,
  KeyField,
  Latin1Bytes,
  LookedUpTable,
  NftElement,
  NftPart,
  NftSet,
  NftState,
  NftTouched,
  PacketField,
  ReadChain,
  ReadExpression,
  ReadRule,
} from './nftables-kernel.ts';

/** Attempts to read the table without a write of another program in between. The last one counts in any case: most likely the writes were to other tables. */
const READS = 5;
/** Rules that are read before the event loop runs other work. */
const RULES_AT_ONCE = 5000;

interface TableRead {
  readonly state: NftState;
  readonly handle: bigint;
  /** The generation of the ruleset during the read; undefined when another program wrote meanwhile. */
  readonly generation: number | undefined;
}

/** undefined where there is no table. The socket must have no other listing meanwhile. `generation` reads that of the ruleset. Throws NetlinkError. */
export async function readTable(
  socket: NetlinkSocket,
  id: TableId,
  generation: () => number,
): Promise<TableRead | undefined> {
  return await settled(socket, id, generation, async () => ({
    chains: await chainsNow(socket, id),
    sets: await setsNow(socket, id),
  }));
}

/** The table of any program, as `readTable`. */
export async function readAnyTable(
  socket: NetlinkSocket,
  id: TableId,
  generation: () => number,
): Promise<AnyTable | undefined> {
  const read = async (): Promise<AnyTable> => {
    const chains = await chainsNow(socket, id);
    const [sets, elements] = [new Map<string, NftSet>(), new Map<string, readonly NftElement[]>()];
    for (const listed of [...readSets(socket, id)]) {
      const set = setOf(listed);
      if (set === undefined) continue;
      const found = listed.isDynamic ? [] : await elementsNow(socket, id, set.name);
      const read = elementsOf(set, found);
      if (read === undefined) continue;
      sets.set(set.name, set);
      elements.set(set.name, read);
    }
    return { chains, sets, elements };
  };
  return (await settled(socket, id, generation, read))?.state;
}

/** The elements of a set of any program, with keys in whole words; undefined for a set with an element for all other keys. */
function elementsOf(set: NftSet, found: readonly ListedElement[]): NftElement[] | undefined {
  // The element for all keys that have no other has no key itself. A set with one counts as not read.
  if (found.some(({ key }) => key === '')) return undefined;
  const isOfOneField = set.key.length === 1;
  const read = set.hasRanges === true && isOfOneField ? rangesOf(found) : found.map(elementOf);
  return isOfOneField ? read.map(inWords) : read;
}

/** Objects that are remembered: more are read again when they are asked for. */
const MAX_LOOKED_UP = 5000;

/** See `LookedUpTable`. `generation` reads that of the ruleset. */
export class TableLookups implements LookedUpTable {
  readonly #socket: NetlinkSocket;
  readonly #id: TableId;
  readonly #now: () => number;
  #generation: number;
  #handle: bigint | undefined;
  #hooks: ReadonlyMap<string, Hook> | undefined;
  readonly #rules = new Map<string, readonly ReadRule[] | undefined>();
  readonly #sets = new Map<string, NftSet | undefined>();
  readonly #all = new Map<string, ReadonlyMap<Latin1Bytes, NftElement>>();
  /** By set and key. */
  readonly #elements = new Map<string, NftElement | undefined>();

  constructor(socket: NetlinkSocket, id: TableId, generation: () => number) {
    this.#socket = socket;
    this.#id = id;
    this.#now = generation;
    this.#generation = generation();
    this.#handle = tableHandle(socket, id);
  }

  get isThere(): boolean {
    return tableHandle(this.#socket, this.#id) !== undefined;
  }

  renew(hasHooks = false): boolean {
    const generation = this.#now();
    if (generation === this.#generation && !hasHooks) return false;
    this.#generation = generation;
    const handle = tableHandle(this.#socket, this.#id);
    if (hasHooks || handle !== this.#handle) this.#hooks = undefined;
    this.#handle = handle;
    for (const known of [this.#rules, this.#sets, this.#all, this.#elements]) known.clear();
    return true;
  }

  get hooks(): ReadonlyMap<string, Hook> {
    this.#hooks ??= new Map(
      [...readChains(this.#socket, this.#id)].flatMap(({ name, base }) => (base === undefined ? [] : [[name, base]])),
    );
    return this.#hooks;
  }

  rules(chain: string): readonly ReadRule[] | undefined {
    const { family } = this.#id;
    return lookedUp(this.#rules, chain, () => {
      const listed = [...readRules(this.#socket, this.#id, chain)];
      if (listed.length > 0) return listed.map(({ comment, expressions }) => ruleOf(comment, expressions, family));
      return readChain(this.#socket, this.#id, chain) && [];
    });
  }

  set(name: string): NftSet | undefined {
    return lookedUp(this.#sets, name, () => {
      const listed = readSet(this.#socket, this.#id, name);
      return listed && setOf(listed);
    });
  }

  element(name: string, key: Latin1Bytes): NftElement | undefined {
    const set = this.set(name);
    if (set === undefined || set.isMemory === true) return undefined;
    if (this.#all.has(name)) return this.#allOf(name).get(key);
    return lookedUp(this.#elements, `${name} ${key}`, () => {
      const found = readElement(this.#socket, this.#id, { set: name, key: inBytes(set, key) });
      return found && { ...elementOf(found), key };
    });
  }

  elements(name: string): Iterable<NftElement> {
    return this.#allOf(name).values();
  }

  #allOf(name: string): ReadonlyMap<Latin1Bytes, NftElement> {
    return lookedUp(this.#all, name, () => {
      const set = this.set(name);
      if (set === undefined || set.isMemory === true) return new Map();
      const found = [...readElements(this.#socket, this.#id, name)].flat();
      return new Map(elementsOf(set, found)?.map((element) => [element.key, element]));
    });
  }
}

function lookedUp<T>(known: Map<string, T>, name: string, read: () => T): T {
  const before = known.get(name);
  if (before !== undefined || known.has(name)) return before as T;
  const found = read();
  if (known.size >= MAX_LOOKED_UP) known.clear();
  known.set(name, found);
  return found;
}

/** The key of one field as the kernel has it; the counterpart of `inWords`. */
function inBytes({ key: fields }: NftSet, key: Latin1Bytes): Latin1Bytes {
  const [field, ...more] = fields;
  if (more.length > 0 || field === undefined) return key;
  return field === 'protocol' ? key.slice(0, 1) : field === 'port' ? key.slice(0, 2) : key;
}

/** The result of `read`, if possible without a write of any program in between. */
async function settled<T>(
  socket: NetlinkSocket,
  id: TableId,
  generation: () => number,
  read: () => Promise<T>,
): Promise<{ state: T; handle: bigint; generation: number | undefined } | undefined> {
  for (let tries = 1; ; tries++) {
    const before = generation();
    const handle = tableHandle(socket, id);
    if (handle === undefined) return undefined;
    const state = await read().catch((error: unknown) => {
      // The table was deleted meanwhile: ask again.
      if (tries < READS && error instanceof NetlinkError && error.errno === ENOENT) return undefined;
      throw error;
    });
    if (state === undefined) continue;
    const isSame = generation() === before;
    // Another program wrote meanwhile: entries may be missing.
    if (!isSame && tries < READS) continue;
    return { state, handle, generation: isSame ? before : undefined };
  }
}

async function chainsNow(socket: NetlinkSocket, id: TableId): Promise<ReadonlyMap<string, ReadChain>> {
  const chains = new Map<string, { readonly hook?: Hook; readonly rules: ReadRule[] }>();
  for (const { name, base } of readChains(socket, id))
    chains.set(name, { ...(base === undefined ? {} : { hook: base }), rules: [] });
  let count = 0;
  for (const { chain, comment, expressions } of readRules(socket, id)) {
    chains.get(chain)?.rules.push(ruleOf(comment, expressions, id.family));
    count += 1;
    if (count % RULES_AT_ONCE === 0) await breath();
  }
  return chains;
}

/** The elements of sets, of those that are named or of all; none of sets whose elements packets add. */
async function setsNow(
  socket: NetlinkSocket,
  id: TableId,
  names?: ReadonlySet<string>,
): Promise<ReadonlyMap<string, readonly NftElement[]>> {
  const sets = new Map<string, readonly NftElement[]>();
  for (const { name, isDynamic } of [...readSets(socket, id)]) {
    if (names?.has(name) === false) continue;
    const elements = isDynamic ? [] : (await elementsNow(socket, id, name)).map(elementOf);
    sets.set(name, elements);
  }
  return sets;
}

async function elementsNow(socket: NetlinkSocket, id: TableId, set: string): Promise<ListedElement[]> {
  const elements: ListedElement[] = [];
  for (const part of readElements(socket, id, set)) {
    for (const element of part) elements.push(element);
    await breath();
  }
  return elements;
}

/** Reads some objects of a table, which must exist. Throws NetlinkError. */
export async function readPart(
  socket: NetlinkSocket,
  id: TableId,
  { chains, elements, sets }: NftTouched,
): Promise<NftPart> {
  return {
    sets: sets.size === 0 ? new Map() : await setsNow(socket, id, sets),
    chains: new Map([...chains].map((name) => [name, chainNow(socket, id, name)])),
    elements: new Map(
      [...elements].map(([set, keys]) => {
        return [set, new Map([...keys].map((key) => [key, elementNow(socket, id, { set, key })]))];
      }),
    ),
  };
}

function chainNow(socket: NetlinkSocket, id: TableId, name: string): ReadChain | undefined {
  const found = readChain(socket, id, name);
  if (found === undefined) return undefined;
  const rules = [...readRules(socket, id, name)].map(({ comment, expressions }) =>
    ruleOf(comment, expressions, id.family),
  );
  return { ...(found.base === undefined ? {} : { hook: found.base }), rules };
}

function elementNow(
  socket: NetlinkSocket,
  id: TableId,
  of: { readonly set: string; readonly key: string },
): NftElement | undefined {
  const found = readElement(socket, id, of);
  return found && elementOf(found);
}

// The kernel's listings as objects of nftables mode: the counterpart of `nftables-encoding.ts`. Pure.

/** An element as it was read. */
export function elementOf({ key, end, data = '', packets }: ListedElement): NftElement {
  const text = typeof data === 'string' ? data : 'chain' in data ? `${data.kind} ${data.chain}` : data.kind;
  const element = { key, end, data: text };
  return packets === undefined ? element : { ...element, isCounted: true };
}

/** A set of any program; undefined for a key or data that slicewire has no fields for. */
function setOf({ name, isDynamic, isInterval, keyType, data }: ListedSet): NftSet | undefined {
  const key = fieldsOf(keyType);
  const value = data === undefined || data === 'verdict' ? data : fieldsOf(data);
  if (key === undefined || (value === undefined && data !== undefined)) return undefined;
  return {
    ...{ name, key },
    ...(value === undefined ? {} : { data: value }),
    ...(isInterval ? { hasRanges: true } : {}),
    ...(isDynamic ? { isMemory: true } : {}),
  };
}

/** Types of nft by their numbers (nft's datatype.h): TYPE_INTEGER, TYPE_IPADDR, TYPE_IP6ADDR, TYPE_INET_PROTOCOL, TYPE_INET_SERVICE, TYPE_MARK. */
const FIELD_TYPES: Readonly<Record<number, KeyField>> = {
  4: 'number',
  7: 'address',
  8: 'address',
  12: 'protocol',
  13: 'port',
  19: 'number',
};

/** The fields of a concatenation of types, six bits each. */
function fieldsOf(type: number): readonly KeyField[] | undefined {
  const fields: KeyField[] = [];
  for (let rest = type; rest > 0; rest >>>= 6) {
    const field = FIELD_TYPES[rest & 63];
    if (field === undefined) return undefined;
    fields.unshift(field);
  }
  return fields.length === 0 ? undefined : fields;
}

/** The key of one field, such as a port of two bytes, as a packet's field has it: in whole words. In a concatenation the kernel has whole words. */
function inWords({ key, end, ...rest }: NftElement): NftElement {
  const padded = (bytes: string) => bytes.padEnd(Math.ceil(bytes.length / 4) * 4, '\0');
  return { key: padded(key), end: padded(end), ...rest };
}

/**
 * Elements of a set of ranges in one field: there is an element of its own behind each range, but for one that goes up to the largest key
 * (nft_set_rbtree.c). Elements of a concatenation have their ends themselves.
 */
function rangesOf(listed: readonly ListedElement[]): NftElement[] {
  const order = ({ key, isEnd }: ListedElement) => `${key}${isEnd ? 0 : 1}`;
  const sorted = [...listed].sort((a, b) => (order(a) < order(b) ? -1 : 1));
  return sorted.flatMap((element, i) => {
    if (element.isEnd) return [];
    const next = sorted[i + 1];
    const end = next === undefined ? '\xff'.repeat(element.key.length) : beforeOf(next.key);
    return [elementOf({ ...element, end: end === element.key ? '' : end })];
  });
}

/** The bytes of the number before this one. */
function beforeOf(key: string): string {
  const bytes = Buffer.from(key, 'latin1');
  for (let i = bytes.length - 1; i >= 0; i--) {
    const byte = bytes.readUInt8(i);
    bytes.writeUInt8((byte + 255) & 255, i);
    if (byte > 0) break;
  }
  return bytes.toString('latin1');
}

/** A rule as it was read. It keeps its bytes until its expressions are needed: most rules are identified by their texts alone. */
export function ruleOf(text: string, bytes: string, family: Family): ReadRule {
  return new ListedRule(text, bytes, family);
}

class ListedRule implements ReadRule {
  readonly text: string;
  readonly #family: Family;
  #expressions: string | readonly ReadExpression[];

  constructor(text: string, bytes: string, family: Family) {
    this.text = text;
    this.#family = family;
    this.#expressions = bytes;
  }

  get expressions(): readonly ReadExpression[] {
    if (typeof this.#expressions === 'string') {
      const list = Buffer.from(this.#expressions, 'latin1');
      this.#expressions = decodeExpressions(list, this.#family).map((one) => expressionOf(one, this.#family));
    }
    return this.#expressions;
  }
}

function expressionOf(decoded: DecodedExpression, family: Family): ReadExpression {
  switch (decoded.is) {
    case 'payload': {
      const { base, offset, length, to } = decoded;
      const field = FIELDS[family][`${base} ${offset}`];
      if (field === undefined || length > field.length) return unknown('payload');
      const { what } = field;
      return length === field.length ? { do: 'load', what, to } : { do: 'load-part', what, bytes: length, to };
    }
    case 'meta':
      return { do: 'load', what: META[decoded.key], to: decoded.to };
    case 'connection':
      return { do: 'load', what: `connection ${decoded.key}`, to: decoded.to };
    case 'address type': {
      const what = `kind of ${decoded.of === 'saddr' ? 'source' : 'destination'} address` as const;
      return { do: 'load', what, to: decoded.to };
    }
    case 'set-mark':
      return { do: 'set-mark', from: decoded.from };
    case 'compare': {
      const { from, operator, value } = decoded;
      return { do: 'compare', from, is: operator === 'eq' ? 'equal' : 'other', value };
    }
    case 'bitwise':
      return { do: 'mask', at: decoded.at, mask: decoded.mask, flip: decoded.xor };
    case 'immediate':
      return { do: 'value', to: decoded.to, value: decoded.value };
    case 'verdict':
      return { do: 'verdict', verdict: decoded.verdict };
    case 'lookup': {
      const { set, from, to } = decoded;
      return { do: 'lookup', set, from, ...(to === undefined ? {} : { to }) };
    }
    case 'lookup of absence':
      return { do: 'lookup-absence', set: decoded.set, from: decoded.from };
    case 'random':
      return { do: 'random', count: decoded.modulus, first: decoded.offset, to: decoded.to };
    case 'hash': {
      const { from, length: bytes, modulus: count, seed, offset: first, to } = decoded;
      return { do: 'hash', from, bytes, seed, count, first, to };
    }
    case 'dnat':
      return { do: 'translate', address: decoded.address, port: decoded.port };
    case 'masquerade':
    case 'reject':
    case 'reset tcp':
    case 'count':
      return { do: decoded.is };
    case 'remember':
      return { do: 'remember', set: decoded.set, key: decoded.key, seconds: decoded.timeout / 1000 };
    case 'over rate':
      return { do: 'over-rate', perSecond: decoded.perSecond, burst: decoded.burst };
    case 'over connections':
      return { do: 'over-connections', most: decoded.most };
    case 'over connections of':
      return { do: 'over-connections', most: decoded.most, per: { set: decoded.set, key: decoded.key } };
    case 'unknown':
      return unknown(decoded.name);
  }
}

function unknown(name: string): ReadExpression {
  return { do: 'unknown', name };
}

const META: Readonly<Record<'mark' | 'iifname' | 'l4proto', PacketField>> = {
  mark: 'mark',
  iifname: 'input interface',
  l4proto: 'protocol',
};

interface HeaderField {
  readonly what: PacketField;
  /** Bytes. */
  readonly length: number;
}

const SOURCE_PORT: HeaderField = { what: 'source port', length: 2 };
const PORT: HeaderField = { what: 'destination port', length: 2 };

/** The fields that slicewire loads, by header and offset (linux/ip.h, linux/ipv6.h, linux/tcp.h). */
const FIELDS: Readonly<Record<Family, Readonly<Record<string, HeaderField>>>> = {
  IPv4: {
    'network 12': { what: 'source address', length: 4 },
    'network 16': { what: 'destination address', length: 4 },
    'transport 0': SOURCE_PORT,
    'transport 2': PORT,
  },
  IPv6: {
    'network 8': { what: 'source address', length: 16 },
    'network 24': { what: 'destination address', length: 16 },
    'transport 0': SOURCE_PORT,
    'transport 2': PORT,
  },
};
