/** Sends the state of the service to systemd: sd_notify(3), a datagram to the socket in NOTIFY_SOCKET. */
import { AF_UNIX, close, SOCK_DGRAM, sendTo, socket } from './libc.ts';

/** Longest path of a Unix socket: sun_path has 108 bytes (sys/un.h). */
const PATH_MAX = 107;

/**
 * struct sockaddr_un: the family in the machine's byte order (little-endian on x86-64 and arm64), then the path. `@name` is in the
 * abstract namespace. Throws RangeError for a path that does not fit.
 */
export function unixAddress(path: string): Uint8Array {
  const name = Buffer.from(path.startsWith('@') ? `\0${path.slice(1)}` : path);
  if (name.length === 0 || name.length > PATH_MAX) throw new RangeError(`invalid path of a socket: ${path}`);
  const address = Buffer.alloc(2 + name.length + (path.startsWith('@') ? 0 : 1));
  address.writeUInt16LE(AF_UNIX, 0);
  name.copy(address, 2);
  return address;
}

/** Sends states such as `READY=1`, one on each line. Throws SystemError or RangeError. */
export function notify(socketPath: string, ...states: string[]): void {
  const descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
  try {
    sendTo(descriptor, Buffer.from(states.join('\n')), unixAddress(socketPath));
  } finally {
    close(descriptor);
  }
}
