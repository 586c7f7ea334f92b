/**
 * A simulated file system, as far as the agent reads it: manifests and the file of --config, with changes in the middle of a read, mounts
 * that hang, and folders that cannot be watched. Actors change it; it survives all processes.
 */
import { nextTick } from 'node:process';
import type { Files } from '../../../src/agent/platform.ts';
import { readOneFile } from '../../../src/cluster/documents/files.ts';
import type { FolderWatch } from '../../../src/cluster/source/watch-folder.ts';
import type { SimProcess } from '../engine/process.ts';
import { NOBODY, type SimTime } from '../engine/time.ts';
import { fileError, SimReader } from './reader.ts';

/** Milliseconds between two times that a file system gives out: the coarse clock of the kernel at 250 Hz. */
const TICK = 4;

/** Errors of watches: the limits of inotify for instances and for watches (inotify(7)). */
const WATCH_ERRORS = ['EMFILE', 'ENOSPC'];

interface SimFile {
  readonly text: string;
  /** As of the real reader: modification time, size and inode. */
  readonly stamp: string;
  readonly inode: number;
}

interface Watcher {
  readonly process: SimProcess;
  readonly call: (name: string | null) => void;
  onEnd: () => void;
}

export class SimFiles {
  readonly #time: SimTime;
  readonly #files = new Map<string, SimFile>();
  readonly #folders = new Set<string>();
  readonly #watchers = new Map<string, Set<Watcher>>();
  readonly #broken = new Map<string, string>();
  readonly #hanging = new Set<string>();
  #inodes = 0;
  #canWatch = true;

  constructor(time: SimTime) {
    this.#time = time;
  }

  /** The files and folders, as one process reads them. */
  of(process: SimProcess): Omit<Files, 'recordings'> {
    const documents = new SimReader(process, this);
    return {
      documents,
      readOne: (path) => readOneFile(path, documents),
      watch: (folder, call) => this.#watch(process, folder, call),
    };
  }

  makeFolder(path: string): void {
    this.#folders.add(path);
  }

  /** With all its files. Its watches end. */
  removeFolder(path: string): void {
    this.#folders.delete(path);
    for (const file of [...this.#files.keys()]) if (folderOf(file) === path) this.#files.delete(file);
    for (const watcher of [...(this.#watchers.get(path) ?? [])]) this.#later(path, watcher, () => watcher.onEnd());
  }

  /** Write a file in place, and its folder where there is none. */
  write(path: string, text: string): void {
    this.#put(path, text, this.#files.get(path)?.inode ?? ++this.#inodes);
    this.#tell(path);
  }

  /** Write half of it, and the rest after so many milliseconds. */
  writeSlowly(path: string, text: string, milliseconds: number): void {
    this.write(path, text.slice(0, text.length >> 1));
    this.#time.after(milliseconds, () => this.write(path, text), NOBODY);
  }

  /** As an editor saves: it writes another file and moves it to the name. */
  replace(path: string, text: string): void {
    this.#tell(`${path}~`);
    this.#put(path, text, ++this.#inodes);
    this.#tell(path);
  }

  remove(path: string): void {
    if (this.#files.delete(path)) this.#tell(path);
  }

  /** A path, or what is in that folder, cannot be read: `EIO`, `EACCES`. undefined: it can again. */
  fail(path: string, code: string | undefined): void {
    if (code === undefined) this.#broken.delete(path);
    else this.#broken.set(path, code);
  }

  /** A path, or what is in that folder, does not answer, as on a mount whose server is gone. */
  hang(path: string, isOn: boolean): void {
    if (isOn) this.#hanging.add(path);
    else this.#hanging.delete(path);
  }

  /** Whether the kernel has room for further watches. */
  canWatch(isSo: boolean): void {
    this.#canWatch = isSo;
  }

  isHanging(path: string): boolean {
    return this.#hanging.has(path) || this.#hanging.has(folderOf(path));
  }

  /** Throws the error of the system call. */
  file(path: string): SimFile {
    const code = this.#broken.get(path) ?? this.#broken.get(folderOf(path));
    if (code !== undefined) throw fileError(code, 'open', path);
    if (this.#folders.has(path)) throw fileError('EISDIR', 'read', path);
    const file = this.#files.get(path);
    if (file === undefined) throw fileError('ENOENT', 'stat', path);
    return file;
  }

  /** The names in a folder; undefined for a file. Throws the error of the system call. */
  names(path: string): readonly string[] | undefined {
    const code = this.#broken.get(path);
    if (code !== undefined) throw fileError(code, 'scandir', path);
    if (this.#files.has(path)) return undefined;
    if (!this.#folders.has(path)) throw fileError('ENOENT', 'stat', path);
    return [...this.#files.keys()].filter((file) => folderOf(file) === path).map(nameOf);
  }

  #put(path: string, text: string, inode: number): void {
    this.#folders.add(folderOf(path));
    const at = Math.floor(this.#time.wall / TICK) * TICK;
    this.#files.set(path, { text, inode, stamp: `${at} ${Buffer.byteLength(text)} ${inode}` });
  }

  #watch(process: SimProcess, folder: string, call: Watcher['call']): FolderWatch {
    let made: FolderWatch | undefined;
    return process.callSync({
      what: `watch ${folder}`,
      effect: () => {
        if (!this.#canWatch) throw fileError('ENOSPC', 'watch', folder);
        if (!this.#folders.has(folder)) throw fileError('ENOENT', 'watch', folder);
        made = this.#watching(folder, { process, call, onEnd: () => undefined });
        return made;
      },
      fail: (variant) => {
        made?.close();
        throw fileError(WATCH_ERRORS[Math.abs(Math.trunc(variant)) % WATCH_ERRORS.length] ?? 'EMFILE', 'watch', folder);
      },
    });
  }

  #watching(folder: string, watcher: Watcher): FolderWatch {
    const watchers = this.#watchers.get(folder) ?? new Set();
    this.#watchers.set(folder, watchers.add(watcher));
    const end = () => void watchers.delete(watcher);
    const forget = watcher.process.opened(`watch of ${folder}`, end);
    return {
      onEnd(call) {
        watcher.onEnd = call;
      },
      close() {
        forget();
        end();
      },
    };
  }

  #tell(path: string): void {
    const folder = folderOf(path);
    for (const watcher of this.#watchers.get(folder) ?? [])
      this.#later(folder, watcher, () => watcher.call(nameOf(path)));
  }

  /** Who watches hears of it a moment later, unless it is closed by then. */
  #later(folder: string, watcher: Watcher, call: () => void): void {
    watcher.process.run(() =>
      nextTick(() => {
        if (this.#watchers.get(folder)?.has(watcher) === true) call();
      }),
    );
  }
}

function folderOf(path: string): string {
  return path.slice(0, Math.max(1, path.lastIndexOf('/')));
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
