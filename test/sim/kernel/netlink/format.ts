/** Messages of netlink as the kernel reads and writes them (linux/netlink.h, af_netlink.c). */
import {
  align,
  attribute,
  HEADER_LENGTH,
  NLM_F_ACK_TLVS,
  NLM_F_CAPPED,
  NLMSG_DONE,
  NLMSG_ERROR,
  NLMSGERR_ATTR_OFFS,
} from '../../../../native/netlink.ts';

export const NLM_F_MULTI = 0x2;

/** A request, by itself in its buffer. */
export interface Request {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** From the message's header on. */
  readonly bytes: Buffer;
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
export function requestsIn(datagram: Uint8Array): Request[] {
  const all = Buffer.from(datagram);
  const found: Request[] = [];
  for (let at = 0; at + HEADER_LENGTH <= all.length; ) {
    const length = all.readUInt32LE(at);
    if (length < HEADER_LENGTH || at + length > all.length) break;
    const bytes = all.subarray(at, at + length);
    const [type, flags, sequence] = [bytes.readUInt16LE(4), bytes.readUInt16LE(6), bytes.readUInt32LE(8)];
    found.push({ type, flags, sequence, bytes });
    at += align(length);
  }
  return found;
}

/** Whom a message answers, or whose write it is about. */
export interface Header {
  readonly flags: number;
  readonly sequence: number;
  readonly port: number;
}

/** A message of the kernel: its type, and what follows the header of netlink. */
export interface Said {
  readonly type: number;
  readonly body: Buffer;
}

export function message({ type, body }: Said, { flags, sequence, port }: Header): Buffer {
  const bytes = Buffer.alloc(align(HEADER_LENGTH + body.length));
  bytes.writeUInt32LE(HEADER_LENGTH + body.length, 0);
  bytes.writeUInt16LE(type, 4);
  bytes.writeUInt16LE(flags, 6);
  bytes.writeUInt32LE(sequence, 8);
  bytes.writeUInt32LE(port, 12);
  bytes.set(body, HEADER_LENGTH);
  return bytes;
}

/** The outcome of a request to a socket with NETLINK_CAP_ACK and NETLINK_EXT_ACK (af_netlink.c, netlink_ack); 0 is success. */
export function outcomeMessage({ bytes, sequence }: Request, port: number, errno: number, offset?: number): Buffer {
  const error = Buffer.alloc(4);
  error.writeInt32LE(-errno);
  const tlvs = offset === undefined ? [] : [attribute(NLMSGERR_ATTR_OFFS, u32(offset, 'machine'))];
  const flags = NLM_F_CAPPED | (tlvs.length > 0 ? NLM_F_ACK_TLVS : 0);
  const body = Buffer.concat([error, bytes.subarray(0, HEADER_LENGTH), ...tlvs]);
  return message({ type: NLMSG_ERROR, body }, { flags, sequence, port });
}

/** The end of a listing, with its outcome. */
export function doneMessage(header: Header, errno: number): Buffer {
  const body = Buffer.alloc(4);
  body.writeInt32LE(-errno);
  return message({ type: NLMSG_DONE, body }, header);
}

export function textAttribute(type: number, value: string): Buffer {
  return attribute(type, Buffer.from(`${value}\0`, 'latin1'));
}

export function u16(value: number, order: 'network' | 'machine' = 'network'): Buffer {
  const bytes = Buffer.alloc(2);
  if (order === 'network') bytes.writeUInt16BE(value);
  else bytes.writeUInt16LE(value);
  return bytes;
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
