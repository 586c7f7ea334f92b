/** Calls of the C library that only the benchmark needs: waiting for a socket, connecting, accepting, to the microsecond. */
import { EAGAIN, EINTR } from '../../native/errno.ts';
import { AF_INET, SOCK_CLOEXEC, SystemError } from '../../native/libc.ts';

/** poll.h */
const POLLIN = 1;
const ECONNABORTED = 103;
/** bits/socket.h, bits/socket_type.h */
export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
export const SOCK_NONBLOCK = 0o4000;
const SOL_SOCKET = 1;
const SO_LINGER = 13;
const SO_RCVTIMEO = 20;
const SO_SNDTIMEO = 21;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;

const { dlopen, getInt32 } = process.getBuiltinModule('node:ffi');
const { functions: libc } = dlopen('libc.so.6', {
  poll: { return: 'int32', arguments: ['buffer', 'uint64', 'int32'] },
  connect: { return: 'int32', arguments: ['int32', 'buffer', 'uint32'] },
  listen: { return: 'int32', arguments: ['int32', 'int32'] },
  accept4: { return: 'int32', arguments: ['int32', 'pointer', 'pointer', 'int32'] },
  send: { return: 'int64', arguments: ['int32', 'buffer', 'uint64', 'int32'] },
  recv: { return: 'int64', arguments: ['int32', 'buffer', 'uint64', 'int32'] },
  recvfrom: { return: 'int64', arguments: ['int32', 'buffer', 'uint64', 'int32', 'buffer', 'buffer'] },
  setsockopt: { return: 'int32', arguments: ['int32', 'int32', 'int32', 'buffer', 'uint32'] },
  __errno_location: { return: 'pointer', arguments: [] },
});

function errno(): number {
  return getInt32(libc.__errno_location(), 0);
}

/** struct pollfd: descriptor, events, what came of them. */
const waited = Buffer.alloc(8);

/** Hold this thread until there is something to receive, an error included; false when nothing came within the milliseconds. */
export function waitToReceive(descriptor: number, milliseconds: number): boolean {
  waited.writeInt32LE(descriptor, 0);
  waited.writeInt16LE(POLLIN, 4);
  const ready = libc.poll(waited, 1n, milliseconds);
  if (ready >= 0) return ready > 0;
  const number = errno();
  if (number === EINTR) return false;
  throw new SystemError('poll', number);
}

/** Begin a connection; `address` is a struct sockaddr. Returns 0 or the errno: EINPROGRESS of a socket that does not block. */
export function connect(descriptor: number, address: Uint8Array): number {
  return libc.connect(descriptor, address, address.length) === 0 ? 0 : errno();
}

/** `backlog`: connections that wait to be accepted, at most net.core.somaxconn. Throws SystemError. */
export function listen(descriptor: number, backlog: number): void {
  if (libc.listen(descriptor, backlog) !== 0) throw new SystemError('listen', errno());
}

/** A connection's descriptor; undefined when none waits. Throws SystemError. */
export function accept(descriptor: number): number | undefined {
  const accepted = libc.accept4(descriptor, 0n, 0n, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted >= 0) return accepted;
  const number = errno();
  if (number === EAGAIN || number === ECONNABORTED) return undefined;
  throw new SystemError('accept', number);
}

/** struct linger: on, no seconds. */
const AT_ONCE = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]);

/** From now on closing it sends a reset, and leaves no port in TIME_WAIT. Throws SystemError. */
export function resetAtClose(descriptor: number): void {
  setOption(descriptor, SO_LINGER, AT_ONCE);
}

/** Connecting, sending and receiving of a socket that blocks are given up after so long: EINPROGRESS, EAGAIN. Throws SystemError. */
export function giveUpAfter(descriptor: number, milliseconds: number): void {
  // struct timeval
  const time = Buffer.alloc(16);
  time.writeBigInt64LE(BigInt(Math.floor(milliseconds / 1000)), 0);
  time.writeBigInt64LE(BigInt((milliseconds % 1000) * 1000), 8);
  for (const option of [SO_SNDTIMEO, SO_RCVTIMEO]) setOption(descriptor, option, time);
}

function setOption(descriptor: number, option: number, value: Uint8Array): void {
  if (libc.setsockopt(descriptor, SOL_SOCKET, option, value, value.length) < 0)
    throw new SystemError('setsockopt', errno());
}

/** Returns how many bytes the kernel took. Throws SystemError. */
export function send(descriptor: number, bytes: Uint8Array): number {
  const sent = Number(libc.send(descriptor, bytes, BigInt(bytes.length), MSG_NOSIGNAL));
  if (sent < 0) throw new SystemError('send', errno());
  return sent;
}

/** Waits for bytes as long as the socket does; returns their number. Throws SystemError, EAGAIN when none came. */
export function receiveSoon(descriptor: number, into: Uint8Array): number {
  const received = Number(libc.recv(descriptor, into, BigInt(into.length), 0));
  if (received < 0) throw new SystemError('recv', errno());
  return received;
}

const sender = Buffer.alloc(16);
const senderLength = Buffer.alloc(4);

/** The sender of a datagram that was there, valid until the next call; undefined when there is none. Throws SystemError. */
export function receiveFrom(descriptor: number, into: Uint8Array): Uint8Array | undefined {
  senderLength.writeUInt32LE(sender.length);
  const received = libc.recvfrom(descriptor, into, BigInt(into.length), MSG_DONTWAIT, sender, senderLength);
  if (received >= 0) return sender;
  const number = errno();
  if (number === EAGAIN) return undefined;
  throw new SystemError('recvfrom', number);
}

/** Bytes that were there; 0 at the end, undefined when there are none yet. Throws SystemError. */
export function receiveNow(descriptor: number, into: Uint8Array): number | undefined {
  const received = Number(libc.recv(descriptor, into, BigInt(into.length), MSG_DONTWAIT));
  if (received >= 0) return received;
  const number = errno();
  if (number === EAGAIN) return undefined;
  throw new SystemError('recv', number);
}

/** struct sockaddr_in */
export function socketAddress(address: string, port: number): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeUInt16LE(AF_INET, 0);
  bytes.writeUInt16BE(port, 2);
  Buffer.from(address.split('.').map(Number)).copy(bytes, 4);
  return bytes;
}
