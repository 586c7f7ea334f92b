/** Listings of nftables (linux/netfilter/nf_tables.h): tables, rules, sets and elements as the kernel has them. */
import { ENOENT } from '../errno.ts';
import { attributes, findAttribute, type Message, NetlinkError, textAt, valueLength } from '../netlink.ts';
import type { NetlinkSocket } from '../netlink-socket.ts';
import { NFGENMSG } from '../nfnetlink.ts';
import { chainRequest, NFT_MSG_GETCHAIN, NFT_MSG_NEWCHAIN, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE } from '../nftables.ts';
import {
  NFT_DATA_VERDICT,
  NFT_MSG_GETRULE,
  NFT_MSG_GETSET,
  NFT_MSG_GETSETELEM,
  NFT_MSG_GETTABLE,
  NFT_SET_ELEM_INTERVAL_END,
  NFT_SET_EVAL,
  NFT_SET_INTERVAL,
  NFT_TABLE_F_DORMANT,
  NFT_TABLE_F_OWNER,
  NFTA_CHAIN_HOOK,
  NFTA_CHAIN_TYPE,
  NFTA_COUNTER_PACKETS,
  NFTA_DATA_VALUE,
  NFTA_EXPR_DATA,
  NFTA_EXPR_NAME,
  NFTA_HOOK_HOOKNUM,
  NFTA_HOOK_PRIORITY,
  NFTA_LIST_ELEM,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_RULE_TABLE,
  NFTA_RULE_USERDATA,
  NFTA_SET_DATA_TYPE,
  NFTA_SET_ELEM_DATA,
  NFTA_SET_ELEM_EXPIRATION,
  NFTA_SET_ELEM_EXPR,
  NFTA_SET_ELEM_FLAGS,
  NFTA_SET_ELEM_KEY,
  NFTA_SET_ELEM_KEY_END,
  NFTA_SET_ELEM_LIST_ELEMENTS,
  NFTA_SET_ELEM_LIST_SET,
  NFTA_SET_ELEM_LIST_TABLE,
  NFTA_SET_FLAGS,
  NFTA_SET_KEY_TYPE,
  NFTA_SET_NAME,
  NFTA_SET_TABLE,
  NFTA_TABLE_FLAGS,
  NFTA_TABLE_HANDLE,
  NFTA_TABLE_NAME,
  NFTA_TABLE_USERDATA,
} from './constants.ts';
import { decodeVerdict, type SeenVerdict } from './decoding.ts';
import { COUNTER, request, type TableId, UDATA_COMMENT } from './request.ts';
import { type BaseChain, HOOKS } from './table-requests.ts';

/** The handle of a table, which is new when the table is created again; undefined when there is no such table. Throws NetlinkError. */
export function tableHandle(socket: NetlinkSocket, id: TableId): bigint | undefined {
  const asked = request(NFT_MSG_GETTABLE, id, 0, (body) => body.text(NFTA_TABLE_NAME, id.table));
  try {
    return socket.ask(asked, (buffer, { start, end }) => {
      const at = findAttribute(buffer, start + NFGENMSG, end, NFTA_TABLE_HANDLE, 8);
      return at < 0 ? 0n : buffer.readBigUInt64BE(at);
    });
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENOENT) return undefined;
    throw error;
  }
}

/** A table of any program. */
export interface TableFacts {
  /** A process has the table for itself, and the kernel removes it when the process ends. */
  readonly isOwned: boolean;
  /** The kernel calls it for no packet. */
  readonly isDormant: boolean;
  /** "" for none */
  readonly comment: string;
}

/** undefined when there is no such table. Throws NetlinkError. */
export function tableFacts(socket: NetlinkSocket, id: TableId): TableFacts | undefined {
  const asked = request(NFT_MSG_GETTABLE, id, 0, (body) => body.text(NFTA_TABLE_NAME, id.table));
  try {
    return socket.ask(asked, (buffer, { start, end }) => {
      const at = findAttribute(buffer, start + NFGENMSG, end, NFTA_TABLE_FLAGS, 4);
      const flags = at < 0 ? 0 : buffer.readUInt32BE(at);
      const [isOwned, isDormant] = [(flags & NFT_TABLE_F_OWNER) !== 0, (flags & NFT_TABLE_F_DORMANT) !== 0];
      return {
        isOwned,
        isDormant,
        comment: commentAt(buffer, findAttribute(buffer, start + NFGENMSG, end, NFTA_TABLE_USERDATA)),
      };
    });
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENOENT) return undefined;
    throw error;
  }
}

/** The comment in user data at an offset; "" when there is none. */
export function commentAt(buffer: Buffer, at: number): string {
  if (at < 0) return '';
  const room = valueLength(buffer, at) - 2;
  if (room < 0 || buffer.readUInt8(at) !== UDATA_COMMENT) return '';
  // With the NUL that ends it.
  const length = Math.min(buffer.readUInt8(at + 1), room);
  return buffer.toString('utf8', at + 2, at + 2 + Math.max(0, length - 1));
}

/** The chains of a table, each with its hook if it is a base chain. Throws NetlinkError. */
export function* readChains(
  socket: NetlinkSocket,
  id: TableId,
): Generator<{ readonly name: string; readonly base: BaseChain | undefined }> {
  const asked = request(NFT_MSG_GETCHAIN, id, 0, (body) => body.text(NFTA_CHAIN_TABLE, id.table));
  const parts = socket.decoded(asked, (buffer, { type, start, end }) => {
    const from = start + NFGENMSG;
    if ((type & 0xff) !== NFT_MSG_NEWCHAIN || textAt(buffer, from, end, NFTA_CHAIN_TABLE) !== id.table)
      return undefined;
    return { name: textAt(buffer, from, end, NFTA_CHAIN_NAME) ?? '', base: decodeBase(buffer, from, end) };
  });
  for (const part of parts) yield* part;
}

/** One chain, with its hook if it is a base chain; undefined when there is none of this name. Throws NetlinkError. */
export function readChain(
  socket: NetlinkSocket,
  id: TableId,
  chain: string,
): { readonly base: BaseChain | undefined } | undefined {
  return orNone(() =>
    socket.ask(chainRequest({ ...id, chain }), (buffer, { start, end }) => ({
      base: decodeBase(buffer, start + NFGENMSG, end),
    })),
  );
}

/** The answer; undefined when what it is about does not exist. */
function orNone<T>(question: () => T): T | undefined {
  try {
    return question();
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENOENT) return undefined;
    throw error;
  }
}

/** undefined: no base chain, or one of a type or at a hook that slicewire does not use. */
function decodeBase(buffer: Buffer, start: number, end: number): BaseChain | undefined {
  const outer = findAttribute(buffer, start, end, NFTA_CHAIN_HOOK);
  if (outer < 0) return undefined;
  const stop = outer + valueLength(buffer, outer);
  const [number, priority] = [NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY].map((type) =>
    findAttribute(buffer, outer, stop, type, 4),
  );
  if (number === undefined || priority === undefined || number < 0 || priority < 0) return undefined;
  const at = buffer.readUInt32BE(number);
  const hook = HOOK_NAMES.find((name) => HOOKS[name] === at);
  const type = textAt(buffer, start, end, NFTA_CHAIN_TYPE);
  if (hook === undefined || (type !== 'nat' && type !== 'filter')) return undefined;
  return { type, hook, priority: buffer.readInt32BE(priority) };
}

const HOOK_NAMES = Object.keys(HOOKS) as BaseChain['hook'][];

/** A rule: its chain, its comment ("" for none), and its expressions as bytes for `decodeExpressions`, as text of Latin-1. */
export interface ListedRule {
  readonly chain: string;
  readonly comment: string;
  readonly expressions: string;
}

/** The rules of a table in their order; with `only`, those of one chain. Throws NetlinkError. */
export function* readRules(socket: NetlinkSocket, id: TableId, only?: string): Generator<ListedRule> {
  const asked = request(NFT_MSG_GETRULE, id, 0, (body) => {
    body.text(NFTA_RULE_TABLE, id.table);
    if (only !== undefined) body.text(NFTA_RULE_CHAIN, only);
  });
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const from = start + NFGENMSG;
    if (textAt(buffer, from, end, NFTA_RULE_TABLE) !== id.table) return undefined;
    // Kernels that ignore the chain in the request list all rules of the table.
    if (only !== undefined && textAt(buffer, from, end, NFTA_RULE_CHAIN) !== only) return undefined;
    const comment = commentAt(buffer, findAttribute(buffer, from, end, NFTA_RULE_USERDATA));
    const list = findAttribute(buffer, from, end, NFTA_RULE_EXPRESSIONS);
    // The buffer is used again for the next part.
    const expressions = list < 0 ? '' : buffer.toString('latin1', list, list + valueLength(buffer, list));
    return { chain: textAt(buffer, from, end, NFTA_RULE_CHAIN) ?? '', comment, expressions };
  });
  for (const part of parts) yield* part;
}

/** A set or map of any program. */
export interface ListedSet {
  readonly name: string;
  /** Packets add the elements. */
  readonly isDynamic: boolean;
  /** Elements are ranges. */
  readonly isInterval: boolean;
  /** The type of the key in nft's numbers, six bits for each field (nft's datatype.h). */
  readonly keyType: number;
  /** The data of a map, a type in the same numbers; undefined for a set. */
  readonly data: 'verdict' | number | undefined;
}

/** The sets of a table. Throws NetlinkError. */
export function* readSets(socket: NetlinkSocket, id: TableId): Generator<ListedSet> {
  const asked = request(NFT_MSG_GETSET, id, 0, (body) => body.text(NFTA_SET_TABLE, id.table));
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const from = start + NFGENMSG;
    return textAt(buffer, from, end, NFTA_SET_TABLE) === id.table ? decodeSet(buffer, from, end) : undefined;
  });
  for (const part of parts) yield* part;
}

/** One set; undefined when there is none of this name. Throws NetlinkError. */
export function readSet(socket: NetlinkSocket, id: TableId, name: string): ListedSet | undefined {
  const asked = request(NFT_MSG_GETSET, id, 0, (body) => body.text(NFTA_SET_TABLE, id.table).text(NFTA_SET_NAME, name));
  return orNone(() => socket.ask(asked, (buffer, { start, end }) => decodeSet(buffer, start + NFGENMSG, end)));
}

function decodeSet(buffer: Buffer, from: number, end: number): ListedSet {
  const number = (type: number) => {
    const at = findAttribute(buffer, from, end, type, 4);
    return at < 0 ? undefined : buffer.readUInt32BE(at);
  };
  const [flags = 0, data] = [number(NFTA_SET_FLAGS), number(NFTA_SET_DATA_TYPE)];
  return {
    name: textAt(buffer, from, end, NFTA_SET_NAME) ?? '',
    isDynamic: (flags & NFT_SET_EVAL) !== 0,
    isInterval: (flags & NFT_SET_INTERVAL) !== 0,
    keyType: number(NFTA_SET_KEY_TYPE) ?? 0,
    data: data === NFT_DATA_VERDICT ? 'verdict' : data,
  };
}

/** An element as it was read: of any program, and of a set whose elements packets add. Bytes are strings of Latin-1. */
export interface ListedElement {
  readonly key: string;
  /** The end of a range; "" for a single key. */
  readonly end: string;
  /** The key is the first that is no more in the range that the element before it begins, in a set of ranges in one field. */
  readonly isEnd?: true;
  readonly data?: string | SeenVerdict;
  /** Packets that its counter has counted; undefined for an element without a counter. */
  readonly packets?: number;
  /** Milliseconds until it expires; undefined for an element that stays. */
  readonly expiration?: number;
}

/** The elements of a set, part by part. Throws NetlinkError. */
export function* readElements(socket: NetlinkSocket, id: TableId, set: string): Generator<readonly ListedElement[]> {
  const asked = request(NFT_MSG_GETSETELEM, id, 0, (body) =>
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set),
  );
  const parts = socket.decoded(asked, (buffer, { start, end }) => {
    const list = findAttribute(buffer, start + NFGENMSG, end, NFTA_SET_ELEM_LIST_ELEMENTS);
    if (list < 0) return undefined;
    const found: ListedElement[] = [];
    for (const [at, length] of attributes(buffer, list, list + valueLength(buffer, list)))
      found.push(decodeElement(buffer, at, at + length));
    return found;
  });
  for (const part of parts) for (const elements of part) yield elements;
}

/** `nft get element`; undefined when the set has no such element. The set must have no ranges. Throws NetlinkError. */
export function readElement(
  socket: NetlinkSocket,
  id: TableId,
  { set, key }: { readonly set: string; readonly key: string },
): ListedElement | undefined {
  const asked = request(NFT_MSG_GETSETELEM, id, 0, (body) => {
    body.text(NFTA_SET_ELEM_LIST_TABLE, id.table).text(NFTA_SET_ELEM_LIST_SET, set);
    body.nest(NFTA_SET_ELEM_LIST_ELEMENTS, (list) =>
      list.nest(NFTA_LIST_ELEM, (element) =>
        element.nest(NFTA_SET_ELEM_KEY, (value) => value.latin1(NFTA_DATA_VALUE, key)),
      ),
    );
  });
  return orNone(() => socket.ask(asked, elementIn));
}

function elementIn(buffer: Buffer, { start, end }: Message): ListedElement | undefined {
  const list = findAttribute(buffer, start + NFGENMSG, end, NFTA_SET_ELEM_LIST_ELEMENTS);
  if (list < 0) return undefined;
  for (const [at, length] of attributes(buffer, list, list + valueLength(buffer, list)))
    return decodeElement(buffer, at, at + length);
  return undefined;
}

function decodeElement(buffer: Buffer, start: number, end: number): ListedElement {
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
  const data = value ?? decodeVerdict(buffer, findAttribute(buffer, start, end, NFTA_SET_ELEM_DATA));
  const packets = decodeCounter(buffer, start, end);
  const expiration = findAttribute(buffer, start, end, NFTA_SET_ELEM_EXPIRATION, 8);
  const flags = findAttribute(buffer, start, end, NFTA_SET_ELEM_FLAGS, 4);
  const isEnd = flags >= 0 && (buffer.readUInt32BE(flags) & NFT_SET_ELEM_INTERVAL_END) !== 0;
  return {
    key,
    end: last,
    ...(isEnd ? { isEnd } : {}),
    ...(data === undefined ? {} : { data }),
    ...(packets === undefined ? {} : { packets }),
    ...(expiration < 0 ? {} : { expiration: Number(buffer.readBigUInt64BE(expiration)) }),
  };
}

/** The packets of an element's counter; undefined when it has none. */
function decodeCounter(buffer: Buffer, start: number, end: number): number | undefined {
  const outer = findAttribute(buffer, start, end, NFTA_SET_ELEM_EXPR);
  if (outer < 0) return undefined;
  const stop = outer + valueLength(buffer, outer);
  if (textAt(buffer, outer, stop, NFTA_EXPR_NAME) !== COUNTER) return undefined;
  const data = findAttribute(buffer, outer, stop, NFTA_EXPR_DATA);
  const at = data < 0 ? -1 : findAttribute(buffer, data, data + valueLength(buffer, data), NFTA_COUNTER_PACKETS, 8);
  return at < 0 ? 0 : Number(buffer.readBigUInt64BE(at));
}
