/**
 * A small file under /run that one process of the agent leaves for the next one. Only root can have written and read it, and it is gone after
 * the next boot.
 */
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { namespaceCookie } from '../../native/network-namespace.ts';

/** The file, behind an interface. */
export interface RecordFile {
  /** Its name, for people. */
  path(): string;
  /** The boot and the network namespace of this process, as text without a line feed. Throws when the kernel does not know them. */
  place(): string;
  /** undefined where there is none. Throws when it cannot be read, or when others could have written or read it. */
  read(): string | undefined;
  /** Replaces it as a whole. Throws when it cannot be written. */
  write(text: string): void;
  /** Returns false when there was none of this user. Throws when it cannot be removed. */
  remove(): boolean;
}

/** The folder of such files, in the kernel's memory (tmpfs). */
export const RECORD_FOLDER = '/run/slicewire';
/** Bytes of the longest file that is read, by default. */
const MAX_FILE_BYTES = 64 * 1024;
/** The bits of a file's mode that let others read or write, and those that let others write. */
const OTHERS = 0o077;
const WRITABLE = 0o022;

/** The record of the ruleset in this network namespace. */
export function rulesetRecordFile(folder = RECORD_FOLDER): RecordFile {
  return recordFile('ruleset', { folder });
}

/** The file of this name for this network namespace: several namespaces of a machine may have an agent each. `room`: bytes of the longest one. */
export function recordFile(name: string, { folder = RECORD_FOLDER, room = MAX_FILE_BYTES } = {}): RecordFile {
  const path = () => `${folder}/${name}-${statSync('/proc/self/ns/net').ino}`;
  return {
    path,
    place: () => `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${namespaceCookie()}`,
    read() {
      if (!isOurs(folder)) return undefined;
      return textOf(path(), room);
    },
    write(text) {
      mkdirSync(folder, { mode: 0o700, recursive: true });
      if (!isOurs(folder)) throw new Error(`${folder} was removed while it was written to`);
      const name = path();
      // Only the process that holds the name of this network namespace (agent-name.ts) writes this file.
      const draft = `${name}.new`;
      rmSync(draft, { force: true });
      // It must not exist, so that a file or link of another user is neither followed nor written.
      writeFileSync(draft, text, { mode: 0o600, flag: 'wx' });
      renameSync(draft, name);
    },
    remove() {
      if (whyNotOurs(folder) !== undefined) return false;
      const name = path();
      const isThere = lstatSync(name, { throwIfNoEntry: false }) !== undefined;
      for (const one of [name, `${name}.new`]) rmSync(one, { force: true });
      return isThere;
    },
  };
}

/** Returns false when there is no folder. Throws when another user made it, or when others may write to it. */
function isOurs(folder: string): boolean {
  const problem = whyNotOurs(folder);
  if (problem !== undefined && problem !== NO_FOLDER) throw new Error(problem);
  return problem === undefined;
}

const NO_FOLDER = 'there is no folder';

/** undefined where this user made the folder and no other one may write to it. */
function whyNotOurs(folder: string): string | undefined {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found === undefined) return NO_FOLDER;
  if (!found.isDirectory()) return `${folder} is no directory`;
  if ((found.mode & WRITABLE) !== 0) return `other users may write to ${folder} (mode ${octal(found.mode)})`;
  return whyNotOwn(folder, found);
}

function textOf(path: string, room: number): string | undefined {
  const descriptor = opened(path);
  if (descriptor === undefined) return undefined;
  try {
    const found = fstatSync(descriptor);
    if (!found.isFile()) throw new Error(`${path} is no regular file`);
    const problem = whyNotOwn(path, found);
    if (problem !== undefined) throw new Error(problem);
    if ((found.mode & OTHERS) !== 0) throw new Error(`other users may use ${path} (mode ${octal(found.mode)})`);
    if (found.size >= room) throw new Error(`${path} is longer than ${room} bytes`);
    const buffer = Buffer.alloc(found.size);
    const length = readSync(descriptor, buffer);
    return buffer.toString('utf8', 0, length);
  } finally {
    closeSync(descriptor);
  }
}

function opened(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function whyNotOwn(path: string, { uid }: { readonly uid: number }): string | undefined {
  const own = process.geteuid?.() ?? 0;
  return uid === own ? undefined : `${path} belongs to the user ${uid}, and not to ${own}`;
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}
