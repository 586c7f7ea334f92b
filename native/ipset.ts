/** Sets of the kernel over nfnetlink (linux/netfilter/ipset/ip_set.h): create, destroy, swap, list, and their entries. */
import { BodyWriter } from './body-writer.ts';
import { AF_INET, AF_INET6, AF_UNSPEC } from './libc.ts';
import {
  ATTRIBUTE_HEADER,
  addressAt,
  align,
  findAttribute,
  type Message,
  type NetlinkRequest,
  NLA_F_NET_BYTEORDER,
  NLM_F_CREATE,
  NLM_F_EXCL,
  valueLength,
} from './netlink.ts';
import type { NetlinkSocket } from './netlink-socket.ts';
import { familyNumber, type NetfilterFamily, NFGENMSG, netfilterHeader, netfilterType } from './nfnetlink.ts';

export const NFNL_SUBSYS_IPSET = 6;
export const IPSET_CMD_CREATE = 2;
export const IPSET_CMD_DESTROY = 3;
export const IPSET_CMD_SWAP = 6;
export const IPSET_CMD_LIST = 7;
export const IPSET_CMD_ADD = 9;
export const IPSET_CMD_DEL = 10;
export const IPSET_CMD_TYPE = 13;
export const IPSET_ATTR_PROTOCOL = 1;
export const IPSET_ATTR_SETNAME = 2;
export const IPSET_ATTR_TYPENAME = 3;
/** The second set of a swap: the same number as the name of a type. */
export const IPSET_ATTR_SETNAME2 = 3;
export const IPSET_ATTR_REVISION = 4;
export const IPSET_ATTR_FAMILY = 5;
export const IPSET_ATTR_FLAGS = 6;
export const IPSET_ATTR_DATA = 7;
export const IPSET_ATTR_ADT = 8;
export const IPSET_ATTR_IP = 1;
export const IPSET_ATTR_PORT = 4;
export const IPSET_ATTR_PORT_TO = 5;
export const IPSET_ATTR_PROTO = 7;
export const IPSET_ATTR_HASHSIZE = 18;
export const IPSET_ATTR_MAXELEM = 19;
export const IPSET_ATTR_IP2 = 20;
export const IPSET_ATTR_CIDR2 = 21;
export const IPSET_ATTR_IPADDR_IPV4 = 1;
export const IPSET_ATTR_IPADDR_IPV6 = 2;
export const IPSET_FLAG_LIST_SETNAME = 2;
export const IPSET_ERR_FIND_TYPE = 4098;
export const IPSET_ERR_BUSY = 4100;
/** The second set of a swap does not exist. */
export const IPSET_ERR_EXIST_SETNAME2 = 4101;
export const IPSET_ERR_TYPE_MISMATCH = 4102;
export const IPSET_ERR_EXIST = 4103;
export const IPSET_ERR_REFERENCED = 4108;
/** The first error of a set type; for a hash it means that the set is full (ip_set_hash.h, IPSET_ERR_HASH_FULL). */
export const IPSET_ERR_TYPE_SPECIFIC = 4352;
/** The protocol version of every kernel since 2.6.39. */
const PROTOCOL_VERSION = 6;
/** kube-proxy's, and ipset's own default: the kernel makes more buckets as they fill. */
const HASH_SIZE = 1024;

const PROTOCOLS = { tcp: 6, udp: 17, sctp: 132 } as const;
const NAMES: Readonly<Record<number, EntryProtocol>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };
type EntryProtocol = keyof typeof PROTOCOLS;

export type SetType = 'hash:ip' | 'hash:ip,port' | 'hash:ip,port,ip' | 'hash:ip,port,net' | 'bitmap:port';

/** A set to create. */
export interface IpsetSpec {
  readonly name: string;
  readonly type: SetType;
  readonly family: NetfilterFamily;
  /** The largest number of entries of a hash. A bitmap ignores it. */
  readonly maxelem: number;
}

/** An entry. The type of the set decides which fields it has. Addresses are 4 or 16 bytes in network order. */
export interface EntryBytes {
  readonly address?: Uint8Array | undefined;
  /** A name, or the number of any other protocol. */
  readonly protocol?: EntryProtocol | number | undefined;
  readonly port?: number | undefined;
  readonly second?: Uint8Array | undefined;
  /** Prefix length of `second` in hash:ip,port,net. */
  readonly length?: number | undefined;
}

const writer = new BodyWriter();

/** `ipset create`; `revision` is a revision of the type that the kernel has (`typeRevision`). */
export function createSetRequest({ name, type, family, maxelem }: IpsetSpec, revision: number): NetlinkRequest {
  return request(IPSET_CMD_CREATE, name, NLM_F_CREATE | NLM_F_EXCL, (body) => {
    body
      .text(IPSET_ATTR_TYPENAME, type)
      .u8(IPSET_ATTR_REVISION, revision)
      .u8(IPSET_ATTR_FAMILY, type === 'bitmap:port' ? AF_UNSPEC : familyNumber(family))
      .nest(IPSET_ATTR_DATA, (inner) => {
        if (type === 'bitmap:port') {
          inner.u16be(IPSET_ATTR_PORT | NLA_F_NET_BYTEORDER, 0).u16be(IPSET_ATTR_PORT_TO | NLA_F_NET_BYTEORDER, 0xffff);
        } else {
          inner
            .u32be(IPSET_ATTR_HASHSIZE | NLA_F_NET_BYTEORDER, HASH_SIZE)
            .u32be(IPSET_ATTR_MAXELEM | NLA_F_NET_BYTEORDER, maxelem);
        }
      });
  });
}

/** `ipset destroy NAME` */
export function destroySetRequest(name: string): NetlinkRequest {
  return request(IPSET_CMD_DESTROY, name, 0, () => undefined);
}

/** `ipset swap NAME OTHER`: rules that name one set find the entries of the other from then on. Both must have one type and family. */
export function swapSetsRequest(name: string, other: string): NetlinkRequest {
  return request(IPSET_CMD_SWAP, name, 0, (body) => body.text(IPSET_ATTR_SETNAME2, other));
}

/** `ipset -exist add` and `ipset del`: adding an existing entry succeeds, deleting a missing one fails. */
export function entryRequest(verb: 'add' | 'delete', set: string, entry: EntryBytes): NetlinkRequest {
  const command = verb === 'add' ? IPSET_CMD_ADD : IPSET_CMD_DEL;
  // Without NLM_F_EXCL an existing entry can be added again; with it, an entry to delete must exist.
  return request(command, set, verb === 'add' ? 0 : NLM_F_EXCL, (body) =>
    body.nest(IPSET_ATTR_DATA, (inner) => {
      const { address, protocol, port, second, length } = entry;
      if (address !== undefined) writeAddress(inner, IPSET_ATTR_IP, address);
      if (port !== undefined) inner.u16be(IPSET_ATTR_PORT | NLA_F_NET_BYTEORDER, port);
      if (protocol !== undefined)
        inner.u8(IPSET_ATTR_PROTO, typeof protocol === 'number' ? protocol : PROTOCOLS[protocol]);
      if (second !== undefined) writeAddress(inner, IPSET_ATTR_IP2, second);
      if (length !== undefined) inner.u8(IPSET_ATTR_CIDR2, length);
    }),
  );
}

/** The kernel's highest revision of a set type. Throws NetlinkError, with IPSET_ERR_FIND_TYPE when the kernel lacks the type. */
export function typeRevision(socket: NetlinkSocket, type: SetType, family: NetfilterFamily): number {
  return socket.ask(typeRequest(type, family), (buffer, { start, end }) => {
    const at = findAttribute(buffer, start + NFGENMSG, end, IPSET_ATTR_REVISION, 1);
    if (at < 0) throw new RangeError(`ipset answered the type ${type} without its revision`);
    return buffer.readUInt8(at);
  });
}

/** Asks for the revisions of a set type. */
export function typeRequest(type: SetType, family: NetfilterFamily): NetlinkRequest {
  const body = writer
    .begin(netfilterHeader(family))
    .u8(IPSET_ATTR_PROTOCOL, PROTOCOL_VERSION)
    .text(IPSET_ATTR_TYPENAME, type)
    .u8(IPSET_ATTR_FAMILY, type === 'bitmap:port' ? AF_UNSPEC : familyNumber(family));
  return { type: netfilterType(NFNL_SUBSYS_IPSET, IPSET_CMD_TYPE), flags: 0, body: [body.end()] };
}

/** `ipset list -n` */
export function listNamesRequest(): NetlinkRequest {
  const body = writer
    .begin(netfilterHeader())
    .u8(IPSET_ATTR_PROTOCOL, PROTOCOL_VERSION)
    .u32be(IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER, IPSET_FLAG_LIST_SETNAME);
  return { type: netfilterType(NFNL_SUBSYS_IPSET, IPSET_CMD_LIST), flags: 0, body: [body.end()] };
}

/** The names of all sets, part by part; returns whether a name may be missing. Throws NetlinkError. */
export function* setNames(socket: NetlinkSocket): Generator<readonly string[], boolean> {
  return yield* socket.decoded(listNamesRequest(), (buffer, { start, end }) => {
    const at = findAttribute(buffer, start + NFGENMSG, end, IPSET_ATTR_SETNAME);
    return at < 0 ? undefined : textAt(buffer, at);
  });
}

/** A part of a set. Only the first part has the type and maxelem. */
export interface SetPart {
  readonly type: string | undefined;
  /** undefined for a bitmap. */
  readonly family: NetfilterFamily | undefined;
  /** undefined for a bitmap. */
  readonly maxelem: number | undefined;
  readonly entries: readonly EntryBytes[];
}

/** A set, part by part; returns whether an entry may be missing. Throws NetlinkError, with ENOENT when the set does not exist. */
export function* setParts(socket: NetlinkSocket, name: string): Generator<readonly SetPart[], boolean> {
  return yield* socket.decoded(
    request(IPSET_CMD_LIST, name, 0, () => undefined),
    decodeSetPart,
  );
}

/** A part of a listed set. Throws RangeError when the length of an entry is impossible. */
export function decodeSetPart(buffer: Buffer, { start, end }: Message): SetPart {
  const type = findAttribute(buffer, start + NFGENMSG, end, IPSET_ATTR_TYPENAME);
  const family = findAttribute(buffer, start + NFGENMSG, end, IPSET_ATTR_FAMILY, 1);
  const number = family < 0 ? AF_UNSPEC : buffer.readUInt8(family);
  const header = findAttribute(buffer, start + NFGENMSG, end, IPSET_ATTR_DATA);
  const maxelem =
    header < 0 ? -1 : findAttribute(buffer, header, header + valueLength(buffer, header), IPSET_ATTR_MAXELEM, 4);
  const entries: EntryBytes[] = [];
  const list = findAttribute(buffer, start + NFGENMSG, end, IPSET_ATTR_ADT);
  if (list >= 0) {
    const stop = list + valueLength(buffer, list);
    for (let at = list; at + ATTRIBUTE_HEADER <= stop; ) {
      const value = at + ATTRIBUTE_HEADER;
      const length = valueLength(buffer, value);
      if (length < 0 || value + length > stop) throw new RangeError(`ipset listed an entry of ${length} bytes`);
      entries.push(decodeEntry(buffer, value, value + length));
      at = value + align(length);
    }
  }
  return {
    type: type < 0 ? undefined : textAt(buffer, type),
    family: number === AF_INET ? 'IPv4' : number === AF_INET6 ? 'IPv6' : undefined,
    maxelem: maxelem < 0 ? undefined : buffer.readUInt32BE(maxelem),
    entries,
  };
}

function decodeEntry(buffer: Buffer, start: number, end: number): EntryBytes {
  const port = findAttribute(buffer, start, end, IPSET_ATTR_PORT, 2);
  const protocol = findAttribute(buffer, start, end, IPSET_ATTR_PROTO, 1);
  const length = findAttribute(buffer, start, end, IPSET_ATTR_CIDR2, 1);
  return {
    address: readAddress(buffer, findAttribute(buffer, start, end, IPSET_ATTR_IP)),
    protocol: protocol < 0 ? undefined : (NAMES[buffer.readUInt8(protocol)] ?? buffer.readUInt8(protocol)),
    port: port < 0 ? undefined : buffer.readUInt16BE(port),
    second: readAddress(buffer, findAttribute(buffer, start, end, IPSET_ATTR_IP2)),
    length: length < 0 ? undefined : buffer.readUInt8(length),
  };
}

function request(command: number, set: string, flags: number, write: (body: BodyWriter) => unknown): NetlinkRequest {
  writer.begin(netfilterHeader()).u8(IPSET_ATTR_PROTOCOL, PROTOCOL_VERSION).text(IPSET_ATTR_SETNAME, set);
  write(writer);
  return { type: netfilterType(NFNL_SUBSYS_IPSET, command), flags, body: [writer.end()] };
}

function writeAddress(into: BodyWriter, type: number, bytes: Uint8Array): void {
  const inner = bytes.length === 4 ? IPSET_ATTR_IPADDR_IPV4 : IPSET_ATTR_IPADDR_IPV6;
  into.nest(type, (nested) => nested.bytes(inner | NLA_F_NET_BYTEORDER, bytes));
}

function readAddress(buffer: Buffer, nest: number): Uint8Array | undefined {
  if (nest < 0) return undefined;
  const end = nest + valueLength(buffer, nest);
  let at = findAttribute(buffer, nest, end, IPSET_ATTR_IPADDR_IPV4);
  if (at < 0) at = findAttribute(buffer, nest, end, IPSET_ATTR_IPADDR_IPV6);
  return at < 0 ? undefined : addressAt(buffer, at);
}

function textAt(buffer: Buffer, at: number): string {
  return buffer.toString('latin1', at, at + valueLength(buffer, at)).replace(/\0.*$/s, '');
}
