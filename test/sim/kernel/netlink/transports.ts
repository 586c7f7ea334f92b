/** Sockets of simulated processes to parts of the simulated kernel. Each call is numbered, and can fail as the kernel's call does. */
import { EAGAIN, EBUSY, EINTR, ENOBUFS, ENOMEM } from '../../../../native/errno.ts';
import { SystemError } from '../../../../native/libc.ts';
import type { NetlinkTransport } from '../../../../native/netlink-socket.ts';
import type { Writer } from '../../../../native/nftables.ts';
import type { SimProcess } from '../../engine/process.ts';
import { choose, EMFILE, EMSGSIZE } from '../failures.ts';
import type { SimSocket } from './socket.ts';

/** Bytes that the kernel's limits for a socket are, for each byte that was asked for (sock.c, SO_RCVBUF). */
const DOUBLED = 2;
/** Bytes of the send buffer that a datagram must leave free (af_netlink.c, netlink_sendmsg). */
const SEND_MARGIN = 32;
const RECEIVE_BUFFER = 1024 * 1024;

/** What the kernel says of a request instead of the truth: an error of the moment. */
export interface Refusal {
  /** The index of the request; -1 for the beginning of a transaction. */
  readonly request: number;
  readonly errno: number;
}

/** What sockets lead to. */
export interface KernelPart {
  /** For people: `IPVS`. */
  readonly name: string;
  /** A socket with a receive buffer of so many bytes. */
  socket(room: number): SimSocket;
  closed(socket: SimSocket): void;
  /** A datagram of a program. With a refusal this request is refused, and of a transaction all are. */
  take(datagram: Uint8Array, socket: SimSocket, by: Writer, refusal?: Refusal): void;
  /** For people: `transaction of 12 requests`, `ask for rules`. */
  summaryOf(datagram: Uint8Array): string;
  refusalOf(datagram: Uint8Array, variant: number): Refusal;
}

export interface TransportOptions {
  /** Bytes of the wanted send buffer, as for `openTransport`. */
  readonly longest: number | undefined;
  /** Bytes of the longest datagram that the machine permits (net.core.wmem_max). */
  readonly longestSent: number;
}

/** A socket, as `openTransport` opens it. It knows its port. */
export function transportTo(
  part: KernelPart,
  process: SimProcess,
  { longest, longestSent }: TransportOptions = { longest: undefined, longestSent: Number.POSITIVE_INFINITY },
): NetlinkTransport & { readonly port: number } {
  const socket = openedSocket(part, process, RECEIVE_BUFFER);
  const room = longest === undefined ? undefined : Math.min(DOUBLED * longest, longestSent) - SEND_MARGIN;
  const forget = process.opened(`netlink socket of ${part.name}`, () => part.closed(socket));
  return {
    port: socket.port,
    ...(room === undefined ? {} : { room }),
    send: (datagram) => send(datagram, { part, process, socket, room }),
    receive: (into) => receive(into, { process, socket, what: `${part.name}: receive`, errors: [ENOBUFS, ENOMEM] }),
    close() {
      forget();
      part.closed(socket);
    },
  };
}

/** `size`: bytes of the wanted receive buffer. */
export function openedSocket(part: KernelPart, process: SimProcess, size: number): SimSocket {
  return process.callSync({
    what: `${part.name}: open a socket`,
    effect: () => part.socket(DOUBLED * size),
    fail(variant): never {
      throw new SystemError('socket', choose([EMFILE, ENOBUFS, ENOMEM], variant));
    },
  });
}

interface Sending {
  readonly part: KernelPart;
  readonly process: SimProcess;
  readonly socket: SimSocket;
  readonly room: number | undefined;
}

/** Errors of the call itself, before the kernel saw the datagram. */
const UNSENT = [ENOBUFS, ENOMEM, EINTR, EMSGSIZE];
/** Errors that the kernel answers to a question, and to a transaction beside that of another generation. */
const UNANSWERED = [EINTR, ENOMEM, EBUSY, EAGAIN];

/** An error of the moment that the kernel answers. */
export function momentary(variant: number): number {
  return choose(UNANSWERED, variant);
}

function send(datagram: Uint8Array, { part, process, socket, room }: Sending): void {
  const by = { pid: process.pid, name: 'slicewire' };
  let isTaken = false;
  const take = (refusal?: Refusal) => part.take(datagram, socket, by, refusal);
  process.callSync({
    what: `${part.name}: ${part.summaryOf(datagram)}`,
    effect() {
      if (room !== undefined && datagram.length > room) throw new SystemError('sendto', EMSGSIZE);
      isTaken = true;
      take();
    },
    fail(variant) {
      // The kernel has done it before sendto returns: then only its answers can be lost.
      if (isTaken) socket.lose(variant % 2 === 0);
      else if (variant % 2 === 0) throw new SystemError('sendto', choose(UNSENT, variant >> 1));
      else take(part.refusalOf(datagram, variant >> 1));
    },
  });
}

interface Receiving {
  readonly process: SimProcess;
  readonly socket: SimSocket;
  readonly what: string;
  readonly errors: readonly number[];
}

/** A datagram that failed after it was received is lost. */
export function receive(into: Uint8Array, { process, socket, what, errors }: Receiving): number {
  return process.callSync({
    what,
    effect: () => socket.receive(into),
    fail(variant): never {
      throw new SystemError('recv', choose(errors, variant) ?? ENOBUFS);
    },
  });
}
