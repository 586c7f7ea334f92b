/** Reads files of the simulated file system as `DocumentFiles` reads real ones: parsed by the real code, in this thread. */

import { type ParsedFile, parsedText, type Value } from '../../../src/cluster/documents/documents.ts';
import type { DocumentReader, FileRead, ListedPath, ReadOptions, Stuck } from '../../../src/cluster/documents/files.ts';
import { fileProblem, type UnreadableFile } from '../../../src/cluster/documents/protocol.ts';
import type { SimProcess } from '../engine/process.ts';
import { NOBODY } from '../engine/time.ts';

/** Milliseconds, and paths: as `DocumentFiles`. */
const PATIENCE = 5000;
const MAX_STUCK = 4;

/** Errors of reads on a disk or a mount that has lost its server. */
const READ_ERRORS = ['EIO', 'EACCES', 'ESTALE', 'ENOMEM', 'EMFILE'];

/** The file system, as a reader sees it. */
export interface Readable {
  file(path: string): { readonly text: string; readonly stamp: string };
  names(path: string): readonly string[] | undefined;
  isHanging(path: string): boolean;
}

interface Outcome<T> {
  readonly values: readonly (readonly Value[])[];
  readonly outcome: T;
}

export class SimReader implements DocumentReader {
  readonly #process: SimProcess;
  readonly #files: Readable;
  readonly #stuck = new Map<string, Stuck>();

  constructor(process: SimProcess, files: Readable) {
    this.#process = process;
    this.#files = files;
  }

  /** A thread that hung ends when its system call returns. */
  get stuck(): readonly Stuck[] {
    for (const path of [...this.#stuck.keys()]) if (!this.#files.isHanging(path)) this.#stuck.delete(path);
    return [...this.#stuck.values()];
  }

  async read({ path, stamp, maxBytes, mayRepeat = false, onValues }: ReadOptions): Promise<FileRead> {
    const effect = (): Outcome<FileRead> => {
      const file = this.#files.file(path);
      if (Buffer.byteLength(file.text) > maxBytes)
        return { values: [], outcome: refused(`it has more than ${maxBytes} bytes, which is the limit`) };
      if (file.stamp === stamp) return { values: [], outcome: { kind: 'same' } };
      return parsed(file.text, file.stamp, mayRepeat);
    };
    return deliver(await this.#ask<FileRead>(`read ${path}`, path, effect), onValues);
  }

  async parse(text: string, name: string, onValues: ReadOptions['onValues']): Promise<ParsedFile | UnreadableFile> {
    const effect = () => parsed(text, '', false);
    return deliver(await this.#ask<ParsedFile | UnreadableFile>(`parse ${name}`, name, effect), onValues);
  }

  async list(path: string): Promise<ListedPath> {
    const { outcome } = await this.#ask<ListedPath>(`list ${path}`, path, () => {
      const names = this.#files.names(path);
      return { values: [], outcome: names === undefined ? { kind: 'file' } : { kind: 'folder', names } };
    });
    return outcome;
  }

  async #ask<T>(what: string, path: string, effect: () => Outcome<T>): Promise<Outcome<T | UnreadableFile>> {
    const stuck = this.stuck.map((one) => one.path);
    if (stuck.includes(path)) return unanswered();
    if (stuck.length >= MAX_STUCK) return failure(`no file is read until these answer: ${stuck.join(', ')}`);
    if (this.#files.isHanging(path)) return await this.#hang(what, path);
    const late = new AbortController();
    const cancel = this.#process.time.after(PATIENCE, () => late.abort(), NOBODY);
    const call = this.#process.call<Outcome<T | UnreadableFile>>(
      {
        what,
        mayOutlive: true,
        effect: () => unreadable(effect),
        fail: (variant) =>
          unreadable(() => {
            throw fileError(READ_ERRORS[Math.abs(Math.trunc(variant)) % READ_ERRORS.length] ?? 'EIO', 'read', path);
          }),
        cut: async (answer) => {
          const { values } = await answer;
          // The thread ends in the middle of its work.
          return {
            ...failure('the thread that read it ended: unknown reason'),
            values: values.slice(0, values.length >> 1),
          };
        },
      },
      late.signal,
    );
    try {
      return await call;
    } catch (error) {
      if (late.signal.aborted) return unanswered();
      throw error;
    } finally {
      cancel();
    }
  }

  /** The call to the mount does not return while it hangs. */
  async #hang(what: string, path: string): Promise<Outcome<UnreadableFile>> {
    const since = this.#process.time.now;
    const wait = async () => {
      await new Promise<void>((resolve) => void this.#process.time.after(PATIENCE, resolve, NOBODY));
      if (this.#files.isHanging(path)) this.#stuck.set(path, { path, since });
      return unanswered();
    };
    return await this.#process.call<Outcome<UnreadableFile>>({ what, mayOutlive: true, effect: wait, fail: wait });
  }
}

function parsed(text: string, stamp: string, mayRepeat: boolean): Outcome<ParsedFile> {
  const values: (readonly Value[])[] = [];
  const outcome = parsedText({ text, stamp, mayRepeat }, (some) => void values.push(some));
  return { values, outcome };
}

function deliver<T>({ values, outcome }: Outcome<T>, onValues: ReadOptions['onValues']): T {
  for (const some of values) onValues(some);
  return outcome;
}

function failure(cause: string, code?: string): Outcome<UnreadableFile> {
  return { values: [], outcome: { kind: 'unreadable', cause, code } };
}

function refused(cause: string): UnreadableFile {
  return { kind: 'unreadable', cause, isRefused: true };
}

function unanswered(): Outcome<UnreadableFile> {
  return failure('no answer within 5 s; it may be on a mount whose server is gone', 'ETIMEDOUT');
}

function unreadable<T>(read: () => Outcome<T>): Outcome<T | UnreadableFile> {
  try {
    return read();
  } catch (error) {
    return failure(fileProblem(error), (error as NodeJS.ErrnoException).code);
  }
}

/** As of a system call on a file. */
export function fileError(code: string, syscall: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${TEXTS[code] ?? 'failed'}, ${syscall} '${path}'`), { code, syscall, path });
}

const TEXTS: Readonly<Record<string, string>> = {
  EIO: 'i/o error',
  EACCES: 'permission denied',
  ESTALE: 'stale file handle',
  ENOMEM: 'not enough memory',
  EMFILE: 'too many open files',
  EEXIST: 'file already exists',
  ENOENT: 'no such file or directory',
  EISDIR: 'illegal operation on a directory',
  ENOSPC: 'no space left on device',
};
