/** Objects of nftables (linux/netfilter/nf_tables.h) as requests: tables, chains, rules, sets and their elements. */
import { BodyWriter } from '../body-writer.ts';
import {
  ATTRIBUTE_HEADER,
  align,
  findAttribute,
  NetlinkError,
  NLM_F_CREATE,
  NLM_F_EXCL,
  type Request,
  valueLength,
} from '../netlink.ts';
import type { NetlinkSocket } from '../netlink-socket.ts';
import { type NetfilterFamily, NFGENMSG, netfilterHeader, netfilterType } from '../nfnetlink.ts';
import { NFNL_SUBSYS_NFTABLES } from '../nftables.ts';
import {
  type Expression,
  NFT_GOTO,
  NFTA_DATA_VALUE,
  NFTA_DATA_VERDICT,
  NFTA_VERDICT_CHAIN,
  NFTA_VERDICT_CODE,
  type Verdict,
  writeVerdict,
} from './expressions.ts';

const NFT_MSG = {
  newTable: 0,
  getTable: 1,
  delTable: 2,
  newChain: 3,
  delChain: 5,
  newRule: 6,
  getRule: 7,
  delRule: 8,
  newSet: 9,
  getSet: 10,
  delSet: 11,
  newElement: 12,
  getElement: 13,
  delElement: 14,
} as const;
const NLM_F_APPEND = 0x800;
const NFTA_RULE_USERDATA = 7;
/** NFTNL_UDATA_RULE_COMMENT: a comment, as nft writes and lists it. */
const UDATA_COMMENT = 0;
const ENOENT = 2;

export interface TableId {
  readonly family: NetfilterFamily;
  readonly table: string;
}

const writer = new BodyWriter(65_536);

function request(
  message: keyof typeof NFT_MSG,
  { family }: TableId,
  flags: number,
  write: (body: BodyWriter) => void,
): Request {
  const body = writer.begin(netfilterHeader(family));
  write(body);
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG[message]), flags, body: [body.end()] };
}

export function addTable(id: TableId): Request {
  return request('newTable', id, NLM_F_CREATE, (body) => body.text(1, id.table).u32be(2, 0));
}

export function deleteTable(id: TableId): Request {
  return request('delTable', id, 0, (body) => body.text(1, id.table));
}

const HOOKS = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const;

export interface BaseChain {
  readonly type: 'nat' | 'filter';
  readonly hook: keyof typeof HOOKS;
  readonly priority: number;
}

export function addChain(id: TableId, name: string, base?: BaseChain): Request {
  return request('newChain', id, NLM_F_CREATE, (body) => {
    body.text(1, id.table).text(3, name);
    if (base === undefined) return;
    body.nest(4, (hook) => hook.u32be(1, HOOKS[base.hook]).u32be(2, base.priority >>> 0)).text(7, base.type);
  });
}

export function deleteChain(id: TableId, name: string): Request {
  return request('delChain', id, 0, (body) => body.text(1, id.table).text(3, name));
}

/** All rules of a chain. */
export function flushChain(id: TableId, name: string): Request {
  return request('delRule', id, 0, (body) => body.text(1, id.table).text(2, name));
}

/** `comment`: at most 120 bytes; by it the rule is known when it is read. */
export function addRule(id: TableId, chain: string, expressions: readonly Expression[], comment: string): Request {
  return request('newRule', id, NLM_F_CREATE | NLM_F_APPEND, (body) => {
    body.text(1, id.table).text(2, chain);
    body.nest(4, (list) => {
      for (const write of expressions) write(list);
    });
    const text = Buffer.from(`${comment}\0`);
    body.bytes(NFTA_RULE_USERDATA, Buffer.concat([Buffer.from([UDATA_COMMENT, text.length]), text]));
  });
}

export interface SetSpec {
  readonly name: string;
  /** Lengths in bytes of what a key is put together from, each rounded up to words. */
  readonly fields: readonly number[];
  /** Number of the key's type for those who list it (nft's datatype.h): six bits a field. */
  readonly keyType: number;
  readonly data?: 'verdict' | { readonly type: number; readonly length: number };
  readonly isInterval?: boolean;
  /** Elements are added by packets, and time out. */
  readonly isDynamic?: boolean;
}

const words = (bytes: number) => Math.ceil(bytes / 4) * 4;
const FLAG = { interval: 4, map: 8, timeout: 16, eval: 32, concat: 128 } as const;
const NFT_DATA_VERDICT = 0xffffff00;

export function addSet(id: TableId, spec: SetSpec, number: number): Request {
  const { name, fields, keyType, data, isInterval = false, isDynamic = false } = spec;
  const flags =
    (data ? FLAG.map : 0) |
    (isInterval ? FLAG.interval : 0) |
    (isDynamic ? FLAG.timeout | FLAG.eval : 0) |
    (isInterval && fields.length > 1 ? FLAG.concat : 0);
  return request('newSet', id, NLM_F_CREATE, (body) => {
    body.text(1, id.table).text(2, name).u32be(3, flags).u32be(4, keyType);
    body.u32be(
      5,
      fields.reduce((sum, length) => sum + words(length), 0),
    );
    if (data === 'verdict') body.u32be(6, NFT_DATA_VERDICT).u32be(7, 16);
    else if (data !== undefined) body.u32be(6, data.type).u32be(7, data.length);
    if (isInterval && fields.length > 1) {
      body.nest(9, (desc) =>
        desc.nest(2, (concat) => {
          for (const length of fields) concat.nest(1, (field) => field.u32be(1, length));
        }),
      );
    }
    body.u32be(10, number);
  });
}

export function deleteSet(id: TableId, name: string): Request {
  return request('delSet', id, 0, (body) => body.text(1, id.table).text(2, name));
}

export interface Element {
  readonly key: Uint8Array;
  readonly end?: Uint8Array;
  readonly data?: Uint8Array | Verdict;
}

function writeElements(body: BodyWriter, elements: readonly Element[], withData: boolean): void {
  body.nest(3, (list) => {
    for (const { key, end, data } of elements) {
      list.nest(1, (element) => {
        element.nest(1, (inner) => inner.bytes(NFTA_DATA_VALUE, key));
        if (end !== undefined) element.nest(10, (inner) => inner.bytes(NFTA_DATA_VALUE, end));
        if (data === undefined || !withData) return;
        element.nest(2, (inner) => {
          if (data instanceof Uint8Array) inner.bytes(NFTA_DATA_VALUE, data);
          else writeVerdict(inner, data);
        });
      });
    }
  });
}

/** An element that is there already is refused. */
export function addElements(id: TableId, set: string, elements: readonly Element[]): Request {
  return request('newElement', id, NLM_F_CREATE | NLM_F_EXCL, (body) => {
    body.text(1, id.table).text(2, set);
    writeElements(body, elements, true);
  });
}

export function deleteElements(id: TableId, set: string, elements: readonly Element[]): Request {
  return request('delElement', id, 0, (body) => {
    body.text(1, id.table).text(2, set);
    writeElements(body, elements, false);
  });
}

/** The number of a table, another one when it was made anew; undefined: there is none. Throws NetlinkError. */
export function tableHandle(socket: NetlinkSocket, id: TableId): bigint | undefined {
  const asked = request('getTable', id, 0, (body) => body.text(1, id.table));
  try {
    return socket.ask(asked, (buffer, { start, end }) => {
      const at = findAttribute(buffer, start + NFGENMSG, end, 4);
      return at < 0 ? 0n : buffer.readBigUInt64BE(at);
    });
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENOENT) return undefined;
    throw error;
  }
}

function textAt(buffer: Buffer, start: number, end: number, type: number): string {
  const at = findAttribute(buffer, start, end, type);
  // NUL-terminated.
  return at < 0 ? '' : buffer.toString('latin1', at, at + Math.max(0, valueLength(buffer, at) - 1));
}

/** Rules of a table in their order, each with its chain and comment. Throws NetlinkError. */
export function* readRules(
  socket: NetlinkSocket,
  id: TableId,
): Generator<{ readonly chain: string; readonly comment: string }> {
  const asked = request('getRule', id, 0, (body) => body.text(1, id.table));
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const from = start + NFGENMSG;
    if (textAt(buffer, from, end, 1) !== id.table) return undefined;
    const at = findAttribute(buffer, from, end, NFTA_RULE_USERDATA);
    const isComment = at >= 0 && buffer.readUInt8(at) === UDATA_COMMENT;
    const comment = isComment ? buffer.toString('utf8', at + 2, at + 1 + buffer.readUInt8(at + 1)) : '';
    return { chain: textAt(buffer, from, end, 2), comment };
  });
  for (const part of parts) yield* part;
}

/** Sets of a table. Throws NetlinkError. */
export function* readSets(
  socket: NetlinkSocket,
  id: TableId,
): Generator<{ readonly name: string; readonly isDynamic: boolean }> {
  const asked = request('getSet', id, 0, (body) => body.text(1, id.table));
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const from = start + NFGENMSG;
    if (textAt(buffer, from, end, 1) !== id.table) return undefined;
    const flags = findAttribute(buffer, from, end, 3);
    return {
      name: textAt(buffer, from, end, 2),
      isDynamic: flags >= 0 && (buffer.readUInt32BE(flags) & FLAG.eval) !== 0,
    };
  });
  for (const part of parts) yield* part;
}

/** Elements of a set, part by part. Throws NetlinkError. */
export function* readElements(socket: NetlinkSocket, id: TableId, set: string): Generator<readonly Element[]> {
  const asked = request('getElement', id, 0, (body) => body.text(1, id.table).text(2, set));
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const list = findAttribute(buffer, start + NFGENMSG, end, 3);
    if (list < 0) return undefined;
    const found: Element[] = [];
    for (const [at, length] of attributes(buffer, list, list + valueLength(buffer, list)))
      found.push(decodeElement(buffer, at, at + length));
    return found;
  });
  for (const part of parts) for (const elements of part) yield elements;
}

/** Where the values of all attributes begin, and how long they are. */
function* attributes(buffer: Buffer, start: number, end: number): Generator<readonly [at: number, length: number]> {
  for (let at = start; at + ATTRIBUTE_HEADER <= end; ) {
    const size = buffer.readUInt16LE(at);
    if (size < ATTRIBUTE_HEADER) return;
    yield [at + ATTRIBUTE_HEADER, size - ATTRIBUTE_HEADER];
    at += align(size);
  }
}

function decodeElement(buffer: Buffer, start: number, end: number): Element {
  const bytesOf = (type: number): Uint8Array | undefined => {
    const outer = findAttribute(buffer, start, end, type);
    if (outer < 0) return undefined;
    const at = findAttribute(buffer, outer, outer + valueLength(buffer, outer), NFTA_DATA_VALUE);
    return at < 0 ? undefined : Uint8Array.prototype.slice.call(buffer, at, at + valueLength(buffer, at));
  };
  const [key = new Uint8Array(), last, value] = [bytesOf(1), bytesOf(10), bytesOf(2)];
  const data = value ?? decodeVerdict(buffer, start, end);
  return { key, ...(last === undefined ? {} : { end: last }), ...(data === undefined ? {} : { data }) };
}

function decodeVerdict(buffer: Buffer, start: number, end: number): Verdict | undefined {
  const outer = findAttribute(buffer, start, end, 2);
  if (outer < 0) return undefined;
  const at = findAttribute(buffer, outer, outer + valueLength(buffer, outer), NFTA_DATA_VERDICT);
  if (at < 0) return undefined;
  const stop = at + valueLength(buffer, at);
  const code = findAttribute(buffer, at, stop, NFTA_VERDICT_CODE);
  if (code < 0 || buffer.readInt32BE(code) !== NFT_GOTO) return { kind: 'drop' };
  return { kind: 'goto', chain: textAt(buffer, at, stop, NFTA_VERDICT_CHAIN) };
}

/** Which element of a request an offset in its message lies in; undefined: in none. */
export function elementAt({ body }: Request, offset: number): number | undefined {
  const [bytes] = body;
  if (!Buffer.isBuffer(bytes)) return undefined;
  const inBody = offset - MESSAGE_HEADER;
  const list = findAttribute(bytes, NFGENMSG, bytes.length, 3);
  if (list < 0) return undefined;
  let n = 0;
  for (const [at, length] of attributes(bytes, list, list + valueLength(bytes, list))) {
    if (inBody >= at - ATTRIBUTE_HEADER && inBody < at + length) return n;
    n += 1;
  }
  return undefined;
}

/** struct nlmsghdr */
const MESSAGE_HEADER = 16;
