/** Kernel settings under /proc/sys. A name is written with slashes: `net/ipv4/conf/all/route_localnet`. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface Sysctls {
  /** undefined when the kernel has no such setting. */
  read(name: string): Promise<string | undefined>;
  write(name: string, value: string): Promise<void>;
}

const ROOT = '/proc/sys';

export const realSysctls: Sysctls = {
  async read(name) {
    try {
      return (await readFile(join(ROOT, name), 'utf8')).trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  },
  async write(name, value) {
    await writeFile(join(ROOT, name), value);
  },
};
