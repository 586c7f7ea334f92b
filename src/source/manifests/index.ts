/** The manifests source: a folder, a file, or standard input, with no cluster at all. Folders and files are followed. */
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type DocumentFiles, documentFiles, type Listed } from '../../documents/files.ts';
import type { Failure, Whole } from '../../documents/protocol.ts';
import { aborted, type Clock, sleep } from '../../host/clock.ts';
import { type EventSink, SOURCE_KINDS, type Source, type SourceEvent, type WatchStatus } from '../../model/events.ts';
import type { PortRange } from '../../model/port-range.ts';
import { unwatchedText } from '../unwatched.ts';
import { NodeGuard, type NodeReader } from './node-guard.ts';
import { NodeWatch } from './node-look.ts';
import { type Draft, ManifestStore } from './store.ts';
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
  readonly warn?: (text: string) => void;
  /** What reads the files; of its own in tests. */
  readonly documents?: DocumentFiles;
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
/** Bytes of one file: its text and what it says must fit in memory beside each other. */
const MOST_BYTES = 64 << 20;

export function manifestsSource(options: ManifestsOptions): Source {
  const path = options.path === '-' ? '-' : normalize(options.path).replace(/(?<=.)\/+$/, '');
  let follower: Follower | undefined;
  return {
    watches: () => follower?.watches ?? [],
    run: (emit, signal) => {
      follower = new Follower({ ...options, path }, emit);
      return follower.run(signal);
    },
  };
}

class Follower {
  readonly #options: ManifestsOptions;
  readonly #store: ManifestStore;
  readonly #emit: EventSink;
  readonly #node: NodeWatch | undefined;
  /** What changed together is told together: a Service that is judged must not come after its endpoints. */
  #held: SourceEvent[] = [];
  /** Modification time and size of each file when it was read. */
  readonly #stamps = new Map<string, string>();
  readonly #changed = new Set<string>();
  readonly #documents: DocumentFiles;
  #watcher: FSWatcher | undefined;
  #hasWarned = false;
  /** Files that lost objects or are gone, with the digest of what they held at the first look (undefined: gone). */
  readonly #doubted = new Map<string, string | undefined>();
  #wake: (() => void) | undefined;

  constructor(options: ManifestsOptions, emit: EventSink) {
    this.#options = options;
    this.#documents = options.documents ?? documentFiles;
    this.#emit = emit;
    const { nodeName, nodePorts, node } = options;
    const guard = node && new NodeGuard();
    const hold: EventSink = (event) => this.#held.push(event);
    this.#node = guard && new NodeWatch(guard, { nodeName, reader: node, emit: hold });
    this.#store = new ManifestStore(nodeName, hold, { ...(nodePorts ? { nodePorts } : {}), guard });
  }

  /** Of what does not answer: it cannot be followed, whatever else can. */
  get watches(): readonly WatchStatus[] {
    const { path, clock } = this.#options;
    const stuck = this.#documents.stuck.filter((one) => one.path === path || dirname(one.path) === path);
    const [first] = stuck;
    if (first === undefined) return [];
    const others = stuck.length > 1 ? ` and ${stuck.length - 1} more` : '';
    const cause = `${first.path}${others} does not answer; it may be on a mount whose server is gone`;
    const since = Math.min(...stuck.map((one) => one.since));
    return [{ of: 'manifests', heardAt: clock.now(), failure: { since, isServers: false, cause } }];
  }

  /** What hangs in a file does not keep the agent from stopping. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#run(signal), aborted(signal).catch(() => undefined)]);
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { path, once } = this.#options;
    if (path === '-') await this.#takeInput(signal);
    else {
      const listed = await this.#documents.list(path);
      if (listed.kind !== 'unreadable' && !once) this.#watch(listed.kind === 'folder' ? path : dirname(path), signal);
      const cause = await this.#rescan(listed);
      if (cause !== undefined) throw new ManifestsUnusable(`--manifests ${path}: ${cause}`);
    }
    for (const kind of [...SOURCE_KINDS, 'servicecidrs'] as const) this.#emit({ kind: 'synced', of: kind });
    if (path === '-' || once) return;
    await this.#follow(signal);
  }

  async #takeInput(signal: AbortSignal): Promise<void> {
    const draft = this.#store.draft('standard input');
    const read = await this.#documents.parse(await text(addAbortSignal(signal, process.stdin)), draft.file, draft.take);
    if (read.kind === 'read') this.#store.set(draft, read);
    else this.#store.unreadable(draft.file, read.cause);
    await this.#flush();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      const isReported = await this.#changeOr(RESCAN, signal);
      if (signal.aborted) return;
      if (!isReported) await this.#look(signal);
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
      const done = (isReported: boolean) => {
        cancel();
        signal.removeEventListener('abort', onAbort);
        this.#wake = undefined;
        resolve(isReported);
      };
      const onAbort = () => done(false);
      const cancel = this.#options.clock.after(milliseconds, () => done(false));
      this.#wake = () => done(true);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { path } = this.#options;
    const listed = await this.#documents.list(path);
    // The kernel had no room for it, or the folder was away.
    if (this.#watcher === undefined && listed.kind !== 'unreadable' && !signal.aborted)
      this.#watch(listed.kind === 'folder' ? path : dirname(path), signal);
    await this.#rescan(listed);
  }

  /** Called when the folder was just listed: the call waits in the loop, and a mount that is dead would keep it. */
  #watch(folder: string, signal: AbortSignal): void {
    try {
      const watcher = watch(folder, { signal }, (_, name) => {
        if (name === null || !this.#isWanted(join(folder, name))) return;
        this.#changed.add(join(folder, name));
        // Two writes within one tick of the clock leave the same stamp.
        this.#stamps.delete(join(folder, name));
        this.#wake?.();
      });
      this.#watcher = watcher;
      // A folder that goes away ends its watch; the rescan goes on and tells what it finds.
      watcher.on('error', () => {
        watcher.close();
        if (this.#watcher === watcher) this.#watcher = undefined;
      });
    } catch (error) {
      if (this.#hasWarned) return;
      this.#hasWarned = true;
      this.#options.warn?.(`--manifests ${this.#options.path}: ${unwatchedText(error, RESCAN)}`);
    }
  }

  #isWanted(file: string): boolean {
    const { path } = this.#options;
    return file === path || (MANIFEST.test(basename(file)) && dirname(file) === path);
  }

  /** Read what is new or changed, and drop what is gone. A folder that cannot be listed is not an empty one (invariant 2). */
  async #rescan(listed: Listed): Promise<string | undefined> {
    const { path } = this.#options;
    if (listed.kind === 'unreadable') {
      this.#store.unreadable(path, listed.cause);
      this.#tell();
      return listed.cause;
    }
    const files =
      listed.kind === 'folder'
        ? listed.names.filter((name) => MANIFEST.test(name)).map((name) => join(path, name))
        : [path];
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
    const digest = read.kind === 'gone' ? undefined : read.digest;
    const isSure = this.#doubted.has(file) && this.#doubted.get(file) === digest;
    this.#doubted.delete(file);
    if (read.kind === 'gone') {
      if (isSure) this.#gone(file);
      else this.#lookAgain(file, undefined);
    } else if (isSure && this.#store.empties(read.draft)) this.#store.emptied(file);
    else if (isSure || !this.#store.loses(read.draft, read)) this.#store.set(read.draft, read);
    else this.#lookAgain(file, digest);
  }

  /** The file that was asked for is not an empty one when it is away (invariant 2); one of a folder is. */
  #gone(file: string): void {
    if (file === this.#options.path) this.#store.unreadable(file, 'there is no such file or folder');
    else this.#store.remove(file);
  }

  #lookAgain(file: string, digest: string | undefined): void {
    this.#doubted.set(file, digest);
    this.#options.clock.after(DOUBT, () => {
      this.#stamps.delete(file);
      this.#changed.add(file);
      this.#wake?.();
    });
  }

  async #readIfChanged(file: string): Promise<FileRead> {
    const { path } = this.#options;
    const draft = this.#store.draft(file);
    const read = await this.#documents.read({
      path: file,
      // Links of a folder stay in it; who names a file names what it leads to.
      within: file === path ? undefined : path,
      stamp: this.#stamps.get(file),
      most: MOST_BYTES,
      onValues: draft.take,
    });
    if (read.kind === 'same') return read;
    if (read.stamp === undefined) this.#stamps.delete(file);
    else this.#stamps.set(file, read.stamp);
    if (read.kind === 'read') return { ...read, draft };
    return read.code === 'ENOENT' ? { kind: 'gone' } : read;
  }
}

type FileRead = { readonly kind: 'same' } | { readonly kind: 'gone' } | Failure | (Whole & { readonly draft: Draft });
