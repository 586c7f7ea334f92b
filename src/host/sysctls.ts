/**
 * Kernel settings under /proc/sys. A name is written with slashes: `net/ipv4/conf/all/route_localnet`. One that begins
 * with a slash is a file elsewhere: `/sys/module/nf_conntrack/parameters/hashsize`.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { SettingWrite } from '../reconcile/setting.ts';

export interface Sysctls {
  /** undefined when the kernel has no such setting. */
  read(name: string): Promise<string | undefined>;
  write(name: string, value: string): Promise<void>;
}

const ROOT = '/proc/sys';

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
