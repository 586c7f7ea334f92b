/** The network namespace of this process. */
import { AF_NETLINK, close, getSocketOption, SOCK_RAW, SOL_SOCKET, socket } from './libc.ts';

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
