/** Reads the files of `--manifests`, and applies each read to the store. A file that lost objects is applied after a second, equal read. */

import { basename, dirname, join } from 'node:path';
import { type Clock, sleep } from '../../../base/clock.ts';
import type { WatchStatus } from '../../../proxy/model/events.ts';
import type { ParsedFile } from '../../documents/documents.ts';
import type { DocumentReader } from '../../documents/files.ts';
import type { UnreadableFile } from '../../documents/protocol.ts';
import type { FileDraft, ManifestStore } from './manifest-store.ts';

/** Milliseconds between two attempts to read an unreadable file at the start, and the number of attempts. */
const RETRY_MS = 1000;
const MAX_ATTEMPTS = 20;

export interface FileIntakeOptions {
  /** The folder or file of `--manifests`. */
  readonly path: string;
  readonly clock: Clock;
  readonly store: ManifestStore;
  readonly warn: ((text: string) => void) | undefined;
  /** Schedules another read of the file. */
  readonly onDoubt: (file: string) => void;
}

export class FileIntake {
  readonly #options: FileIntakeOptions;
  /** Files that lost objects or are gone, with the digest of their first read; undefined for a file that is gone. */
  readonly #doubted = new Map<string, string | undefined>();
  /** Files whose content has never been read since the last failure, with its cause: their objects are unknown. */
  readonly #unread = new Map<string, string>();
  /** Time since which the start waits for unread files. */
  #waitsSince: number | undefined;

  constructor(options: FileIntakeOptions) {
    this.#options = options;
  }

  /** Whether a loss waits for its second read. */
  get isInDoubt(): boolean {
    return this.#doubted.size > 0;
  }

  /** A failure while the start waits for a file; undefined when it does not wait. `now`: milliseconds of the agent's clock. */
  watches(now: number): readonly WatchStatus[] | undefined {
    const [unread] = this.#unread;
    if (this.#waitsSince === undefined || unread === undefined) return undefined;
    const cause = `${unread[0]} cannot be read: ${unread[1]}`;
    return [{ of: 'manifests', heardAt: now, failure: { since: this.#waitsSince, isServers: false, cause } }];
  }

  /**
   * A file that cannot be read at the start does not count as empty (invariant 2): the kernel may have its objects, and would lose them.
   * Other files do not wait for ever (invariant 6), because the kernel is empty after a reboot.
   */
  async waitForUnread(again: (files: readonly string[]) => Promise<void>, signal: AbortSignal): Promise<void> {
    const { path, clock, warn } = this.#options;
    if (this.#unread.size === 0) return;
    const names = () => [...this.#unread.keys()].join(', ');
    const longest = `${(MAX_ATTEMPTS * RETRY_MS) / 1000} s`;
    warn?.(
      `--manifests ${path}: rules stay as they are for up to ${longest}, until these files can be read: ${names()}`,
    );
    this.#waitsSince = clock.now();
    for (let i = 0; i < MAX_ATTEMPTS && this.#unread.size > 0; i++) {
      await sleep(clock, RETRY_MS, signal).catch(() => undefined);
      if (signal.aborted) return;
      await again([...this.#unread.keys()]);
    }
    this.#waitsSince = undefined;
    if (this.#unread.size === 0) return;
    warn?.(
      `--manifests ${path}: going on without these files, whose objects are not served until they can be read: ${names()}`,
    );
  }

  /**
   * A file that lost objects, or is gone, may be in the middle of being saved: an editor empties it first, or moves it
   * away. The loss counts when a second read finds the same.
   */
  apply(file: string, read: ManifestRead): void {
    const { store } = this.#options;
    if (read.kind === 'same') return;
    this.#unread.delete(file);
    if (read.kind === 'unreadable') {
      if (read.stamp === undefined && read.isRefused !== true) this.#unread.set(file, read.cause);
      store.unreadable(file, read.cause);
      return;
    }
    const digest = read.kind === 'gone' ? undefined : read.digest;
    const isConfirmed = this.#doubted.has(file) && this.#doubted.get(file) === digest;
    this.#doubted.delete(file);
    if (read.kind === 'gone') {
      if (isConfirmed) this.#gone(file);
      else this.#doubt(file, undefined);
    } else if (isConfirmed && store.empties(read.draft)) store.emptied(file);
    else if (isConfirmed || !store.loses(read.draft, read)) store.set(read.draft, read);
    else this.#doubt(file, digest);
  }

  /** A missing file of a folder has no objects. The file that `--manifests` names does not lose its objects when it is missing (invariant 2). */
  #gone(file: string): void {
    const { path, store } = this.#options;
    if (file === path) store.unreadable(file, 'there is no such file or folder');
    else store.remove(file);
  }

  #doubt(file: string, digest: string | undefined): void {
    this.#doubted.set(file, digest);
    this.#options.onDoubt(file);
  }
}

/** The names of files that kubectl reads from a folder. */
const MANIFEST = /\.(ya?ml|json)$/;
/** Limit of bytes of one file: its text and its values must fit in memory together. */
export const MAX_BYTES = 64 << 20;

export type ManifestRead =
  | { readonly kind: 'same' }
  | { readonly kind: 'gone' }
  | UnreadableFile
  | (ParsedFile & { readonly draft: FileDraft });

export type ManifestList =
  | UnreadableFile
  | { readonly kind: 'files'; readonly files: readonly string[]; readonly isFolder: boolean };

/** Lists the files of `--manifests`, and reads those that changed. */
export class ManifestFiles {
  readonly #path: string;
  readonly #documents: DocumentReader;
  /** Stamp of each file when it was read. */
  readonly #stamps = new Map<string, string>();

  constructor(path: string, documents: DocumentReader) {
    this.#path = path;
    this.#documents = documents;
  }

  isWanted(file: string): boolean {
    return file === this.#path || (MANIFEST.test(basename(file)) && dirname(file) === this.#path);
  }

  /** The next read ignores the stamp, because two writes within one tick of the clock leave the same stamp. */
  invalidate(file: string): void {
    this.#stamps.delete(file);
  }

  async list(): Promise<ManifestList> {
    const listed = await this.#documents.list(this.#path);
    if (listed.kind === 'unreadable') return listed;
    if (listed.kind === 'file') return { kind: 'files', files: [this.#path], isFolder: false };
    const files = listed.names.filter((name) => MANIFEST.test(name)).map((name) => join(this.#path, name));
    return { kind: 'files', files: files.sort(), isFolder: true };
  }

  /** Reads a file into the draft, unless its stamp is the same. */
  async readIfChanged(file: string, draft: FileDraft): Promise<ManifestRead> {
    const read = await this.#documents.read({
      path: file,
      // Links in a folder must stay inside it; a file that the flag itself names may be a link to anywhere.
      within: file === this.#path ? undefined : this.#path,
      stamp: this.#stamps.get(file),
      maxBytes: MAX_BYTES,
      onValues: draft.add,
    });
    if (read.kind === 'same') return read;
    if (read.stamp === undefined) this.#stamps.delete(file);
    else this.#stamps.set(file, read.stamp);
    if (read.kind === 'read') return { ...read, draft };
    return read.code === 'ENOENT' ? { kind: 'gone' } : read;
  }

  /** A failure where a file or the folder does not answer; nothing otherwise. `now`: milliseconds of the agent's clock. */
  watches(now: number): readonly WatchStatus[] {
    const stuck = this.#documents.stuck.filter(({ path }) => path === this.#path || dirname(path) === this.#path);
    const [first] = stuck;
    if (first === undefined) return [];
    const others = stuck.length > 1 ? ` and ${stuck.length - 1} more` : '';
    const cause = `${first.path}${others} does not answer; it may be on a mount whose server is gone`;
    const since = Math.min(...stuck.map((one) => one.since));
    return [{ of: 'manifests', heardAt: now, failure: { since, isServers: false, cause } }];
  }
}
