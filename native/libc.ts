/**
 * The C library: the one file that knows of foreign functions (design 7). `node:ffi` is experimental, so nothing above
 * this file may depend on how it is called. Constants and layouts are those of Linux, the same on x86-64 and arm64.
 */
import { dlopen, getInt32 } from 'node:ffi';
import { getSystemErrorMap } from 'node:util';

/** sys/socket.h */
export const AF_UNIX = 1;
export const SOCK_DGRAM = 2;
export const SOCK_CLOEXEC = 0o2000000;
export const MSG_DONTWAIT = 0x40;
export const MSG_NOSIGNAL = 0x4000;

const { functions: libc } = dlopen('libc.so.6', {
  socket: { return: 'int32', arguments: ['int32', 'int32', 'int32'] },
  bind: { return: 'int32', arguments: ['int32', 'buffer', 'uint32'] },
  sendto: { return: 'int64', arguments: ['int32', 'buffer', 'uint64', 'int32', 'buffer', 'uint32'] },
  recv: { return: 'int64', arguments: ['int32', 'buffer', 'uint64', 'int32'] },
  close: { return: 'int32', arguments: ['int32'] },
  __errno_location: { return: 'pointer', arguments: [] },
});

/** A call of the C library failed; `errno` is its number, the message its name and meaning. */
export class SystemError extends Error {
  readonly code = 'SYSTEM';
  readonly errno: number;

  constructor(call: string, errno: number) {
    const [name, meaning] = getSystemErrorMap().get(-errno) ?? [`errno ${errno}`, 'unknown'];
    super(`${call}: ${name}: ${meaning}`);
    this.errno = errno;
  }
}

/** Open a socket; returns its descriptor. Throws SystemError. */
export function socket(domain: number, type: number, protocol: number): number {
  return checked('socket', libc.socket(domain, type | SOCK_CLOEXEC, protocol));
}

export function bind(descriptor: number, address: Uint8Array): void {
  checked('bind', libc.bind(descriptor, address, address.length));
}

/** Send one datagram; returns the number of bytes. Throws SystemError. */
export function sendTo(descriptor: number, data: Uint8Array, address: Uint8Array): number {
  const sent = libc.sendto(descriptor, data, BigInt(data.length), MSG_NOSIGNAL, address, address.length);
  return checked('sendto', Number(sent));
}

/** Receive one datagram into the buffer without waiting; returns the number of bytes. Throws SystemError (EAGAIN when there is none). */
export function receive(descriptor: number, into: Uint8Array): number {
  return checked('recv', Number(libc.recv(descriptor, into, BigInt(into.length), MSG_DONTWAIT)));
}

export function close(descriptor: number): void {
  checked('close', libc.close(descriptor));
}

/** errno is read at once: any other call may change it. */
function checked(call: string, result: number): number {
  if (result >= 0) return result;
  throw new SystemError(call, getInt32(libc.__errno_location(), 0));
}
