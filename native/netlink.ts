/**
 * Netlink messages as bytes (RFC 3549, linux/netlink.h): writing requests, reading answers. Pure.
 *
 * Headers of messages and attributes are in the machine's byte order, which is little-endian on x86-64 and arm64. Values of
 * netfilter's attributes are in network order; their writers say so.
 */
import { errnoText } from './errno.ts';

export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;
export const NLM_F_REQUEST = 0x1;
export const NLM_F_ACK = 0x4;
/** In an answer: the table changed during the listing, and an entry may be missing. */
export const NLM_F_DUMP_INTR = 0x10;
export const NLM_F_DUMP = 0x300;
/** In a request for a new object: create it; fail when it exists; replace the existing one. */
export const NLM_F_CREATE = 0x400;
export const NLM_F_EXCL = 0x200;
export const NLM_F_REPLACE = 0x100;
/** In an error: it does not repeat the request; attributes follow. */
export const NLM_F_CAPPED = 0x100;
export const NLM_F_ACK_TLVS = 0x200;
export const NLMSGERR_ATTR_OFFS = 2;
export const NLMSGERR_ATTR_MSG = 1;
export const NLA_F_NESTED = 0x8000;
export const NLA_F_NET_BYTEORDER = 0x4000;
const NLA_TYPE_MASK = 0x3fff;
/** struct nlmsghdr */
export const HEADER_LENGTH = 16;
/** struct nlattr */
export const ATTRIBUTE_HEADER = 4;

/** A request. The socket adds the sequence number. */
export interface NetlinkRequest {
  readonly type: number;
  readonly flags: number;
  /** The header of the protocol (such as struct nfgenmsg) and the attributes. */
  readonly body: readonly Uint8Array[];
}

/** Length with padding to 4 bytes (NLMSG_ALIGN, NLA_ALIGN). */
export function align(length: number): number {
  return (length + 3) & ~3;
}

/** One message: header, body, padding. */
export function encodeMessage(request: NetlinkRequest, sequence: number): Buffer {
  const message = Buffer.alloc(align(lengthOf(request)));
  writeMessage(message, 0, request, sequence);
  return message;
}

/**
 * Several messages, with sequence numbers from `first` on. The message with the index `asking`, by default the last, asks for
 * an acknowledgement.
 */
export function encodeMessages(
  requests: readonly NetlinkRequest[],
  first: number,
  asking = requests.length - 1,
): Buffer {
  const all = Buffer.alloc(requests.reduce((sum, request) => sum + align(lengthOf(request)), 0));
  let at = 0;
  for (const [i, request] of requests.entries()) {
    const asked = i === asking ? { ...request, flags: request.flags | NLM_F_ACK } : request;
    at = writeMessage(all, at, asked, first + i);
  }
  return all;
}

function lengthOf({ body }: NetlinkRequest): number {
  let length = HEADER_LENGTH;
  for (const part of body) length += part.length;
  return length;
}

/** Returns where the next message begins. */
function writeMessage(into: Buffer, start: number, request: NetlinkRequest, sequence: number): number {
  const length = lengthOf(request);
  into.writeUInt32LE(length, start);
  into.writeUInt16LE(request.type, start + 4);
  into.writeUInt16LE(request.flags | NLM_F_REQUEST, start + 6);
  into.writeUInt32LE(sequence, start + 8);
  let at = start + HEADER_LENGTH;
  for (const part of request.body) {
    into.set(part, at);
    at += part.length;
  }
  return start + align(length);
}

/** One attribute with its padding. */
export function attribute(type: number, value: Uint8Array): Buffer {
  const bytes = Buffer.alloc(align(ATTRIBUTE_HEADER + value.length));
  bytes.writeUInt16LE(ATTRIBUTE_HEADER + value.length, 0);
  bytes.writeUInt16LE(type, 2);
  bytes.set(value, ATTRIBUTE_HEADER);
  return bytes;
}

/** An attribute that holds attributes. */
export function nested(type: number, ...attributes: readonly Uint8Array[]): Buffer {
  return attribute(type | NLA_F_NESTED, Buffer.concat(attributes));
}

/** A received message; `start` and `end` are the offsets of its body in the buffer. */
export interface Message {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** The port of the socket whose request it answers, or whose write it is about. */
  readonly port: number;
  readonly start: number;
  readonly end: number;
}

/** The messages in a datagram of `length` bytes. Throws RangeError when a message's length is impossible. */
export function* decodeMessages(buffer: Buffer, length: number): Generator<Message> {
  for (let at = 0; at + HEADER_LENGTH <= length; ) {
    const size = buffer.readUInt32LE(at);
    if (size < HEADER_LENGTH || at + size > length) {
      throw new RangeError(`netlink: a message of ${size} bytes at offset ${at} of ${length}`);
    }
    yield {
      type: buffer.readUInt16LE(at + 4),
      flags: buffer.readUInt16LE(at + 6),
      sequence: buffer.readUInt32LE(at + 8),
      port: buffer.readUInt32LE(at + 12),
      start: at + HEADER_LENGTH,
      end: at + size,
    };
    at += align(size);
  }
}

/**
 * The offset of the value of the first attribute of a type between `start` and `end`; -1 when there is none. `valueLength` has its
 * length, which is at least `least` bytes. It allocates nothing: a listing calls it several times for each entry. Throws RangeError
 * when the length of an attribute is impossible: what follows it cannot be found, and must not count as missing.
 */
export function findAttribute(buffer: Buffer, start: number, end: number, type: number, least = 0): number {
  for (let at = start; at + ATTRIBUTE_HEADER <= end; ) {
    const size = sizeAt(buffer, at, end);
    if ((buffer.readUInt16LE(at + 2) & NLA_TYPE_MASK) === type) {
      if (size >= ATTRIBUTE_HEADER + least) return at + ATTRIBUTE_HEADER;
      throw new RangeError(`netlink: the attribute ${type} has ${size - ATTRIBUTE_HEADER} bytes instead of ${least}`);
    }
    at += align(size);
  }
  return -1;
}

/** The length of the attribute at an offset, with its header. Throws RangeError. */
function sizeAt(buffer: Buffer, at: number, end: number): number {
  const size = buffer.readUInt16LE(at);
  if (size >= ATTRIBUTE_HEADER && at + size <= end) return size;
  throw new RangeError(`netlink: an attribute of ${size} bytes at offset ${at} of ${end}`);
}

/** A copy of the address at an offset: 4 or 16 bytes in network order. Throws RangeError for another length. */
export function addressAt(buffer: Buffer, at: number): Buffer {
  const length = valueLength(buffer, at);
  if (length !== 4 && length !== 16) throw new RangeError(`netlink: an address of ${length} bytes`);
  return Buffer.from(buffer.subarray(at, at + length));
}

/** The length in bytes of the value at the offset `value`. */
export function valueLength(buffer: Buffer, value: number): number {
  return buffer.readUInt16LE(value - ATTRIBUTE_HEADER) - ATTRIBUTE_HEADER;
}

/** The offsets and lengths of the values of all attributes between `start` and `end`. Throws RangeError as `findAttribute`. */
export function* attributes(
  buffer: Buffer,
  start: number,
  end: number,
): Generator<readonly [at: number, length: number]> {
  for (let at = start; at + ATTRIBUTE_HEADER <= end; ) {
    const size = sizeAt(buffer, at, end);
    yield [at + ATTRIBUTE_HEADER, size - ATTRIBUTE_HEADER];
    at += align(size);
  }
}

/** The text of the first attribute of a type between `start` and `end`, without the NUL that ends it; undefined when there is none. */
export function textAt(buffer: Buffer, start: number, end: number, type: number): string | undefined {
  const at = findAttribute(buffer, start, end, type);
  return at < 0 ? undefined : buffer.toString('latin1', at, at + Math.max(0, valueLength(buffer, at) - 1));
}

/** The kernel refused a request. The message has the errno's name, its meaning, and the kernel's text where it sent one. */
export class NetlinkError extends Error {
  readonly code = 'NETLINK';
  readonly errno: number;
  /** Offset of the refused part in the request's message, where the kernel names it. */
  readonly offset: number | undefined;

  constructor(errno: number, said: string | undefined, offset?: number) {
    super(said === undefined ? errnoText(errno) : `${errnoText(errno)} (${said})`);
    this.errno = errno;
    this.offset = offset;
  }
}

/** The error of an NLMSG_ERROR, or of the NLMSG_DONE of a listing; undefined for success. */
export function decodeError(buffer: Buffer, { type, start, end, flags }: Message): NetlinkError | undefined {
  if (end - start < 4) return undefined;
  const errno = -buffer.readInt32LE(start);
  if (errno === 0) return undefined;
  if (type === NLMSG_DONE) return new NetlinkError(errno, undefined);
  // struct nlmsgerr: the number, the header of the request, then, unless capped, the rest of the request.
  const request = start + 4;
  if ((flags & NLM_F_ACK_TLVS) === 0 || end - request < HEADER_LENGTH) return new NetlinkError(errno, undefined);
  const length = (flags & NLM_F_CAPPED) === 0 ? buffer.readUInt32LE(request) : HEADER_LENGTH;
  if (length > end - request) return new NetlinkError(errno, undefined);
  const from = request + align(length);
  try {
    const offset = findAttribute(buffer, from, end, NLMSGERR_ATTR_OFFS, 4);
    return new NetlinkError(errno, saidBy(buffer, from, end), offset < 0 ? undefined : buffer.readUInt32LE(offset));
  } catch (error) {
    // The attributes only explain the error.
    if (error instanceof RangeError) return new NetlinkError(errno, undefined);
    throw error;
  }
}

function saidBy(buffer: Buffer, start: number, end: number): string | undefined {
  const at = findAttribute(buffer, start, end, NLMSGERR_ATTR_MSG);
  if (at < 0) return undefined;
  // NUL-terminated.
  return buffer.toString('utf8', at, at + Math.max(0, valueLength(buffer, at) - 1));
}
