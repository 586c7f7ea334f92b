/**
 * A kernel behind a netlink socket, as far as listings go (af_netlink.c): a socket has one at a time, another one is refused with EBUSY,
 * and each part but the first two is made when an earlier one is received. Nothing waits: without an answer, `receive` fails with EAGAIN.
 */
import { EAGAIN, EBUSY } from '../../../native/errno.ts';
import { SystemError } from '../../../native/libc.ts';
import {
  decodeMessages,
  encodeMessage,
  type Message,
  NLM_F_DUMP,
  NLMSG_DONE,
  NLMSG_ERROR,
} from '../../../native/netlink.ts';
import type { NetlinkTransport } from '../../../native/netlink-socket.ts';

/** The answer of the kernel to a request: the bodies of its messages, for a listing part by part; or the number of an error. */
export type Answer =
  | { readonly kind: 'listing'; readonly parts: readonly (readonly Uint8Array[])[]; readonly error?: number }
  | { readonly kind: 'value'; readonly body: Uint8Array }
  | { readonly kind: 'outcome'; readonly error?: number };

export interface Asked {
  readonly type: number;
  readonly isListing: boolean;
  /** Behind the header. */
  readonly body: Buffer;
}

export interface NetlinkKernelSocket extends NetlinkTransport {
  /** Requests that came while a listing was not at its end. */
  readonly between: number;
  readonly isClosed: boolean;
}

export function netlinkKernel(answer: (asked: Asked) => Answer): NetlinkKernelSocket {
  const queue: Buffer[] = [];
  let listing: Buffer[] = [];
  let between = 0;
  let isClosed = false;
  const outcome = (sequence: number, errno: number) => {
    const body = Buffer.alloc(20);
    body.writeInt32LE(-errno);
    return encodeMessage({ type: NLMSG_ERROR, flags: 0, body: [body] }, sequence);
  };
  const answered = ({ type, flags, sequence, start, end }: Message, datagram: Buffer) => {
    if (listing.length > 0) between += 1;
    const isListing = (flags & NLM_F_DUMP) === NLM_F_DUMP;
    if (isListing && listing.length > 0) return void queue.push(outcome(sequence, EBUSY));
    const given = answer({ type, isListing, body: datagram.subarray(start, end) });
    if (given.kind === 'outcome') return void queue.push(outcome(sequence, given.error ?? 0));
    const message = (body: Uint8Array) => encodeMessage({ type, flags: 0, body: [body] }, sequence);
    if (given.kind === 'value') return void queue.push(message(given.body), outcome(sequence, 0));
    const ending = Buffer.alloc(4);
    ending.writeInt32LE(-(given.error ?? 0));
    listing = given.parts.map((part) => Buffer.concat(part.map(message)));
    listing.push(encodeMessage({ type: NLMSG_DONE, flags: 0, body: [ending] }, sequence));
    queue.push(listing.shift() ?? Buffer.alloc(0));
  };
  return {
    get between() {
      return between;
    },
    get isClosed() {
      return isClosed;
    },
    send(datagram) {
      const bytes = Buffer.from(datagram);
      for (const message of decodeMessages(bytes, bytes.length)) answered(message, bytes);
    },
    receive(into) {
      const datagram = queue.shift();
      if (datagram === undefined) throw new SystemError('recv', EAGAIN);
      const next = listing.shift();
      if (next !== undefined) queue.push(next);
      into.set(datagram.subarray(0, into.length));
      return datagram.length;
    },
    close() {
      isClosed = true;
    },
  };
}
