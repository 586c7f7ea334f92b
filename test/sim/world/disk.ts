/** The disk of --record-dir: files that are only appended to, until it is full. It survives the processes, and closes what a killed one had open. */
import { basename, dirname } from 'node:path';
import { segmentsIn } from '../../../src/agent/recording/record-folder.ts';
import type { AppendedFile, RecordingFiles } from '../../../src/agent/recording/recording-files.ts';
import { flightOf } from '../../../src/inspect/history/reading.ts';
import type { SimProcess } from '../engine/process.ts';
import { fileFailure } from '../kernel/failures.ts';
import { fileError } from './reader.ts';

/** Bytes that a full disk still takes: the beginning of a record. */
const REST = 200;
/** Bytes of one piece that is read. */
const PIECE = 4096;

export class SimDisk {
  readonly #folders = new Set<string>();
  readonly #files = new Map<string, Buffer>();
  /** Bytes that are left; undefined: any. */
  #room: number | undefined;

  /** Another program fills it, or removes what it wrote. */
  set isFull(isFull: boolean) {
    this.#room = isFull ? REST : undefined;
  }

  get size(): number {
    return [...this.#files.values()].reduce((sum, { length }) => sum + length, 0);
  }

  /** Each call is numbered, and may fail. */
  of(process: SimProcess): RecordingFiles {
    const call = <T>(kind: 'open' | 'read' | 'write' | 'stat', path: string, effect: () => T, undo?: (it: T) => void) =>
      process.call<T>({
        // Without the number of the process in a file's name.
        what: `${kind} in ${dirname(path)}`,
        effect,
        // A thread waits for the disk.
        mayOutlive: true,
        ...(undo === undefined ? {} : { undo }),
        fail: (variant) => {
          throw fileFailure(path, kind, variant);
        },
      });
    return {
      makeFolder: (path) => call('open', path, () => void this.#folders.add(path)),
      isFolder: (path) => call('stat', path, () => this.#folders.has(path)),
      list: (folder) =>
        call('read', folder, () => {
          this.#mustHave(folder);
          return this.#list(folder);
        }),
      create: (path) =>
        call(
          'open',
          path,
          () => this.#create(path, process),
          (file) => void file.close(),
        ),
      remove: (path) =>
        call('write', path, () => {
          if (!this.#files.delete(path)) throw fileError('ENOENT', 'open', path);
        }),
      read: (path) => this.#read(path, (effect) => call('read', path, effect)),
    };
  }

  /** The Services with which the segments end. Throws where a segment cannot be read: only its end may be torn. */
  async recordedServices(folder: string): Promise<ReadonlySet<string>> {
    const files: Pick<RecordingFiles, 'list' | 'read'> = {
      list: (path) => Promise.resolve(this.#list(path)),
      read: (path) => this.#read(path, (effect) => Promise.resolve(effect())),
    };
    const found = new Set<string>();
    for (const segment of await segmentsIn(folder, files)) {
      const { objects } = await flightOf(segment.lines(() => undefined));
      for (const { key } of objects?.services() ?? []) found.add(key);
    }
    return found;
  }

  #mustHave(folder: string): void {
    if (!this.#folders.has(folder)) throw fileError('ENOENT', 'open', folder);
  }

  #list(folder: string): { readonly name: string; readonly size: number }[] {
    return [...this.#files]
      .filter(([path]) => dirname(path) === folder)
      .map(([path, { length }]) => ({ name: basename(path), size: length }));
  }

  #create(path: string, process: SimProcess): AppendedFile {
    this.#mustHave(dirname(path));
    if (this.#files.has(path)) throw fileError('EEXIST', 'open', path);
    this.#files.set(path, Buffer.alloc(0));
    return {
      append: (bytes) =>
        process.call({
          what: `append in ${dirname(path)}`,
          effect: () => this.#append(path, bytes),
          mayOutlive: true,
          fail: (variant) => {
            throw fileFailure(path, 'write', variant);
          },
        }),
      // A process that ends while the disk hangs leaves the file open, and the kernel closes it.
      close: () => Promise.resolve(),
    };
  }

  #append(path: string, bytes: Uint8Array): number {
    const room = this.#room ?? bytes.length;
    if (room === 0) throw fileError('ENOSPC', 'write', path);
    const taken = Math.min(room, bytes.length);
    // What was deleted stays for who has it open.
    const before = this.#files.get(path);
    if (before !== undefined) this.#files.set(path, Buffer.concat([before, bytes.subarray(0, taken)]));
    if (this.#room !== undefined) this.#room -= taken;
    return taken;
  }

  async *#read(path: string, call: <T>(effect: () => T) => Promise<T>): AsyncGenerator<Uint8Array> {
    for (let at = 0; ; at += PIECE) {
      const piece = await call(() => {
        const file = this.#files.get(path);
        if (file === undefined) throw fileError('ENOENT', 'open', path);
        return file.subarray(at, at + PIECE);
      });
      if (piece.length === 0) return;
      yield piece;
    }
  }
}
