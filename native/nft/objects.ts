/** Objects of nftables (linux/netfilter/nf_tables.h) as requests: tables, chains, rules, sets and their elements. */
import { BodyWriter } from '../body-writer.ts';
import { ENOENT } from '../errno.ts';
import {
  ATTRIBUTE_HEADER,
  align,
  findAttribute,
  HEADER_LENGTH,
  NetlinkError,
  NLM_F_CREATE,
  NLM_F_EXCL,
  type Request,
  valueLength,
} from '../netlink.ts';
import type { NetlinkSocket } from '../netlink-socket.ts';
import { type NetfilterFamily, NFGENMSG, netfilterHeader, netfilterType } from '../nfnetlink.ts';
import { NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWCHAIN, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE } from '../nftables.ts';
import {
  NFT_DATA_VERDICT,
  NFT_GOTO,
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELRULE,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_DELTABLE,
  NFT_MSG_GETRULE,
  NFT_MSG_GETSET,
  NFT_MSG_GETSETELEM,
  NFT_MSG_GETTABLE,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  NFT_SET_CONCAT,
  NFT_SET_EVAL,
  NFT_SET_INTERVAL,
  NFT_SET_MAP,
  NFT_SET_TIMEOUT,
  NFTA_CHAIN_HOOK,
  NFTA_CHAIN_TYPE,
  NFTA_COUNTER_PACKETS,
  NFTA_DATA_VALUE,
  NFTA_DATA_VERDICT,
  NFTA_EXPR_DATA,
  NFTA_EXPR_NAME,
  NFTA_HOOK_HOOKNUM,
  NFTA_HOOK_PRIORITY,
  NFTA_LIST_ELEM,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_RULE_TABLE,
  NFTA_RULE_USERDATA,
  NFTA_SET_DATA_LEN,
  NFTA_SET_DATA_TYPE,
  NFTA_SET_DESC,
  NFTA_SET_DESC_CONCAT,
  NFTA_SET_ELEM_DATA,
  NFTA_SET_ELEM_EXPR,
  NFTA_SET_ELEM_KEY,
  NFTA_SET_ELEM_KEY_END,
  NFTA_SET_ELEM_LIST_ELEMENTS,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_ELEM_LIST_TABLE,
  NFTA_SET_EXPR,
  NFTA_SET_FIELD_LEN,
  NFTA_SET_FLAGS,
  NFTA_SET_ID,
  NFTA_SET_KEY_LEN,
  NFTA_SET_KEY_TYPE,
  NFTA_SET_NAME,
  NFTA_SET_TABLE,
  NFTA_SET_USERDATA,
  NFTA_TABLE_FLAGS,
  NFTA_TABLE_HANDLE,
  NFTA_TABLE_NAME,
  NFTA_TABLE_USERDATA,
  NFTA_VERDICT_CHAIN,
  NFTA_VERDICT_CODE,
} from './constants.ts';
import { type Expression, type Verdict, writeVerdict } from './expressions.ts';

const NLM_F_APPEND = 0x800;
/** NFTNL_UDATA_RULE_COMMENT, NFTNL_UDATA_TABLE_COMMENT */
const UDATA_COMMENT = 0;
/** Bytes with the NUL: nft takes 128 (NFTNL_UDATA_COMMENT_MAXLEN). */
const LONGEST_COMMENT = 128;
/** The expression that counts packets. */
const COUNTER = 'counter';

export interface TableId {
  readonly family: NetfilterFamily;
  readonly table: string;
}

const writer = new BodyWriter(65_536);

function request(message: number, { family }: TableId, flags: number, write: (body: BodyWriter) => void): Request {
  const body = writer.begin(netfilterHeader(family));
  write(body);
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, message), flags, body: [body.end()] };
}

/** `comment`: whose table it is, for people; kernels before 5.10 do not keep it. */
export function addTable(id: TableId, comment: string): Request {
  return request(NFT_MSG_NEWTABLE, id, NLM_F_CREATE, (body) =>
    body.text(NFTA_TABLE_NAME, id.table).u32be(NFTA_TABLE_FLAGS, 0).bytes(NFTA_TABLE_USERDATA, userComment(comment)),
  );
}

/** User data that is a comment, as nft writes and lists it. Throws RangeError when it is too long for the kernel to keep as one. */
function userComment(comment: string): Buffer {
  const text = Buffer.from(`${comment}\0`);
  if (text.length > LONGEST_COMMENT) throw new RangeError(`nftables: a comment of more than ${LONGEST_COMMENT} bytes`);
  return Buffer.concat([Buffer.from([UDATA_COMMENT, text.length]), text]);
}

export function deleteTable(id: TableId): Request {
  return request(NFT_MSG_DELTABLE, id, 0, (body) => body.text(NFTA_TABLE_NAME, id.table));
}

const HOOKS = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const;

export interface BaseChain {
  readonly type: 'nat' | 'filter';
  readonly hook: keyof typeof HOOKS;
  readonly priority: number;
}

export function addChain(id: TableId, name: string, base?: BaseChain): Request {
  return request(NFT_MSG_NEWCHAIN, id, NLM_F_CREATE, (body) => {
    body.text(NFTA_CHAIN_TABLE, id.table).text(NFTA_CHAIN_NAME, name);
    if (base === undefined) return;
    body
      .nest(NFTA_CHAIN_HOOK, (hook) =>
        hook.u32be(NFTA_HOOK_HOOKNUM, HOOKS[base.hook]).u32be(NFTA_HOOK_PRIORITY, base.priority >>> 0),
      )
      .text(NFTA_CHAIN_TYPE, base.type);
  });
}

export function deleteChain(id: TableId, name: string): Request {
  return request(NFT_MSG_DELCHAIN, id, 0, (body) => body.text(NFTA_CHAIN_TABLE, id.table).text(NFTA_CHAIN_NAME, name));
}

/** All rules of a chain. */
export function flushChain(id: TableId, name: string): Request {
  return request(NFT_MSG_DELRULE, id, 0, (body) => body.text(NFTA_RULE_TABLE, id.table).text(NFTA_RULE_CHAIN, name));
}

/** `comment`: at most 120 bytes; by it the rule is known when it is read. */
export function addRule(id: TableId, chain: string, expressions: readonly Expression[], comment: string): Request {
  return request(NFT_MSG_NEWRULE, id, NLM_F_CREATE | NLM_F_APPEND, (body) => {
    body.text(NFTA_RULE_TABLE, id.table).text(NFTA_RULE_CHAIN, chain);
    body.nest(NFTA_RULE_EXPRESSIONS, (list) => {
      for (const write of expressions) write(list);
    });
    body.bytes(NFTA_RULE_USERDATA, userComment(comment));
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
  /** All of its elements have counters; `nft` loads no others. Kernel 5.7. */
  readonly isCounting?: boolean;
  /** What `nft` reads of it beside its types (`typeof.ts`). */
  readonly userData?: Buffer;
}

const words = (bytes: number) => Math.ceil(bytes / 4) * 4;
/** struct nft_verdict */
const VERDICT_LENGTH = 16;

export function addSet(id: TableId, spec: SetSpec, number: number): Request {
  const { name, fields, keyType, data, isInterval = false, isDynamic = false, isCounting = false, userData } = spec;
  const flags =
    (data ? NFT_SET_MAP : 0) |
    (isInterval ? NFT_SET_INTERVAL : 0) |
    (isDynamic ? NFT_SET_TIMEOUT | NFT_SET_EVAL : 0) |
    (isInterval && fields.length > 1 ? NFT_SET_CONCAT : 0);
  return request(NFT_MSG_NEWSET, id, NLM_F_CREATE, (body) => {
    body
      .text(NFTA_SET_TABLE, id.table)
      .text(NFTA_SET_NAME, name)
      .u32be(NFTA_SET_FLAGS, flags)
      .u32be(NFTA_SET_KEY_TYPE, keyType);
    body.u32be(
      NFTA_SET_KEY_LEN,
      fields.reduce((sum, length) => sum + words(length), 0),
    );
    if (data === 'verdict') body.u32be(NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT).u32be(NFTA_SET_DATA_LEN, VERDICT_LENGTH);
    else if (data !== undefined) body.u32be(NFTA_SET_DATA_TYPE, data.type).u32be(NFTA_SET_DATA_LEN, data.length);
    if (isInterval && fields.length > 1) {
      body.nest(NFTA_SET_DESC, (desc) =>
        desc.nest(NFTA_SET_DESC_CONCAT, (concat) => {
          for (const length of fields) concat.nest(NFTA_LIST_ELEM, (field) => field.u32be(NFTA_SET_FIELD_LEN, length));
        }),
      );
    }
    body.u32be(NFTA_SET_ID, number);
    if (isCounting) body.nest(NFTA_SET_EXPR, writeCounter);
    if (userData !== undefined) body.bytes(NFTA_SET_USERDATA, userData);
  });
}

export function deleteSet(id: TableId, name: string): Request {
  return request(NFT_MSG_DELSET, id, 0, (body) => body.text(NFTA_SET_TABLE, id.table).text(NFTA_SET_NAME, name));
}

/** Bytes are strings, each a character of Latin-1: hundreds of thousands are compared and looked up. */
export interface Element {
  readonly key: string;
  /** The end of a range; "": none. */
  readonly end: string;
  readonly data?: string | Verdict;
  /** It has a counter of its own: what it counted so far, when it was read; a new one begins with 0. */
  readonly packets?: number;
}

/** One that begins with 0. */
function writeCounter(body: BodyWriter): void {
  body.text(NFTA_EXPR_NAME, COUNTER).nest(NFTA_EXPR_DATA, () => {});
}

function writeElements(body: BodyWriter, elements: readonly Element[], withData: boolean): void {
  body.nest(NFTA_SET_ELEM_LIST_ELEMENTS, (list) => {
    for (const { key, end, data, packets } of elements) {
      list.nest(NFTA_LIST_ELEM, (element) => {
        element.nest(NFTA_SET_ELEM_KEY, (inner) => inner.latin1(NFTA_DATA_VALUE, key));
        if (end !== '') element.nest(NFTA_SET_ELEM_KEY_END, (inner) => inner.latin1(NFTA_DATA_VALUE, end));
        if (!withData) return;
        if (packets !== undefined) {
          element.nest(NFTA_SET_ELEM_EXPR, writeCounter);
        }
        if (data === undefined) return;
        element.nest(NFTA_SET_ELEM_DATA, (inner) => {
          if (typeof data === 'string') inner.latin1(NFTA_DATA_VALUE, data);
          else writeVerdict(inner, data);
        });
      });
    }
  });
}

/** An element that is there already is refused. */
export function addElements(id: TableId, set: string, elements: readonly Element[]): Request {
  return request(NFT_MSG_NEWSETELEM, id, NLM_F_CREATE | NLM_F_EXCL, (body) => {
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set);
    writeElements(body, elements, true);
  });
}

export function deleteElements(id: TableId, set: string, elements: readonly Element[]): Request {
  return request(NFT_MSG_DELSETELEM, id, 0, (body) => {
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set);
    writeElements(body, elements, false);
  });
}

/** The number of a table, another one when it was made anew; undefined: there is none. Throws NetlinkError. */
export function tableHandle(socket: NetlinkSocket, id: TableId): bigint | undefined {
  const asked = request(NFT_MSG_GETTABLE, id, 0, (body) => body.text(NFTA_TABLE_NAME, id.table));
  try {
    return socket.ask(asked, (buffer, { start, end }) => {
      const at = findAttribute(buffer, start + NFGENMSG, end, NFTA_TABLE_HANDLE);
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
  const asked = request(NFT_MSG_GETRULE, id, 0, (body) => body.text(NFTA_RULE_TABLE, id.table));
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const from = start + NFGENMSG;
    if (textAt(buffer, from, end, NFTA_RULE_TABLE) !== id.table) return undefined;
    const at = findAttribute(buffer, from, end, NFTA_RULE_USERDATA);
    const isComment = at >= 0 && buffer.readUInt8(at) === UDATA_COMMENT;
    const comment = isComment ? buffer.toString('utf8', at + 2, at + 1 + buffer.readUInt8(at + 1)) : '';
    return { chain: textAt(buffer, from, end, NFTA_RULE_CHAIN), comment };
  });
  for (const part of parts) yield* part;
}

/** Sets of a table. Throws NetlinkError. */
export function* readSets(
  socket: NetlinkSocket,
  id: TableId,
): Generator<{ readonly name: string; readonly isDynamic: boolean }> {
  const asked = request(NFT_MSG_GETSET, id, 0, (body) => body.text(NFTA_SET_TABLE, id.table));
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const from = start + NFGENMSG;
    if (textAt(buffer, from, end, NFTA_SET_TABLE) !== id.table) return undefined;
    const flags = findAttribute(buffer, from, end, NFTA_SET_FLAGS);
    return {
      name: textAt(buffer, from, end, NFTA_SET_NAME),
      isDynamic: flags >= 0 && (buffer.readUInt32BE(flags) & NFT_SET_EVAL) !== 0,
    };
  });
  for (const part of parts) yield* part;
}

/** Elements of a set, part by part. Throws NetlinkError. */
export function* readElements(socket: NetlinkSocket, id: TableId, set: string): Generator<readonly Element[]> {
  const asked = request(NFT_MSG_GETSETELEM, id, 0, (body) =>
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set),
  );
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const list = findAttribute(buffer, start + NFGENMSG, end, NFTA_SET_ELEM_LIST_ELEMENTS);
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
  const bytesOf = (type: number): string | undefined => {
    const outer = findAttribute(buffer, start, end, type);
    if (outer < 0) return undefined;
    const at = findAttribute(buffer, outer, outer + valueLength(buffer, outer), NFTA_DATA_VALUE);
    return at < 0 ? undefined : buffer.toString('latin1', at, at + valueLength(buffer, at));
  };
  const [key = '', last = '', value] = [
    bytesOf(NFTA_SET_ELEM_KEY),
    bytesOf(NFTA_SET_ELEM_KEY_END),
    bytesOf(NFTA_SET_ELEM_DATA),
  ];
  const data = value ?? decodeVerdict(buffer, start, end);
  const packets = decodeCounter(buffer, start, end);
  return {
    key,
    end: last,
    ...(data === undefined ? {} : { data }),
    ...(packets === undefined ? {} : { packets }),
  };
}

/** What an element counted; undefined: it has no counter. */
function decodeCounter(buffer: Buffer, start: number, end: number): number | undefined {
  const outer = findAttribute(buffer, start, end, NFTA_SET_ELEM_EXPR);
  if (outer < 0) return undefined;
  const stop = outer + valueLength(buffer, outer);
  if (textAt(buffer, outer, stop, NFTA_EXPR_NAME) !== COUNTER) return undefined;
  const data = findAttribute(buffer, outer, stop, NFTA_EXPR_DATA);
  const at = data < 0 ? -1 : findAttribute(buffer, data, data + valueLength(buffer, data), NFTA_COUNTER_PACKETS);
  return at < 0 ? 0 : Number(buffer.readBigUInt64BE(at));
}

function decodeVerdict(buffer: Buffer, start: number, end: number): Verdict | undefined {
  const outer = findAttribute(buffer, start, end, NFTA_SET_ELEM_DATA);
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
  const inBody = offset - HEADER_LENGTH;
  const list = findAttribute(bytes, NFGENMSG, bytes.length, NFTA_SET_ELEM_LIST_ELEMENTS);
  if (list < 0) return undefined;
  let n = 0;
  for (const [at, length] of attributes(bytes, list, list + valueLength(bytes, list))) {
    if (inBody >= at - ATTRIBUTE_HEADER && inBody < at + length) return n;
    n += 1;
  }
  return undefined;
}
