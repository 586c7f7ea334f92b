/** Messages of nftables as the kernel reads and writes them (linux/netfilter/nf_tables.h). */
import { align, attributes, HEADER_LENGTH } from '../../../../native/netlink.ts';
import { NFGENMSG, netfilterType } from '../../../../native/nfnetlink.ts';
import { Fields } from '../../../../native/nft/attributes.ts';
import { NFNL_MSG_BATCH_BEGIN } from '../../../../native/nft/constants.ts';
import { NFNL_SUBSYS_NFTABLES } from '../../../../native/nftables.ts';
import { type Header, message, requestsIn as messagesIn, type Request } from '../netlink/format.ts';

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

/** A request to nftables, or a message of another subsystem within a transaction. */
export interface Asked extends Request {
  /** The number of the message within nftables, such as NFT_MSG_NEWRULE; of other subsystems the whole type. */
  readonly type: number;
  readonly isOfNftables: boolean;
  /** NFPROTO_… */
  readonly family: number;
  readonly fields: Fields;
}

/** The requests of a datagram. */
export function requestsIn(datagram: Uint8Array): Asked[] {
  return messagesIn(datagram).map((request) => {
    const { type, bytes } = request;
    const isOfNftables = type >> 8 === NFNL_SUBSYS_NFTABLES;
    return {
      ...request,
      type: isOfNftables ? type & 0xff : type,
      isOfNftables,
      family: bytes.length > HEADER_LENGTH ? bytes.readUInt8(HEADER_LENGTH) : 0,
      fields: new Fields(bytes, Math.min(bytes.length, HEADER_LENGTH + NFGENMSG), bytes.length),
    };
  });
}

/** A datagram that begins a transaction. */
export function isTransaction([first]: readonly Asked[]): boolean {
  return first !== undefined && !first.isOfNftables && first.type === NFNL_MSG_BATCH_BEGIN;
}

/** A message about an object; `body` begins with struct nfgenmsg. */
export function objectMessage(type: number, header: Header, body: Buffer): Buffer {
  return message({ type: netfilterType(NFNL_SUBSYS_NFTABLES, type), body }, header);
}

/** struct nfgenmsg with the generation of the ruleset (nfnl_msg_put). */
export function objectHeader(family: number, generation: number): Buffer {
  return Buffer.from([family, 0, (generation >> 8) & 0xff, generation & 0xff]);
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
