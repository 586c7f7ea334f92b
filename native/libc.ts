/**
 * The C library: the one file that knows of foreign functions. `node:ffi` is experimental, so nothing above
 * this file may depend on how it is called. Constants and layouts are those of Linux, the same on x86-64 and arm64.
 */
import { EINPROGRESS, errnoText } from './errno.ts';

/** sys/socket.h */
export const AF_UNSPEC = 0;
export const AF_UNIX = 1;
export const AF_INET = 2;
export const AF_INET6 = 10;
export const AF_NETLINK = 16;
export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
export const SOCK_RAW = 3;
export const SOCK_CLOEXEC = 0o2000000;
export const SOCK_NONBLOCK = 0o4000;
export const MSG_TRUNC = 0x20;
export const MSG_DONTWAIT = 0x40;
export const MSG_NOSIGNAL = 0x4000;

const { dlopen, getInt32, getRawPointer } = foreignFunctions();

/**
 * The module without its warning about being experimental: the version of Node.js is pinned, and the warning would be a line on
 * standard error that is no line of the log.
 */
function foreignFunctions(): typeof import('node:ffi') {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return process.getBuiltinModule('node:ffi');
  } finally {
    process.emitWarning = emitWarning;
  }
}

const { functions: libc } = dlopen('libc.so.6', {
  socket: { return: 'int32', arguments: ['int32', 'int32', 'int32'] },
  bind: { return: 'int32', arguments: ['int32', 'buffer', 'uint32'] },
  connect: { return: 'int32', arguments: ['int32', 'buffer', 'uint32'] },
  sendto: { return: 'int64', arguments: ['int32', 'buffer', 'uint64', 'int32', 'buffer', 'uint32'] },
  recv: { return: 'int64', arguments: ['int32', 'buffer', 'uint64', 'int32'] },
  setsockopt: { return: 'int32', arguments: ['int32', 'int32', 'int32', 'buffer', 'uint32'] },
  getsockopt: { return: 'int32', arguments: ['int32', 'int32', 'int32', 'buffer', 'buffer'] },
  getsockname: { return: 'int32', arguments: ['int32', 'buffer', 'buffer'] },
  fcntl: { return: 'int32', arguments: ['int32', 'int32', 'int32'] },
  close: { return: 'int32', arguments: ['int32'] },
  unshare: { return: 'int32', arguments: ['int32'] },
  setns: { return: 'int32', arguments: ['int32', 'int32'] },
  mallopt: { return: 'int32', arguments: ['int32', 'int32'] },
  malloc_trim: { return: 'int32', arguments: ['uint64'] },
  alarm: { return: 'uint32', arguments: ['uint32'] },
  _exit: { return: 'void', arguments: ['int32'] },
  __errno_location: { return: 'pointer', arguments: [] },
});

/** A call of the C library failed. The message has the errno's name and meaning. */
export class SystemError extends Error {
  readonly code = 'SYSTEM';
  readonly errno: number;

  constructor(call: string, errno: number) {
    super(`${call}: ${errnoText(errno)}`);
    this.errno = errno;
  }
}

/** Opens a socket; returns its descriptor. Throws SystemError. */
export function socket(domain: number, type: number, protocol: number): number {
  return checked('socket', libc.socket(domain, type | SOCK_CLOEXEC, protocol));
}

/** Binds a socket to an address, a struct sockaddr. Throws SystemError. */
export function bind(descriptor: number, address: Uint8Array): void {
  checked('bind', libc.bind(descriptor, address, address.length));
}

/** Begins to connect a socket that does not block: the result is the socket's first event (connect(2), EINPROGRESS). Throws SystemError. */
export function beginConnect(descriptor: number, address: Uint8Array): void {
  try {
    checked('connect', libc.connect(descriptor, address, address.length));
  } catch (error) {
    if (!(error instanceof SystemError && error.errno === EINPROGRESS)) throw error;
  }
}

/** struct sockaddr_in, struct sockaddr_in6 (linux/in.h, in6.h): the octets of the address, in network order. */
export function internetAddress(octets: Uint8Array, port: number): Uint8Array {
  const isV4 = octets.length === 4;
  const bytes = Buffer.alloc(isV4 ? SOCKADDR_IN : SOCKADDR_IN6);
  bytes.writeUInt16LE(isV4 ? AF_INET : AF_INET6, 0);
  bytes.writeUInt16BE(port, 2);
  bytes.set(octets, isV4 ? 4 : 8);
  return bytes;
}

/** sizeof struct sockaddr_in, sockaddr_in6 */
export const SOCKADDR_IN = 16;
export const SOCKADDR_IN6 = 28;

/** Sends a datagram; returns its number of bytes. Throws SystemError. */
export function sendTo(descriptor: number, data: Uint8Array, address: Uint8Array): number {
  const sent = libc.sendto(descriptor, data, BigInt(data.length), MSG_NOSIGNAL, address, address.length);
  return checked('sendto', Number(sent));
}

/**
 * Receives a datagram into the buffer without waiting; returns its number of bytes, which exceeds the buffer's when the datagram
 * was truncated. Throws SystemError, with EAGAIN when there is none.
 */
export function receive(descriptor: number, into: Uint8Array): number {
  const flags = MSG_DONTWAIT | MSG_TRUNC;
  return checked('recv', Number(libc.recv(descriptor, into, BigInt(into.length), flags)));
}

/** Sets a socket option whose value is an int. Throws SystemError. */
export function setSocketOption(descriptor: number, level: number, option: number, value: number): void {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  checked('setsockopt', libc.setsockopt(descriptor, level, option, bytes, bytes.length));
}

/** linux/socket.h, asm-generic/socket.h */
export const SOL_SOCKET = 1;
export const SO_ATTACH_FILTER = 26;

/** An instruction of classic BPF (linux/filter.h): `yes` and `no` are the instructions to skip after a comparison. */
export interface Instruction {
  readonly code: number;
  readonly yes: number;
  readonly no: number;
  readonly value: number;
}

/** Attaches a program to a socket; the kernel copies it. Throws SystemError. */
export function attachFilter(descriptor: number, program: readonly Instruction[]): void {
  // struct sock_filter
  const instructions = Buffer.alloc(program.length * 8);
  for (const [i, { code, yes, no, value }] of program.entries()) {
    instructions.writeUInt16LE(code, i * 8);
    instructions.writeUInt8(yes, i * 8 + 2);
    instructions.writeUInt8(no, i * 8 + 3);
    instructions.writeUInt32LE(value, i * 8 + 4);
  }
  // struct sock_fprog
  const bytes = Buffer.alloc(16);
  bytes.writeUInt16LE(program.length, 0);
  bytes.writeBigUInt64LE(getRawPointer(instructions), 8);
  checked('setsockopt', libc.setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, bytes, bytes.length));
}

/**
 * Reads a socket option into the buffer; returns the length of the answer. For some options the buffer is also the question.
 * Throws SystemError.
 */
export function getSocketOption(descriptor: number, level: number, option: number, value: Uint8Array): number {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(value.length);
  checked('getsockopt', libc.getsockopt(descriptor, level, option, value, length));
  return length.readUInt32LE();
}

export const SO_PEERCRED = 17;
/** sizeof struct ucred: pid, uid, gid */
export const UCRED = 12;

/** The process that listens at the other end of a connected Unix socket, as of its listen(2) (unix(7): SO_PEERCRED). */
export interface PeerCredentials {
  /** 0: a process that this pid namespace does not see. */
  readonly pid: number;
  /** As this user namespace sees it: 65534 for a user that it does not have. */
  readonly uid: number;
}

/** Throws SystemError. */
export function peerCredentials(descriptor: number): PeerCredentials {
  const bytes = Buffer.alloc(UCRED);
  getSocketOption(descriptor, SOL_SOCKET, SO_PEERCRED, bytes);
  return { pid: bytes.readInt32LE(0), uid: bytes.readUInt32LE(4) };
}

/** Reads the address of a socket, a struct sockaddr, into the buffer. Throws SystemError. */
export function addressOf(descriptor: number, into: Uint8Array): void {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(into.length);
  checked('getsockname', libc.getsockname(descriptor, into, length));
}

/** asm-generic/fcntl.h, asm-generic/signal.h */
const F_GETFL = 3;
const F_SETFL = 4;
const F_SETOWN = 8;
const F_SETSIG = 10;
const O_ASYNC = 0o20000;
/** Ignored without a handler, so that a late signal does not end the process. */
const SIGURG = 23;

/** From now on the kernel sends this process SIGURG whenever data or an error arrives at the socket (fcntl(2), O_ASYNC). Throws SystemError. */
export function signalOnData(descriptor: number): void {
  checked('fcntl', libc.fcntl(descriptor, F_SETOWN, process.pid));
  checked('fcntl', libc.fcntl(descriptor, F_SETSIG, SIGURG));
  const flags = checked('fcntl', libc.fcntl(descriptor, F_GETFL, 0));
  checked('fcntl', libc.fcntl(descriptor, F_SETFL, flags | O_ASYNC));
}

/** Closes a descriptor. Throws SystemError. */
export function close(descriptor: number): void {
  checked('close', libc.close(descriptor));
}

/** linux/sched.h */
export const CLONE_NEWNET = 0x40000000;

/** From now on this thread is in a new network namespace, of its own (unshare(2)). Throws SystemError, with EPERM without CAP_SYS_ADMIN. */
export function leaveNetwork(): void {
  checked('unshare', libc.unshare(CLONE_NEWNET));
}

/** From now on this thread is in the network namespace of the descriptor (setns(2)). Throws SystemError. */
export function enterNetwork(descriptor: number): void {
  checked('setns', libc.setns(descriptor, CLONE_NEWNET));
}

/** The kernel ends the process after some seconds with SIGALRM, whatever its threads do. It replaces an earlier alarm (alarm(2)). */
export function alarm(seconds: number): void {
  libc.alarm(seconds);
}

/** malloc.h */
const M_ARENA_MAX = -8;

/** At most so many arenas of malloc for the threads that start from now on, beside those that exist (mallopt(3)). Throws when the C library refuses. */
export function shareArenas(most: number): void {
  if (libc.mallopt(M_ARENA_MAX, most) === 0) throw new Error(`mallopt: M_ARENA_MAX=${most} is refused`);
}

/** Returns the free pages of all arenas of malloc to the system (malloc_trim(3)). */
export function returnFreed(): void {
  libc.malloc_trim(0n);
}

/** Ends the process at once, without waiting for threads (_exit(2)). */
export function exitNow(status: number): never {
  libc._exit(status);
  throw new Error('_exit returned');
}

/** Reads errno at once: any other call may change it. */
function checked(call: string, result: number): number {
  if (result >= 0) return result;
  throw new SystemError(call, getInt32(libc.__errno_location(), 0));
}
