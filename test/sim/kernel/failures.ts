/** Errors of the kernel's calls, as faults give them. */
import { EAGAIN, EBUSY, EINTR, ENOBUFS, ENOMEM } from '../../../native/errno.ts';
import { SystemError } from '../../../native/libc.ts';
import { NetlinkError } from '../../../native/netlink.ts';

/** linux/errno.h; the agent names them nowhere. */
export const EMSGSIZE = 90;
export const EMFILE = 24;

/** Of a socket's system calls. */
const OF_CALLS = [ENOBUFS, EINTR, EAGAIN, ENOMEM, EMSGSIZE] as const;
/** Of the kernel's answers. */
const OF_ANSWERS = [ENOMEM, EBUSY, EINTR] as const;

/** The choice of a fault's variant. */
export function choose<const C extends readonly unknown[]>(choices: C, variant: number): C[number] {
  return choices[variant % choices.length];
}

/** A socket did not send, did not receive, or the kernel answered with an error. */
export function socketFailure(variant: number): SystemError | NetlinkError {
  const all = OF_CALLS.length + OF_ANSWERS.length;
  const at = variant % all;
  if (at >= OF_CALLS.length) return new NetlinkError(choose(OF_ANSWERS, at - OF_CALLS.length), undefined);
  return new SystemError(at % 2 === 0 ? 'recv' : 'sendto', choose(OF_CALLS, at));
}

/** A socket could not be opened. */
export function openFailure(variant: number): SystemError {
  return new SystemError('socket', choose([ENOMEM, ENOBUFS, EMFILE], variant));
}

/** A file could not be read or written, as node:fs tells it. */
export function fileFailure(
  path: string,
  call: 'open' | 'read' | 'write' | 'stat',
  variant: number,
): NodeJS.ErrnoException {
  const [code, text, errno] = choose(
    [
      ['EIO', 'i/o error', -5],
      ['EMFILE', 'too many open files', -24],
      ['EACCES', 'permission denied', -13],
      ['ENOMEM', 'not enough memory', -12],
    ] as const,
    variant,
  );
  return Object.assign(new Error(`${code}: ${text}, ${call} '${path}'`), { code, errno, syscall: call, path });
}
