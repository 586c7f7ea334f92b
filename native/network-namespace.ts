/** The network namespace of this process, and one beside it. */
import { openSync } from 'node:fs';
import {
  AF_NETLINK,
  close,
  enterNetwork,
  exitNow,
  getSocketOption,
  leaveNetwork,
  SOCK_RAW,
  SOL_SOCKET,
  socket,
} from './libc.ts';

/** The number of a socket's network namespace (asm-generic/socket.h). */
export const SO_NETNS_COOKIE = 71;

/** No other network namespace gets this number until the next boot (net_namespace.c). Throws SystemError: ENOPROTOOPT before 5.14. */
export function namespaceCookie(): bigint {
  const descriptor = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  try {
    const cookie = Buffer.alloc(8);
    getSocketOption(descriptor, SOL_SOCKET, SO_NETNS_COOKIE, cookie);
    return cookie.readBigUInt64LE();
  } finally {
    close(descriptor);
  }
}

/** Every kernel with a network has this family (linux/netlink.h). */
const NETLINK_ROUTE = 0;

/** The namespace of this thread: the main one, on which all of JavaScript runs. */
const OF_THREAD = '/proc/thread-self/ns/net';

/** A network namespace that lasts as long as this object is open, or a socket in it. */
export class OtherNetwork {
  /** Of the namespace of this process. */
  readonly own: number;
  readonly #other: number;
  #isClosed = false;

  /** Throws SystemError, with EPERM without CAP_SYS_ADMIN. */
  constructor() {
    this.own = openSync(OF_THREAD, 'r');
    try {
      leaveNetwork();
      try {
        this.#other = openSync(OF_THREAD, 'r');
      } finally {
        this.#return();
      }
    } catch (error) {
      close(this.own);
      throw error;
    }
  }

  /**
   * Works in the other namespace. Sockets belong to the namespace in which they were opened, so `work` may open some, and must call nothing that
   * another thread does, or that is done later. Throws SystemError, and what `work` throws.
   */
  inside<T>(work: () => T): T {
    // The number of a closed descriptor may be another file's.
    if (this.#isClosed) throw new Error('this network namespace is closed');
    enterNetwork(this.#other);
    try {
      return work();
    } finally {
      this.#return();
    }
  }

  /** A process that stayed in the other namespace would program that one. */
  #return(): void {
    try {
      enterNetwork(this.own);
    } catch (error) {
      process.stderr.write(`cannot return to the node's network namespace: ${String(error)}\n`);
      exitNow(1);
    }
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    close(this.#other);
    close(this.own);
  }
}
