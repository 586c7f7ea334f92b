/** Numbers of errors (asm-generic/errno-base.h and errno.h: the same on x86-64 and arm64), and their texts. */
import { getSystemErrorMap } from 'node:util';

export const EPERM = 1;
export const ENOENT = 2;
export const ESRCH = 3;
export const EINTR = 4;
export const EAGAIN = 11;
export const ENOMEM = 12;
export const EACCES = 13;
export const EBUSY = 16;
export const EEXIST = 17;
export const ENODEV = 19;
export const EINVAL = 22;
export const ERESTART = 85;
export const EPROTONOSUPPORT = 93;
export const EOPNOTSUPP = 95;
export const EAFNOSUPPORT = 97;
export const EADDRNOTAVAIL = 99;
export const ENETUNREACH = 101;
export const ENOBUFS = 105;
export const EHOSTUNREACH = 113;
export const EINPROGRESS = 115;

let errors: ReturnType<typeof getSystemErrorMap> | undefined;

/** `ENOENT: no such file or directory` */
export function errnoText(errno: number): string {
  // Node.js makes a map of all errors at each call.
  errors ??= getSystemErrorMap();
  const [name, meaning] = errors.get(-errno) ?? [`errno ${errno}`, 'unknown'];
  return `${name}: ${meaning}`;
}

/** The number of a SystemError or a NetlinkError; undefined for any other error. Node.js numbers its own errors below 0. */
export function errnoOf(error: unknown): number | undefined {
  const errno = error instanceof Error && 'errno' in error ? error.errno : undefined;
  return typeof errno === 'number' && errno > 0 ? errno : undefined;
}
