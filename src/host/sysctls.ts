/**
 * Kernel settings under /proc/sys. A name is written with slashes: `net/ipv4/conf/all/route_localnet`. One that begins
 * with a slash is a file elsewhere: `/sys/module/nf_conntrack/parameters/hashsize`.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';

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
