/**
 * Kernel settings under /proc/sys. A name is written with slashes: `net/ipv4/conf/all/route_localnet`. One that begins
 * with a slash is a file elsewhere: `/sys/module/nf_conntrack/parameters/hashsize`.
 */
import { constants } from 'node:fs';
import { open, readFile, stat, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { SettingWrite } from '../reconcile/setting.ts';

export interface Sysctls {
  /** undefined when the kernel has no such setting. */
  read(name: string): Promise<string | undefined>;
  write(name: string, value: string): Promise<void>;
}

const ROOT = '/proc/sys';
/** Bits of a file's mode by which anybody may write it. */
const WRITE = 0o222;

export const realSysctls: Sysctls = {
  async read(name) {
    try {
      return (await readFile(resolve(ROOT, name), 'utf8')).trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  },
  async write(name, value) {
    await writeFile(resolve(ROOT, name), value);
  },
};

/**
 * Why a setting cannot be written here; undefined when nothing is in the way that can be seen without writing. It is opened, which
 * is what the kernel judges by: access(2) knows nothing of a capability that a user who is not root was given (access(2)).
 */
export async function whyNotWritable(name: string): Promise<string | undefined> {
  try {
    await (await open(resolve(ROOT, name), constants.O_WRONLY)).close();
    return undefined;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return 'this kernel has no such setting';
    if (code === 'EROFS') return 'its file system is mounted read-only';
    if (await isReadOnly(name)) return 'it is read-only in this network namespace';
    return code === 'EACCES' || code === 'EPERM' ? 'this process has no permission to write it' : message;
  }
}

/** Nobody may write it, whatever his rights: the kernel takes settings of the whole machine from its first network namespace alone. */
export async function isReadOnly(name: string): Promise<boolean> {
  try {
    return ((await stat(resolve(ROOT, name))).mode & WRITE) === 0;
  } catch {
    return false;
  }
}

/** Write them; returns what could not be written, with the cause. The others are written all the same. */
export async function writeSettings(
  writes: readonly SettingWrite[],
  sysctls: Sysctls,
): Promise<{ readonly name: string; readonly cause: string }[]> {
  const failed: { name: string; cause: string }[] = [];
  for (const { name, to } of writes) {
    try {
      await sysctls.write(name, to);
    } catch (error) {
      failed.push({ name, cause: (error as Error).message });
    }
  }
  return failed;
}
