/** Messages of nftables as the kernel reads and writes them (linux/netlink.h, linux/netfilter/nf_tables.h). */
import { align, attribute, attributes, HEADER_LENGTH, NLMSG_DONE, NLMSG_ERROR } from '../../../../native/netlink.ts';
import { NFGENMSG, netfilterType } from '../../../../native/nfnetlink.ts';
import { Fields } from '../../../../native/nft/attributes.ts';
import { NFNL_MSG_BATCH_BEGIN } from '../../../../native/nft/constants.ts';
import { NFNL_SUBSYS_NFTABLES } from '../../../../native/nftables.ts';

export const NLM_F_MULTI = 0x2;
export const NLM_F_APPEND = 0x800;
/** The deletion is refused when it would delete other objects too (NLM_F_EXCL has the same number in a request for a new object). */
export const NLM_F_NONREC = 0x100;
export const NLMSG_MIN_TYPE = 0x10;
export const NFTA_TABLE_OWNER = 7;
export const NFTA_CHAIN_HANDLE = 2;
export const NFTA_RULE_POSITION = 6;
export const NFTA_SET_HANDLE = 16;
export const NFTA_SET_ELEM_FLAGS = 3;
export const NFTA_SET_ELEM_TIMEOUT = 4;
export const NFTA_COUNTER_BYTES = 1;
export const EMSGSIZE = 90;

/** A request, by itself in its buffer. */
export interface Asked {
  /** The number of the message within nftables, such as NFT_MSG_NEWRULE; of other subsystems the whole type. */
  readonly type: number;
  readonly isOfNftables: boolean;
  readonly flags: number;
  readonly sequence: number;
  /** NFPROTO_… */
  readonly family: number;
  /** From the message's header on. */
  readonly bytes: Buffer;
  readonly fields: Fields;
}

/** The kernel refuses a request, with the offset of the refused attribute in its message. */
export class Refused extends Error {
  readonly errno: number;
  readonly offset: number | undefined;

  constructor(errno: number, offset?: number) {
    super(`errno ${errno}`);
    this.errno = errno;
    this.offset = offset;
  }
}

/** The requests of a datagram. */
export function requestsIn(datagram: Uint8Array): Asked[] {
  const all = Buffer.from(datagram);
  const found: Asked[] = [];
  for (let at = 0; at + HEADER_LENGTH <= all.length; ) {
    const length = all.readUInt32LE(at);
    if (length < HEADER_LENGTH || at + length > all.length) break;
    found.push(requestOf(all.subarray(at, at + length)));
    at += align(length);
  }
  return found;
}

function requestOf(bytes: Buffer): Asked {
  const type = bytes.readUInt16LE(4);
  const isOfNftables = type >> 8 === NFNL_SUBSYS_NFTABLES;
  return {
    type: isOfNftables ? type & 0xff : type,
    isOfNftables,
    flags: bytes.readUInt16LE(6),
    sequence: bytes.readUInt32LE(8),
    family: bytes.length > HEADER_LENGTH ? bytes.readUInt8(HEADER_LENGTH) : 0,
    bytes,
    fields: new Fields(bytes, Math.min(bytes.length, HEADER_LENGTH + NFGENMSG), bytes.length),
  };
}

/** A datagram that begins a transaction. */
export function isTransaction([first]: readonly Asked[]): boolean {
  return first !== undefined && !first.isOfNftables && first.type === NFNL_MSG_BATCH_BEGIN;
}

/** Whom a message answers, or whose write it is about. */
export interface Header {
  readonly flags: number;
  readonly sequence: number;
  readonly port: number;
}

/** A message about an object; `body` begins with struct nfgenmsg. */
export function objectMessage(type: number, header: Header, body: Buffer): Buffer {
  return message(netfilterType(NFNL_SUBSYS_NFTABLES, type), header, body);
}

function message(type: number, { flags, sequence, port }: Header, body: Buffer): Buffer {
  const bytes = Buffer.alloc(align(HEADER_LENGTH + body.length));
  bytes.writeUInt32LE(HEADER_LENGTH + body.length, 0);
  bytes.writeUInt16LE(type, 4);
  bytes.writeUInt16LE(flags, 6);
  bytes.writeUInt32LE(sequence, 8);
  bytes.writeUInt32LE(port, 12);
  bytes.set(body, HEADER_LENGTH);
  return bytes;
}

const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;
const NLMSGERR_ATTR_OFFS = 2;

/** The outcome of a request to a socket with NETLINK_CAP_ACK and NETLINK_EXT_ACK (af_netlink.c, netlink_ack); 0 is success. */
export function outcomeMessage({ bytes, sequence }: Asked, port: number, errno: number, offset?: number): Buffer {
  const error = Buffer.alloc(4);
  error.writeInt32LE(-errno);
  const tlvs = offset === undefined ? [] : [attribute(NLMSGERR_ATTR_OFFS, u32(offset, 'machine'))];
  const flags = NLM_F_CAPPED | (tlvs.length > 0 ? NLM_F_ACK_TLVS : 0);
  const body = Buffer.concat([error, bytes.subarray(0, HEADER_LENGTH), ...tlvs]);
  return message(NLMSG_ERROR, { flags, sequence, port }, body);
}

/** The end of a listing, with its outcome. */
export function doneMessage(header: Header, errno: number): Buffer {
  const body = Buffer.alloc(4);
  body.writeInt32LE(-errno);
  return message(NLMSG_DONE, header, body);
}

/** struct nfgenmsg with the generation of the ruleset (nfnl_msg_put). */
export function objectHeader(family: number, generation: number): Buffer {
  return Buffer.from([family, 0, (generation >> 8) & 0xff, generation & 0xff]);
}

export function textAttribute(type: number, value: string): Buffer {
  return attribute(type, Buffer.from(`${value}\0`, 'latin1'));
}

export function u32(value: number, order: 'network' | 'machine' = 'network'): Buffer {
  const bytes = Buffer.alloc(4);
  if (order === 'network') bytes.writeUInt32BE(value >>> 0);
  else bytes.writeUInt32LE(value >>> 0);
  return bytes;
}

export function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(Math.round(value)));
  return bytes;
}

export function u64At(fields: Fields, type: number): number | undefined {
  const at = fields.at(type);
  return at < 0 ? undefined : Number(fields.buffer.readBigUInt64BE(at));
}

/** The attributes of these types as they are, with their headers and padding. */
export function kept(buffer: Buffer, start: number, end: number, types: readonly number[]): Buffer {
  const parts: Buffer[] = [];
  for (const [at, length] of attributes(buffer, start, end)) {
    const type = buffer.readUInt16LE(at - 2) & 0x3fff;
    if (!types.includes(type)) continue;
    const part = Buffer.alloc(align(length + 4));
    part.set(buffer.subarray(at - 4, at + length));
    parts.push(part);
  }
  return Buffer.concat(parts);
}
