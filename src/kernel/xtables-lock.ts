/** Finds the process that holds the xtables lock, so that an operator need not guess (k8s#48107). */
import { readFile, stat } from 'node:fs/promises';

/** Where the legacy variant of iptables has its lock (iptables/xshared.c). */
const LOCK_FILE = process.env.XTABLES_LOCKFILE || '/run/xtables.lock';

/** `iptables (process 123)`; undefined when /proc/locks names no holder (proc_locks(5)). */
export async function lockHolder(): Promise<string | undefined> {
  try {
    const { ino } = await stat(LOCK_FILE);
    const pid = holderIn(await readFile('/proc/locks', 'utf8'), ino);
    if (pid !== undefined) return await describe(pid);
  } catch {
    // The holder is a hint in an error message. Without it the message has "another program".
  }
  return undefined;
}

/** The process that holds a lock of the whole file with this inode; undefined when the text names none. */
export function holderIn(locks: string, inode: number): string | undefined {
  for (const line of locks.split('\n')) {
    const [, kind, , , pid, file] = line.trim().split(/\s+/);
    // The number becomes part of a path; -1 stands for a process of another namespace.
    if (kind === 'FLOCK' && file?.endsWith(`:${inode}`) === true && pid !== undefined && /^\d{1,10}$/.test(pid))
      return pid;
  }
  return undefined;
}

async function describe(pid: string): Promise<string> {
  const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => 'a program');
  return `${name.trim()} (process ${pid})`;
}
