/** Sockets of simulated processes to the simulated nftables. Each call is numbered, and can fail as the kernel's call does. */
import { EAGAIN, EBUSY, EINTR, ENOBUFS, ENOMEM, EPROTONOSUPPORT, ERESTART } from '../../../../native/errno.ts';
import { SystemError } from '../../../../native/libc.ts';
import type { NetlinkTransport, openTransport } from '../../../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../../../native/nfnetlink.ts';
import {
  NFT_MSG_GETRULE,
  NFT_MSG_GETSET,
  NFT_MSG_GETSETELEM,
  NFT_MSG_GETTABLE,
} from '../../../../native/nft/constants.ts';
import { NFT_MSG_GETCHAIN, NFT_MSG_GETGEN } from '../../../../native/nftables.ts';
import type { SimProcess } from '../../engine/process.ts';
import { type Asked, EMSGSIZE, isTransaction, requestsIn } from './format.ts';
import type { NftKernelState, Refusal } from './kernel.ts';
import type { SimSocket } from './socket.ts';

const EMFILE = 24;
/** Bytes that the kernel's limits for a socket are, for each byte that was asked for (sock.c, SO_RCVBUF). */
const DOUBLED = 2;
/** Bytes of the send buffer that a datagram must leave free (af_netlink.c, netlink_sendmsg). */
const SEND_MARGIN = 32;
const RECEIVE_BUFFER = 1024 * 1024;
const NOTICES_BUFFER = 2 * 1024 * 1024;
/** Milliseconds until the signal that something arrived is handled. */
const SIGNAL = 1;

/** A socket of the multicast group of nftables. */
export interface SimListener extends NetlinkTransport {
  /** Calls soon after something arrived; the result ends it. */
  onData(call: () => void): () => void;
}

export interface TransportOptions {
  /** Bytes of the longest datagram that the machine permits (net.core.wmem_max). */
  readonly longestSent: number;
}

/** Opens sockets as `openTransport`. They know their ports. */
export function transportsOf(
  kernel: NftKernelState,
  process: SimProcess,
  { longestSent }: TransportOptions,
): (...how: Parameters<typeof openTransport>) => NetlinkTransport & { readonly port: number } {
  return (protocol, longest) => {
    if (protocol !== NETLINK_NETFILTER) throw new SystemError('socket', EPROTONOSUPPORT);
    const socket = opened(kernel, process, DOUBLED * RECEIVE_BUFFER);
    const room = longest === undefined ? undefined : Math.min(DOUBLED * longest, longestSent) - SEND_MARGIN;
    const forget = process.opened('netlink socket', () => kernel.closed(socket));
    return {
      port: socket.port,
      ...(room === undefined ? {} : { room }),
      send: (datagram) => send(datagram, { kernel, process, socket, room }),
      receive: (into) => receive(into, { process, socket, what: 'nftables: receive', errors: [ENOBUFS, ENOMEM] }),
      close() {
        forget();
        kernel.closed(socket);
      },
    };
  };
}

/** Opens a listener; `own`: the port whose writes it does not hear about, but for their generations. */
export function listenerOf(kernel: NftKernelState, process: SimProcess, own?: number): SimListener {
  const socket = opened(kernel, process, DOUBLED * NOTICES_BUFFER);
  const member = { socket, not: own };
  kernel.members.add(member);
  let cancel: (() => void) | undefined;
  const end = () => {
    kernel.members.delete(member);
    cancel?.();
  };
  const forget = process.opened('nftables listener', end);
  return {
    send: () => undefined,
    receive: (into) => receive(into, { process, socket, what: 'nftables: notices', errors: [ENOBUFS] }),
    onData(call) {
      socket.onData(() => {
        cancel ??= process.time.after(
          SIGNAL,
          () => {
            cancel = undefined;
            call();
          },
          process,
        );
      });
      return () => socket.onData(() => undefined);
    },
    close() {
      forget();
      end();
    },
  };
}

function opened(kernel: NftKernelState, process: SimProcess, room: number): SimSocket {
  return process.callSync({
    what: 'nftables: open a socket',
    effect: () => kernel.socket(room),
    fail(variant): never {
      throw new SystemError('socket', chosen([EMFILE, ENOBUFS, ENOMEM], variant));
    },
  });
}

interface Sending {
  readonly kernel: NftKernelState;
  readonly process: SimProcess;
  readonly socket: SimSocket;
  readonly room: number | undefined;
}

/** Errors of the call itself, before the kernel saw the datagram. */
const UNSENT = [ENOBUFS, ENOMEM, EINTR, EMSGSIZE];
/** Errors that the kernel answers to a question, and to a transaction beside that of another generation. */
const UNANSWERED = [EINTR, ENOMEM, EBUSY, EAGAIN];

function send(datagram: Uint8Array, { kernel, process, socket, room }: Sending): void {
  const requests = requestsIn(datagram);
  const by = { pid: process.pid, name: 'slicewire' };
  let isTaken = false;
  const take = (refusal?: Refusal) => kernel.take(datagram, socket, by, refusal);
  process.callSync({
    what: `nftables: ${summaryOf(requests)}`,
    effect() {
      if (room !== undefined && datagram.length > room) throw new SystemError('sendto', EMSGSIZE);
      isTaken = true;
      take();
    },
    fail(variant) {
      // The kernel has done it before sendto returns: then only its answers can be lost.
      if (isTaken) socket.lose(variant % 2 === 0);
      else if (variant % 2 === 0) throw new SystemError('sendto', chosen(UNSENT, variant >> 1));
      else take(refusalOf(requests, variant >> 1));
    },
  });
}

function refusalOf(requests: readonly Asked[], variant: number): Refusal {
  const isBatch = isTransaction(requests);
  if (isBatch && variant % 2 === 0) return { request: -1, errno: ERESTART };
  const writes = Math.max(1, requests.length - 2);
  return { request: isBatch ? (variant >> 1) % writes : 0, errno: chosen(UNANSWERED, variant >> 1) };
}

interface Receiving {
  readonly process: SimProcess;
  readonly socket: SimSocket;
  readonly what: string;
  readonly errors: readonly number[];
}

/** A datagram that failed after it was received is lost. */
function receive(into: Uint8Array, { process, socket, what, errors }: Receiving): number {
  return process.callSync({
    what,
    effect: () => socket.receive(into),
    fail(variant): never {
      throw new SystemError('recv', chosen(errors, variant));
    },
  });
}

function chosen(errors: readonly number[], variant: number): number {
  return errors[Math.abs(variant) % errors.length] ?? ENOBUFS;
}

const QUESTIONS: Readonly<Record<number, string>> = {
  [NFT_MSG_GETGEN]: 'generation',
  [NFT_MSG_GETTABLE]: 'table',
  [NFT_MSG_GETCHAIN]: 'chains',
  [NFT_MSG_GETRULE]: 'rules',
  [NFT_MSG_GETSET]: 'sets',
  [NFT_MSG_GETSETELEM]: 'elements',
};

/** For people: `transaction of 12 requests`, `ask for rules`. */
function summaryOf(requests: readonly Asked[]): string {
  if (isTransaction(requests)) return `transaction of ${requests.length - 2} requests`;
  return `ask for ${QUESTIONS[requests[0]?.type ?? -1] ?? 'something else'}`;
}
