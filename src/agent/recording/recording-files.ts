/** The file system, as far as --record-dir uses it. */
import { constants } from 'node:fs';
import { lstat, mkdir, open, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** A file that is only ever appended to. */
export interface AppendedFile {
  /** Returns how many bytes were written: fewer on a disk that is full. Rejects as write(2). */
  append(bytes: Uint8Array): Promise<number>;
  close(): Promise<void>;
}

/** Everything rejects with Node.js's errors. */
export interface RecordingFiles {
  /** Makes a folder that only its owner may use; nothing happens where it exists. */
  makeFolder(path: string): Promise<void>;
  isFolder(path: string): Promise<boolean>;
  /** The plain files of a folder, with their sizes in bytes. */
  list(folder: string): Promise<readonly { readonly name: string; readonly size: number }[]>;
  /** Makes a file. Rejects with EEXIST where the name is taken. */
  create(path: string): Promise<AppendedFile>;
  remove(path: string): Promise<void>;
  /** Its content, piece by piece. */
  read(path: string): AsyncIterable<Uint8Array>;
}

export const realRecordingFiles: RecordingFiles = {
  async makeFolder(path) {
    try {
      await mkdir(path, { mode: 0o700 });
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error;
    }
  },
  isFolder: async (path) => (await lstat(path)).isDirectory(),
  async list(folder) {
    const found: { readonly name: string; readonly size: number }[] = [];
    for (const name of await readdir(folder)) {
      const stat = await lstat(join(folder, name)).catch(() => undefined);
      if (stat?.isFile() === true) found.push({ name, size: stat.size });
    }
    return found;
  },
  async create(path) {
    const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW;
    const file = await open(path, flags, 0o600);
    return {
      append: async (bytes) => (await file.write(bytes)).bytesWritten,
      close: () => file.close(),
    };
  },
  remove: (path) => unlink(path),
  async *read(path) {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      yield* file.createReadStream({ autoClose: false });
    } finally {
      await file.close();
    }
  },
};

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
