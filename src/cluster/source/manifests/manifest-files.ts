/** The files of `--manifests`: which there are, and what those say that changed since they were read. */
import { basename, dirname, join } from 'node:path';
import type { WatchStatus } from '../../../proxy/model/events.ts';
import type { DocumentReader } from '../../documents/files.ts';
import type { ParsedFile, UnreadableFile } from '../../documents/protocol.ts';
import type { FileDraft } from './manifest-store.ts';

/** The files that kubectl reads from a folder. */
const MANIFEST = /\.(ya?ml|json)$/;
/** Bytes of one file: its text and its values must fit in memory beside each other. */
export const MAX_BYTES = 64 << 20;

export type ManifestRead =
  | { readonly kind: 'same' }
  | { readonly kind: 'gone' }
  | UnreadableFile
  | (ParsedFile & { readonly draft: FileDraft });

export type ManifestList =
  | UnreadableFile
  | { readonly kind: 'files'; readonly files: readonly string[]; readonly isFolder: boolean };

export class ManifestFiles {
  readonly #path: string;
  readonly #documents: DocumentReader;
  /** Modification time and size of each file when it was read. */
  readonly #stamps = new Map<string, string>();

  constructor(path: string, documents: DocumentReader) {
    this.#path = path;
    this.#documents = documents;
  }

  isWanted(file: string): boolean {
    return file === this.#path || (MANIFEST.test(basename(file)) && dirname(file) === this.#path);
  }

  /** Read the file again, even if its stamp stays the same: two writes within one tick of the clock leave the same stamp. */
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

  /** Read a file into the draft, unless it is as it was. */
  async readIfChanged(file: string, draft: FileDraft): Promise<ManifestRead> {
    const read = await this.#documents.read({
      path: file,
      // Links in a folder must stay inside it; a file that is named itself may be a link to anywhere.
      within: file === this.#path ? undefined : this.#path,
      stamp: this.#stamps.get(file),
      most: MAX_BYTES,
      onValues: draft.take,
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
