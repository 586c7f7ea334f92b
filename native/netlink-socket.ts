/**
 * A netlink socket: it numbers requests, and matches every answer to its request.
 *
 * It never waits: the kernel answers a request before `sendto` returns, and makes the next part of a listing while the last one
 * is received (af_netlink.c, netlink_dump). So a missing answer is an error.
 */
import { EAGAIN, EPERM, errnoOf } from './errno.ts';
import {
  AF_NETLINK,
  addressOf,
  attachFilter,
  bind,
  close,
  getSocketOption,
  type Instruction,
  receive,
  SOCK_RAW,
  SOL_SOCKET,
  SystemError,
  sendTo,
  setSocketOption,
  signalOnData,
  socket,
} from './libc.ts';
import {
  decodeError,
  decodeMessages,
  encodeMessage,
  encodeMessages,
  type Message,
  NetlinkError,
  type NetlinkRequest,
  NLM_F_ACK,
  NLM_F_DUMP,
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  NLMSG_ERROR,
} from './netlink.ts';

export const SOL_NETLINK = 270;
export const NETLINK_ADD_MEMBERSHIP = 1;
export const NETLINK_CAP_ACK = 10;
export const NETLINK_EXT_ACK = 11;
/** The size of the receive buffer, within net.core.rmem_max, and of the send buffer, within net.core.wmem_max (socket(7)). */
export const SO_RCVBUF = 8;
export const SO_SNDBUF = 7;
/** The same without these limits; needs NET_ADMIN in the first user namespace (sock.c, sk_setsockopt). */
export const SO_RCVBUFFORCE = 33;
/** struct sockaddr_nl of the kernel: port 0, no groups. */
const KERNEL = Buffer.from([AF_NETLINK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
/** Bytes of the receive buffer. The kernel makes the parts of a listing as large as it, up to 32 KiB (af_netlink.c, netlink_dump). */
const PART = 32 * 1024;
/** Requests in one send: an error for each of them must fit into the socket's receive buffer, at about 800 bytes. */
export const MAX_REQUESTS = 400;
const RECEIVE_BUFFER = 1024 * 1024;
/** Calls that may fail while the rest of a listing is read for its reader. */
const MAX_FAILURES = 16;

/** The seam to the kernel: one datagram out, one in. */
export interface NetlinkTransport {
  send(datagram: Uint8Array): void;
  /** Returns the length of the datagram; throws SystemError when there is none. */
  receive(into: Uint8Array): number;
  close(): void;
  /** Bytes of the longest datagram that can be sent, when `longest` was given. */
  readonly room?: number;
  /** The socket's number in its network namespace: messages about what it writes have it (nlmsg_pid). */
  readonly port?: number;
}

/** A socket that gets what the kernel sends to a multicast group. */
export interface MulticastSocket extends NetlinkTransport {
  /** Calls whenever something may have arrived; the result ends it. Quiet sockets cost nothing. Throws SystemError. */
  onData(call: () => void): () => void;
}

export const SO_SNDBUFFORCE = 32;
/** Bytes of the send buffer that a datagram must leave free (af_netlink.c, netlink_sendmsg: EMSGSIZE). */
const SEND_MARGIN = 32;

/**
 * Opens a socket of a netlink family, such as NETLINK_NETFILTER. `longest` is the wanted length of the longest datagram in bytes;
 * `room` of the transport is the length that the system grants. Throws SystemError.
 */
export function openTransport(protocol: number, longest?: number): NetlinkTransport {
  const descriptor = socket(AF_NETLINK, SOCK_RAW, protocol);
  try {
    setSocketOption(descriptor, SOL_NETLINK, NETLINK_EXT_ACK, 1);
    setSocketOption(descriptor, SOL_NETLINK, NETLINK_CAP_ACK, 1);
    grow(descriptor, RECEIVE, RECEIVE_BUFFER);
    if (longest !== undefined) grow(descriptor, SEND, longest);
    bind(descriptor, KERNEL);
  } catch (error) {
    close(descriptor);
    throw error;
  }
  const room = longest === undefined ? undefined : sendBuffer(descriptor) - SEND_MARGIN;
  return {
    ...(room === undefined ? {} : { room }),
    port: portOf(descriptor),
    send: (datagram) => {
      sendTo(descriptor, datagram, KERNEL);
    },
    receive: (into) => receive(descriptor, into),
    close: () => close(descriptor),
  };
}

/** The number that the kernel gave the socket (struct sockaddr_nl, nl_pid). Throws SystemError. */
function portOf(descriptor: number): number {
  const address = Buffer.alloc(KERNEL.length);
  addressOf(descriptor, address);
  return address.readUInt32LE(4);
}

/**
 * Opens a socket that gets what the kernel sends to a multicast group, such as NFNLGRP_NFTRACE. `bytes` is the size of its receive
 * buffer: the kernel drops what does not fit, and the next `receive` throws ENOBUFS. With `not`, the socket gets no messages about what
 * the socket of that port writes, but for those of one type. Throws SystemError.
 */
export function openListener(protocol: number, group: number, bytes: number, not?: LeftOut): MulticastSocket {
  const descriptor = socket(AF_NETLINK, SOCK_RAW, protocol);
  try {
    grow(descriptor, RECEIVE, bytes);
    if (not !== undefined) attachFilter(descriptor, filterOf(not));
    // A socket without a port gets no multicast (af_netlink.c, do_one_broadcast). Port 0 asks the kernel for a free one.
    bind(descriptor, KERNEL);
    setSocketOption(descriptor, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group);
  } catch (error) {
    close(descriptor);
    throw error;
  }
  return {
    send: (datagram) => {
      sendTo(descriptor, datagram, KERNEL);
    },
    receive: (into) => receive(descriptor, into),
    onData(call) {
      process.on('SIGURG', call);
      signalOnData(descriptor);
      return () => process.off('SIGURG', call);
    },
    close: () => close(descriptor),
  };
}

/** The messages about what one socket writes, but for those of the type `but`. */
export interface LeftOut {
  readonly port: number;
  readonly but: number;
}

/** Accept every message of another port; of this port those of the type (linux/bpf_common.h). A datagram has messages of one port. */
function filterOf({ port, but }: LeftOut): Instruction[] {
  // BPF loads in network order, and netlink's header is in the machine's.
  const word = Buffer.alloc(4);
  word.writeUInt32LE(port);
  const type = ((but & 0xff) << 8) | (but >> 8);
  return [
    { code: 0x20, yes: 0, no: 0, value: 12 },
    { code: 0x15, yes: 0, no: 2, value: word.readUInt32BE() },
    { code: 0x28, yes: 0, no: 0, value: 4 },
    { code: 0x15, yes: 0, no: 1, value: type },
    { code: 0x06, yes: 0, no: 0, value: 0xffff_ffff },
    { code: 0x06, yes: 0, no: 0, value: 0 },
  ];
}

const RECEIVE = { forced: SO_RCVBUFFORCE, limited: SO_RCVBUF } as const;
const SEND = { forced: SO_SNDBUFFORCE, limited: SO_SNDBUF } as const;

/** Sets the size of a buffer. In a user namespace, where root may not exceed the system's limit, it grows to that limit. */
function grow(descriptor: number, { forced, limited }: typeof RECEIVE | typeof SEND, size: number): void {
  try {
    setSocketOption(descriptor, SOL_SOCKET, forced, size);
  } catch (error) {
    if (!(error instanceof SystemError && error.errno === EPERM)) throw error;
    setSocketOption(descriptor, SOL_SOCKET, limited, size);
  }
}

/** The size of the send buffer in bytes. */
function sendBuffer(descriptor: number): number {
  const value = Buffer.alloc(4);
  getSocketOption(descriptor, SOL_SOCKET, SO_SNDBUF, value);
  return value.readInt32LE();
}

/** One part of a listing: messages in a buffer that the next part overwrites. */
export interface ListingPart {
  readonly buffer: Buffer;
  readonly messages: readonly Message[];
}

/** The kernel sent an answer without content, or a truncated one. */
export class NetlinkProtocolError extends Error {
  readonly code = 'NETLINK_PROTOCOL';
}

/** A listing whose reader has not come to its end. */
interface OpenListing {
  readonly sequence: number;
  /** Parts that were read before the reader asked for them. */
  readonly ahead: ListingPart[];
  /** Why the rest could not be read. */
  failure: { readonly cause: unknown } | undefined;
  hasChanged: boolean;
  /** The kernel has nothing more of it. */
  isDone: boolean;
  /** Its reader wants no more of it. */
  isLeft: boolean;
}

/**
 * Requests and listings over a transport. The kernel carries out one listing of a socket at a time (af_netlink.c,
 * __netlink_dump_start: EBUSY), and each answer that is read makes the next part of it. So a request that comes in the middle of a
 * listing waits until the rest of the listing is read: its reader gets that from memory.
 */
export class NetlinkSocket {
  readonly #transport: NetlinkTransport;
  #buffer = Buffer.alloc(PART);
  #sequence = 0;
  #listing: OpenListing | undefined;

  constructor(transport: NetlinkTransport) {
    this.#transport = transport;
  }

  close(): void {
    this.#transport.close();
  }

  /** Bytes of the longest datagram that can be sent; undefined when the socket was opened without `longest`. */
  get room(): number | undefined {
    return this.#transport.room;
  }

  /**
   * Sends up to MAX_REQUESTS requests together; returns the outcome of each, in their order, undefined for success. The kernel
   * carries them out one after another. It answers each failure, and always the last request, which completes the answers.
   * Throws SystemError when they cannot be sent.
   */
  acknowledge(requests: readonly NetlinkRequest[]): (NetlinkError | undefined)[] {
    if (requests.length > MAX_REQUESTS) throw new RangeError(`${requests.length} requests at once`);
    if (requests.length === 0) return [];
    const first = this.#sequence + 1;
    const last = requests.length - 1;
    this.#endListing();
    this.#transport.send(encodeMessages(requests, first));
    this.#sequence += requests.length;
    const results: (NetlinkError | undefined)[] = new Array(requests.length).fill(undefined);
    for (let isHeard = false; !isHeard; ) {
      for (const message of this.#receive()) {
        const at = message.sequence - first;
        // An answer to an earlier request.
        if (at < 0 || at > last || message.type !== NLMSG_ERROR) continue;
        results[at] = decodeError(this.#buffer, message);
        isHeard ||= at === last;
      }
    }
    return results;
  }

  /**
   * Sends requests as a batch: between `begin` and `end`, all or none are carried out. Returns the outcome of each request, in
   * their order. Throws the error of `begin`, and SystemError, with ENOBUFS when the receive buffer was too small for the errors.
   */
  batch(begin: NetlinkRequest, requests: readonly NetlinkRequest[], end: NetlinkRequest): (NetlinkError | undefined)[] {
    if (requests.length === 0) return [];
    const first = this.#sequence + 2;
    const last = requests.length - 1;
    this.#endListing();
    // The kernel acknowledges `end` only since Linux 6.10, so the last request asks for the acknowledgement.
    this.#transport.send(encodeMessages([begin, ...requests, end], first - 1, requests.length));
    this.#sequence += requests.length + 2;
    const results: (NetlinkError | undefined)[] = new Array(requests.length).fill(undefined);
    for (let isHeard = false; !isHeard; ) {
      for (const message of this.#receive()) {
        if (message.type !== NLMSG_ERROR) continue;
        const at = message.sequence - first;
        const error = decodeError(this.#buffer, message);
        if (at === -1 && error !== undefined) throw error;
        if (at < 0 || at > last) continue;
        results[at] = error;
        isHeard ||= at === last;
      }
    }
    return results;
  }

  /** Sends a request, and reads its only answer. Throws NetlinkError when the kernel refuses. */
  ask<T>(request: NetlinkRequest, read: (buffer: Buffer, message: Message) => T): T {
    this.#endListing();
    this.#transport.send(this.#encode({ ...request, flags: request.flags | NLM_F_ACK }));
    const sequence = this.#sequence;
    let answer: { readonly value: T } | undefined;
    for (;;) {
      for (const message of this.#receive()) {
        if (message.sequence !== sequence) continue;
        if (message.type !== NLMSG_ERROR) {
          answer = { value: read(this.#buffer, message) };
          continue;
        }
        const error = decodeError(this.#buffer, message);
        if (error !== undefined) throw error;
        if (answer === undefined)
          throw new NetlinkProtocolError('the kernel acknowledged the request without an answer');
        return answer.value;
      }
    }
  }

  /** A listing as values, part by part, without those for which `decode` returns undefined. Returns and throws as `list`. */
  *decoded<T>(
    request: NetlinkRequest,
    decode: (buffer: Buffer, message: Message) => T | undefined,
  ): Generator<readonly T[], boolean> {
    const parts = this.list(request);
    try {
      for (;;) {
        const next = parts.next();
        if (next.done === true) return next.value;
        const { buffer, messages } = next.value;
        const found: T[] = [];
        for (const message of messages) {
          const value = decode(buffer, message);
          if (value !== undefined) found.push(value);
        }
        yield found;
      }
    } finally {
      parts.return(false);
    }
  }

  /**
   * A listing: yields its messages part by part, and returns whether the table changed meanwhile, so that an entry may be
   * missing. The kernel goes on only when the next part is read. Throws NetlinkError when it refuses.
   */
  *list(request: NetlinkRequest): Generator<ListingPart, boolean> {
    this.#endListing();
    this.#transport.send(this.#encode({ ...request, flags: request.flags | NLM_F_DUMP }));
    const listing: OpenListing = {
      sequence: this.#sequence,
      ahead: [],
      failure: undefined,
      hasChanged: false,
      isDone: false,
      isLeft: false,
    };
    this.#listing = listing;
    try {
      for (;;) {
        const part = listing.ahead.shift() ?? (listing.isDone ? undefined : this.#partOf(listing));
        if (part === undefined) break;
        if (part.messages.length > 0) yield part;
      }
    } finally {
      listing.isLeft = true;
      if (listing.isDone && this.#listing === listing) this.#listing = undefined;
    }
    if (listing.failure !== undefined) throw listing.failure.cause;
    return listing.hasChanged;
  }

  /**
   * Read the next part of a listing. Throws NetlinkError when the kernel refuses; then nothing more comes. When a call fails, the kernel
   * goes on with the listing, and refuses others with EBUSY until the rest is read.
   */
  #partOf(listing: OpenListing): ListingPart {
    try {
      const entries: Message[] = [];
      for (const message of this.#receive()) {
        if (message.sequence !== listing.sequence) continue;
        if ((message.flags & NLM_F_DUMP_INTR) !== 0) listing.hasChanged = true;
        if (message.type === NLMSG_DONE || message.type === NLMSG_ERROR) {
          const error = decodeError(this.#buffer, message);
          if (error !== undefined) throw error;
          listing.isDone = true;
        } else entries.push(message);
      }
      return { buffer: this.#buffer, messages: entries };
    } catch (error) {
      listing.isDone = error instanceof NetlinkError || errnoOf(error) === EAGAIN;
      throw error;
    }
  }

  /** Read the rest of a listing that is in the middle, for its reader. */
  #endListing(): void {
    const listing = this.#listing;
    if (listing === undefined) return;
    this.#listing = undefined;
    // The reader may still look at the last part.
    this.#buffer = Buffer.alloc(PART);
    for (let failures = 0; !listing.isDone && failures < MAX_FAILURES; ) {
      try {
        const part = this.#partOf(listing);
        if (listing.isLeft || listing.failure !== undefined) continue;
        listing.ahead.push(part);
        this.#buffer = Buffer.alloc(PART);
      } catch (cause) {
        listing.failure ??= { cause };
        failures += 1;
      }
    }
    listing.isDone = true;
  }

  #encode(request: NetlinkRequest): Buffer {
    this.#sequence += 1;
    return encodeMessage(request, this.#sequence);
  }

  #receive(): Message[] {
    const length = this.#transport.receive(this.#buffer);
    if (length > this.#buffer.length) throw new NetlinkProtocolError(`an answer of ${length} bytes was truncated`);
    return [...decodeMessages(this.#buffer, length)];
  }
}
