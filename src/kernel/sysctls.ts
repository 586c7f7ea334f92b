/**
 * Kernel settings under /proc/sys. Names have slashes: `net/ipv4/conf/all/route_localnet`. A name that begins with a slash is
 * a file elsewhere: `/sys/module/nf_conntrack/parameters/hashsize`.
 */
import { constants } from 'node:fs';
import { open, readFile, stat, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';

/** A kernel setting to write. */
export interface SettingWrite {
  /** With slashes, as under /proc/sys. */
  readonly name: string;
  /** The current value; undefined when it is unknown. */
  readonly from?: string | undefined;
  readonly to: string;
}

/** `sysctl net.ipv4.ip_forward`, the name of sysctl(8); the path for a file elsewhere. */
export function settingKey(name: string): string {
  return name.startsWith('/') ? name : `sysctl ${name.replaceAll('/', '.')}`;
}

/** The settings, behind an interface. Both methods reject when the kernel denies access. */
export interface Sysctls {
  /** The value without white space around it; undefined when the kernel has no such setting. */
  read(name: string): Promise<string | undefined>;
  write(name: string, value: string): Promise<void>;
}

/** The settings as files, with questions about whether one can be written. */
export interface SettingFiles extends Sysctls {
  /** The reason why a setting cannot be written on this node; undefined when no obstacle is known. Rejects when it cannot be found out. */
  whyNotWritable(name: string): Promise<string | undefined>;
  /** Whether no process of this network namespace can write the setting; false for a missing one. Rejects when it cannot be found out. */
  isReadOnly(name: string): Promise<boolean>;
}

const ROOT = '/proc/sys';
/** The bits of a file's mode that allow writing. */
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
 * The reason why a setting cannot be written on this node; undefined when no obstacle is known without writing. It opens the file, because
 * access(2) ignores a capability of a user who is not root.
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

/** Whether no process can write the setting. Settings of the whole machine are writable only in its first network namespace. */
export async function isReadOnly(name: string): Promise<boolean> {
  try {
    return ((await stat(resolve(ROOT, name))).mode & WRITE) === 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

export const realSettings: SettingFiles = { ...realSysctls, whyNotWritable, isReadOnly };

/** Writes all settings, and returns those that failed, with the cause. A failure does not stop the others. */
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
