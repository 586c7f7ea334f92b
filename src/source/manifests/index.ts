/** The manifests source: a folder, a file, or standard input, with no cluster at all. Folders and files are followed. */
import { watch } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, dirname, join, normalize } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type Clock, sleep } from '../../host/clock.ts';
import { type EventSink, SOURCE_KINDS, type Source, type SourceEvent } from '../../model/events.ts';
import type { PortRange } from '../../model/port-range.ts';
import { fileProblem } from '../file-problem.ts';
import { NodeGuard, type NodeReader } from './node-guard.ts';
import { NodeLook } from './node-look.ts';
import { ManifestStore } from './store.ts';
import { ManifestsUnusable } from './unusable.ts';

export { ManifestsUnusable };

export interface ManifestsOptions {
  /** A folder, a file, or `-` for standard input. */
  readonly path: string;
  readonly nodeName: string;
  readonly clock: Clock;
  /** Read once and do not follow changes. */
  readonly once: boolean;
  /** In which node ports must be; kube-apiserver's default when it is not given. */
  readonly nodePorts?: PortRange;
  /** Asked what ports of this machine are in use; without it Services may have any of its addresses and ports. */
  readonly node?: NodeReader;
}

/** What kubectl reads from a folder. */
const MANIFEST = /\.(ya?ml|json)$/;
/** Milliseconds from a first change to reading: one save makes several events. */
const SETTLE = 5;
/** Milliseconds until a second look at a file that lost objects. */
const DOUBT = 200;
/** Milliseconds between looks at the whole folder, for changes that inotify does not tell (a network file system, a folder that was replaced). */
const RESCAN = 10_000;
/** Files read at a time. */
const AT_ONCE = 64;

export function manifestsSource(options: ManifestsOptions): Source {
  const path = options.path === '-' ? '-' : normalize(options.path).replace(/(?<=.)\/+$/, '');
  return { run: (emit, signal) => new Follower({ ...options, path }, emit).run(signal) };
}

class Follower {
  readonly #options: ManifestsOptions;
  readonly #store: ManifestStore;
  readonly #emit: EventSink;
  readonly #node: NodeLook | undefined;
  /** What changed together is told together: a Service that is judged must not come after its endpoints. */
  #held: SourceEvent[] = [];
  /** Modification time and size of each file when it was read. */
  readonly #stamps = new Map<string, string>();
  readonly #changed = new Set<string>();
  /** Files that lost objects or are gone, with what they held at the first look (undefined: gone). */
  readonly #doubted = new Map<string, string | undefined>();
  #wake: (() => void) | undefined;

  constructor(options: ManifestsOptions, emit: EventSink) {
    this.#options = options;
    this.#emit = emit;
    const { nodeName, nodePorts, node } = options;
    const guard = node && new NodeGuard();
    const hold: EventSink = (event) => this.#held.push(event);
    this.#node = guard && new NodeLook(guard, { nodeName, reader: node, emit: hold });
    this.#store = new ManifestStore(nodeName, hold, { ...(nodePorts ? { nodePorts } : {}), guard });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { path, once } = this.#options;
    if (path === '-') {
      this.#store.set('standard input', await text(addAbortSignal(signal, process.stdin)));
      await this.#flush();
    } else {
      const { isFolder } = await this.#look();
      if (!once) this.#watch(isFolder ? path : dirname(path), signal);
      const cause = await this.#rescan();
      if (cause !== undefined) throw new ManifestsUnusable(`--manifests ${path}: ${cause}`);
    }
    for (const kind of [...SOURCE_KINDS, 'servicecidrs'] as const) this.#emit({ kind: 'synced', of: kind });
    if (path === '-' || once) return;
    await this.#follow(signal);
  }

  async #look(): Promise<{ isFolder: boolean }> {
    const { path } = this.#options;
    try {
      return { isFolder: (await stat(path)).isDirectory() };
    } catch (error) {
      throw new ManifestsUnusable(`--manifests ${path}: ${fileProblem(error)}`);
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      const isTold = await this.#changeOr(RESCAN, signal);
      if (signal.aborted) return;
      if (!isTold) await this.#rescan();
      else {
        await sleep(clock, SETTLE, signal).catch(() => undefined);
        const files = [...this.#changed];
        this.#changed.clear();
        await this.#readAll(files);
      }
    }
  }

  /** Wait for a told change; false when the time is up first. */
  #changeOr(milliseconds: number, signal: AbortSignal): Promise<boolean> {
    if (this.#changed.size > 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const done = (isTold: boolean) => {
        cancel();
        signal.removeEventListener('abort', onAbort);
        this.#wake = undefined;
        resolve(isTold);
      };
      const onAbort = () => done(false);
      const cancel = this.#options.clock.after(milliseconds, () => done(false));
      this.#wake = () => done(true);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  #watch(folder: string, signal: AbortSignal): void {
    const watcher = watch(folder, { signal }, (_, name) => {
      if (name === null || !this.#isWanted(join(folder, name))) return;
      this.#changed.add(join(folder, name));
      // Two writes within one tick of the clock leave the same stamp.
      this.#stamps.delete(join(folder, name));
      this.#wake?.();
    });
    // A folder that goes away ends its watch; the rescan goes on and tells what it finds.
    watcher.on('error', () => watcher.close());
  }

  #isWanted(file: string): boolean {
    const { path } = this.#options;
    return file === path || (MANIFEST.test(basename(file)) && dirname(file) === path);
  }

  /** Read what is new or changed, and drop what is gone. A folder that cannot be listed is not an empty one (invariant 2). */
  async #rescan(): Promise<string | undefined> {
    const { path } = this.#options;
    let files: string[];
    try {
      files = (await stat(path)).isDirectory()
        ? (await readdir(path)).filter((name) => MANIFEST.test(name)).map((name) => join(path, name))
        : [path];
    } catch (error) {
      this.#store.unreadable(path, fileProblem(error));
      this.#tell();
      return fileProblem(error);
    }
    this.#emit({ kind: 'faults', key: path, faults: [] });
    const present = new Set(files);
    const gone = this.#store.files.filter((file) => !present.has(file));
    this.#node?.expire();
    await this.#readAll([...files.sort(), ...gone]);
    return undefined;
  }

  async #readAll(files: readonly string[]): Promise<void> {
    for (let i = 0; i < files.length; i += AT_ONCE) {
      const batch = files.slice(i, i + AT_ONCE);
      const read = await Promise.all(batch.map((file) => this.#readIfChanged(file)));
      for (const [j, file] of batch.entries()) this.#take(file, read[j] ?? { kind: 'same' });
    }
    await this.#flush();
  }

  /** Everything that changed together was taken in. */
  async #flush(): Promise<void> {
    await this.#node?.judge();
    this.#store.flush();
    this.#tell();
  }

  #tell(): void {
    const events = this.#held;
    this.#held = [];
    for (const event of events) this.#emit(event);
  }

  /**
   * A file that lost objects, or is gone, may be in the middle of being saved: an editor empties it first, or moves it
   * away. That is believed when a second look finds the same.
   */
  #take(file: string, read: FileRead): void {
    if (read.kind === 'same') return;
    if (read.kind === 'unreadable') {
      this.#store.unreadable(file, read.cause);
      return;
    }
    const content = read.kind === 'text' ? read.text : undefined;
    const isSure = this.#doubted.has(file) && this.#doubted.get(file) === content;
    this.#doubted.delete(file);
    if (content !== undefined && isSure && this.#store.empties(file, content)) {
      this.#store.emptied(file);
    } else if (content !== undefined && (isSure || !this.#store.loses(file, content))) this.#store.set(file, content);
    else if (isSure) this.#gone(file);
    else this.#lookAgain(file, content);
  }

  /** The file that was asked for is not an empty one when it is away (invariant 2); one of a folder is. */
  #gone(file: string): void {
    if (file === this.#options.path) this.#store.unreadable(file, 'there is no such file or folder');
    else this.#store.remove(file);
  }

  #lookAgain(file: string, content: string | undefined): void {
    this.#doubted.set(file, content);
    this.#options.clock.after(DOUBT, () => {
      this.#stamps.delete(file);
      this.#changed.add(file);
      this.#wake?.();
    });
  }

  async #readIfChanged(file: string): Promise<FileRead> {
    try {
      const { mtimeMs, size, ino } = await stat(file);
      const stamp = `${mtimeMs} ${size} ${ino}`;
      if (this.#stamps.get(file) === stamp) return { kind: 'same' };
      const content = await readFile(file, 'utf8');
      this.#stamps.set(file, stamp);
      return { kind: 'text', text: content };
    } catch (error) {
      this.#stamps.delete(file);
      const isGone = (error as NodeJS.ErrnoException).code === 'ENOENT';
      return isGone ? { kind: 'gone' } : { kind: 'unreadable', cause: fileProblem(error) };
    }
  }
}

type FileRead =
  | { readonly kind: 'same' | 'gone' }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'unreadable'; readonly cause: string };
