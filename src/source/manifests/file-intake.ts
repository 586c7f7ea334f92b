/** What one read of a file means for the objects that are held: a file that lost objects is believed at the second read. */
import type { ManifestRead } from './manifest-files.ts';
import type { ManifestStore } from './store.ts';

export interface FileIntakeOptions {
  /** The folder or file of `--manifests`. */
  readonly path: string;
  readonly store: ManifestStore;
  /** Read the file again after a while. */
  readonly onDoubt: (file: string) => void;
}

export class FileIntake {
  readonly #options: FileIntakeOptions;
  /** Files that lost objects or are gone, with the digest of their first read (undefined: gone). */
  readonly #doubted = new Map<string, string | undefined>();
  readonly #unread = new Map<string, string>();

  constructor(options: FileIntakeOptions) {
    this.#options = options;
  }

  /** Files whose last read failed without a look at their content, with the cause: nobody knows what they define. */
  get unread(): ReadonlyMap<string, string> {
    return this.#unread;
  }

  /**
   * A file that lost objects, or is gone, may be in the middle of being saved: an editor empties it first, or moves it
   * away. The loss counts when a second read finds the same.
   */
  take(file: string, read: ManifestRead): void {
    const { store } = this.#options;
    if (read.kind === 'same') return;
    this.#unread.delete(file);
    if (read.kind === 'unreadable') {
      if (read.stamp === undefined && read.isRefused !== true) this.#unread.set(file, read.cause);
      store.unreadable(file, read.cause);
      return;
    }
    const digest = read.kind === 'gone' ? undefined : read.digest;
    const isSure = this.#doubted.has(file) && this.#doubted.get(file) === digest;
    this.#doubted.delete(file);
    if (read.kind === 'gone') {
      if (isSure) this.#gone(file);
      else this.#doubt(file, undefined);
    } else if (isSure && store.empties(read.draft)) store.emptied(file);
    else if (isSure || !store.loses(read.draft, read)) store.set(read.draft, read);
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
