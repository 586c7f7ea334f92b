/**
 * The manifests source: objects of a folder, a file or standard input, without a cluster. It reads all files, then those that change,
 * until the signal aborts.
 */
import { dirname, normalize } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { text } from 'node:stream/consumers';
import { causeOf } from '../../../base/cause.ts';
import { aborted, type Clock, sleep } from '../../../base/clock.ts';
import {
  type EventSink,
  SOURCE_KINDS,
  type Source,
  type SourceEvent,
  type WatchStatus,
} from '../../../proxy/model/events.ts';
import type { PortRange } from '../../../proxy/model/port-range.ts';
import { FaultList } from '../../api/decode/checks.ts';
import { type DocumentReader, documentFiles } from '../../documents/files.ts';
import { FolderChanges, unwatchedText, type WatchFolder } from '../watch-folder.ts';
import { FileIntake, ManifestFiles, type ManifestList } from './file-intake.ts';
import { ManifestStore } from './manifest-store.ts';
import { NodeGuard, type NodeReader } from './node-guard.ts';

/** The manifests cannot be read at the start, and the agent stops. */
export class ManifestsUnusable extends Error {
  readonly code = 'MANIFESTS_UNUSABLE';
}

export interface ManifestsOptions {
  /** A folder, a file, or `-` for standard input. */
  readonly path: string;
  readonly nodeName: string;
  readonly clock: Clock;
  /** Reads the files once, and does not follow changes. */
  readonly once: boolean;
  /** Range of node ports; without it kube-apiserver's default. */
  readonly nodePorts?: PortRange;
  /** Reads addresses and ports in use of this machine; without it Services may have any of them. */
  readonly node?: NodeReader;
  readonly warn?: (text: string) => void;
  /** Reads the files; tests pass their own. */
  readonly documents?: DocumentReader;
  /** Watches the folder; tests pass their own. */
  readonly watchFolder?: WatchFolder;
}

export function manifestsSource(options: ManifestsOptions): Source {
  const path = options.path === '-' ? '-' : normalize(options.path).replace(/(?<=.)\/+$/, '');
  let follower: FolderFollower | undefined;
  return {
    watches: () => follower?.watches ?? [],
    pod: (key) => Promise.resolve(follower?.store.pod(key)),
    run: (emit, signal) => {
      follower = new FolderFollower({ ...options, path }, emit);
      return follower.run(signal);
    },
  };
}

/** Milliseconds from the first change to the read, because one save makes several events. */
const SETTLE_MS = 5;
/** Milliseconds until the second read of a file that lost objects. */
const SECOND_READ_MS = 200;
/** The start waits for at most so many second reads, one after the other: a file may change again and again. */
const MAX_SECOND_READS = 5;
/** Milliseconds between reads of the whole folder, for changes that inotify does not report (a network file system, a folder that was replaced). */
const RESCAN_MS = 10_000;
const FILES_AT_A_TIME = 64;

class FolderFollower {
  readonly #options: ManifestsOptions;
  readonly store: ManifestStore;
  readonly #emit: EventSink;
  readonly #node: NodeWatch | undefined;
  readonly #files: ManifestFiles;
  readonly #changes: FolderChanges;
  readonly #intake: FileIntake;
  /** Events wait until all files that changed together are read, because a Service that the guard judges must not come after its endpoints. */
  #held: SourceEvent[] = [];
  /** Cancel the second reads that are due. */
  readonly #doubts = new Set<() => void>();
  /** A read that hung may end after the run. */
  #isOver = false;

  constructor(options: ManifestsOptions, emit: EventSink) {
    const { path, clock, nodeName, nodePorts, node, documents = documentFiles, watchFolder, warn } = options;
    this.#options = options;
    this.#emit = (event) => {
      if (!this.#isOver) emit(event);
    };
    const guard = node && new NodeGuard();
    const hold: EventSink = (event) => this.#held.push(event);
    this.#node = guard && new NodeWatch(guard, { nodeName, reader: node, emit: hold });
    this.store = new ManifestStore(nodeName, hold, { ...(nodePorts ? { nodePorts } : {}), guard });
    this.#files = new ManifestFiles(path, documents);
    this.#changes = new FolderChanges({
      clock,
      watchFolder,
      isWanted: (file) => this.#files.isWanted(file),
      onChange: (file) => this.#files.invalidate(file),
      onUnwatched: (error) => warn?.(`--manifests ${path}: ${unwatchedText(error, RESCAN_MS)}`),
    });
    const onDoubt = (file: string) => {
      const cancel = clock.after(SECOND_READ_MS, () => {
        this.#doubts.delete(cancel);
        this.#changes.add(file);
      });
      this.#doubts.add(cancel);
    };
    this.#intake = new FileIntake({ path, clock, store: this.store, warn, onDoubt });
  }

  /** A failure where a file or the folder does not answer, or where the start waits for a file; nothing otherwise. */
  get watches(): readonly WatchStatus[] {
    const now = this.#options.clock.now();
    return this.#intake.watches(now) ?? this.#files.watches(now);
  }

  /** A read that hangs does not keep the agent from stopping. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await Promise.race([this.#run(signal), aborted(signal).catch(() => undefined)]);
    } finally {
      this.#isOver = true;
      for (const cancel of this.#doubts) cancel();
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { path, once } = this.#options;
    if (path === '-') await this.#takeInput(signal);
    else {
      const listed = await this.#files.list();
      if (listed.kind !== 'unreadable' && !once) this.#watch(listed, signal);
      const cause = await this.#rescan(listed);
      if (cause !== undefined) throw new ManifestsUnusable(`--manifests ${path}: ${cause}`);
      const again = (files: readonly string[]) => this.#readAll([...new Set([...this.#changes.drain(), ...files])]);
      await this.#intake.waitForUnread(again, signal);
      await this.#decideDoubts(again, signal);
      if (signal.aborted) return;
      this.#node?.mustHaveJudged();
    }
    for (const kind of [...SOURCE_KINDS, 'servicecidrs'] as const) this.#emit({ kind: 'synced', of: kind });
    if (path === '-' || once) return;
    await this.#follow(signal);
  }

  /**
   * Objects that were lost while the start waited for other files are gone before the lists are complete. Otherwise the next mode of an agent
   * would serve again what its present mode has removed meanwhile.
   */
  async #decideDoubts(again: (files: readonly string[]) => Promise<void>, signal: AbortSignal): Promise<void> {
    for (let i = 0; i < MAX_SECOND_READS && this.#intake.isInDoubt; i++) {
      await sleep(this.#options.clock, SECOND_READ_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      await again([]);
    }
  }

  async #takeInput(signal: AbortSignal): Promise<void> {
    const { documents = documentFiles } = this.#options;
    const draft = this.store.draft('standard input');
    const read = await documents.parse(await text(addAbortSignal(signal, process.stdin)), draft.file, draft.add);
    if (read.kind === 'read') this.store.set(draft, read);
    else this.store.unreadable(draft.file, read.cause);
    await this.#flush();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      const isReported = await this.#changes.next(RESCAN_MS, signal);
      if (signal.aborted) return;
      if (!isReported) await this.#check(signal);
      else {
        await sleep(clock, SETTLE_MS, signal).catch(() => undefined);
        await this.#readAll(this.#changes.drain());
      }
    }
  }

  /** Reads the whole folder, and watches it if the kernel had no room for a watch before, or the folder was gone. */
  async #check(signal: AbortSignal): Promise<void> {
    const listed = await this.#files.list();
    if (!this.#changes.isWatching && listed.kind !== 'unreadable' && !signal.aborted) this.#watch(listed, signal);
    await this.#rescan(listed);
  }

  #watch({ isFolder }: Extract<ManifestList, { kind: 'files' }>, signal: AbortSignal): void {
    const { path } = this.#options;
    this.#changes.watch(isFolder ? path : dirname(path), signal);
  }

  /** Reads new and changed files, and drops those that are gone. Returns the cause when the folder cannot be listed; it does not count as empty (invariant 2). */
  async #rescan(listed: ManifestList): Promise<string | undefined> {
    const { path } = this.#options;
    if (listed.kind === 'unreadable') {
      this.store.unreadable(path, listed.cause);
      this.#emitHeld();
      return listed.cause;
    }
    this.#emit({ kind: 'faults', key: path, faults: [] });
    const present = new Set(listed.files);
    const gone = this.store.files.filter((file) => !present.has(file));
    this.#node?.expire();
    await this.#readAll([...listed.files, ...gone]);
    return undefined;
  }

  async #readAll(files: readonly string[]): Promise<void> {
    for (let i = 0; i < files.length; i += FILES_AT_A_TIME) {
      if (this.#isOver) return;
      const batch = files.slice(i, i + FILES_AT_A_TIME);
      const read = await Promise.all(batch.map((file) => this.#files.readIfChanged(file, this.store.draft(file))));
      if (this.#isOver) return;
      for (const [j, file] of batch.entries()) this.#intake.apply(file, read[j] ?? { kind: 'same' });
    }
    await this.#flush();
  }

  /** Emits the events of all files that changed together. */
  async #flush(): Promise<void> {
    await this.#node?.judge();
    this.store.flush();
    this.#emitHeld();
  }

  #emitHeld(): void {
    const events = this.#held;
    this.#held = [];
    for (const event of events) this.#emit(event);
  }
}

interface NodeWatchOptions {
  readonly nodeName: string;
  readonly reader: NodeReader;
  readonly emit: EventSink;
}

/** Reads addresses and ports of this machine for the guard: when Services changed, and with each read of the whole folder. */
export class NodeWatch {
  readonly #guard: NodeGuard;
  readonly #options: NodeWatchOptions;
  #mustRead = true;
  #hasRead = false;
  #hasFault = false;
  #cause = '';

  constructor(guard: NodeGuard, options: NodeWatchOptions) {
    this.#guard = guard;
    this.#options = options;
  }

  /** The next judgement reads the machine, even if no Service changed. */
  expire(): void {
    this.#mustRead = true;
  }

  /** At the end of the start no Service may wait, because its rules would be removed. Throws ManifestsUnusable. */
  mustHaveJudged(): void {
    if (this.#guard.isWaiting) throw unusable(this.#cause);
  }

  /** Emits the judged Services. They wait while the machine cannot be read. Throws ManifestsUnusable when the first read fails. */
  async judge(): Promise<void> {
    if (!this.#mustRead && !this.#guard.isWaiting) return;
    const { reader, emit } = this.#options;
    try {
      this.#guard.setInterfaces(await reader.addresses());
      const listeners = this.#guard.needsListeners ? await reader.listeners() : [];
      for (const event of this.#guard.judge(listeners)) emit(event);
    } catch (error) {
      this.#report(causeOf(error));
      return;
    }
    this.#mustRead = false;
    this.#hasRead = true;
    if (this.#hasFault) emit({ kind: 'faults', key: 'this node', faults: [] });
    this.#hasFault = false;
  }

  #report(cause: string): void {
    const { nodeName, emit } = this.#options;
    const problem = problemText(cause);
    if (!this.#hasRead) throw unusable(cause);
    this.#cause = cause;
    this.#hasFault = true;
    const faults = new FaultList('Node', nodeName);
    faults.leaveOut('', undefined, `${problem}; changed Services wait until they can be read`);
    emit({ kind: 'faults', key: 'this node', faults: faults.list });
  }
}

function problemText(cause: string): string {
  return `its addresses and the ports in use cannot be read: ${cause}`;
}

function unusable(cause: string): ManifestsUnusable {
  return new ManifestsUnusable(`this node: ${problemText(cause)}; --allow-node-address-ports turns this check off`);
}
