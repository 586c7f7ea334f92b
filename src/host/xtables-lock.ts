/** Finds the process that holds the xtables lock, so that an operator need not guess (k8s#48107). */
import { readFile, stat } from 'node:fs/promises';

/** Where the legacy variant of iptables has its lock (iptables/xshared.c). */
const LOCK_FILE = process.env.XTABLES_LOCKFILE || '/run/xtables.lock';

/** `iptables (process 123)`; undefined when /proc/locks names no holder (proc_locks(5)). */
export async function lockHolder(): Promise<string | undefined> {
  try {
    const { ino } = await stat(LOCK_FILE);
    const locks = await readFile('/proc/locks', 'utf8');
    for (const line of locks.split('\n')) {
      const [, kind, , , pid, file] = line.trim().split(/\s+/);
      if (kind === 'FLOCK' && file?.endsWith(`:${ino}`) === true && pid !== undefined) return await describe(pid);
    }
  } catch {
    // The holder is a hint in an error message. Without it the message has "another program".
  }
  return undefined;
}

async function describe(pid: string): Promise<string> {
  const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => 'a program');
  return `${name.trim()} (process ${pid})`;
}
