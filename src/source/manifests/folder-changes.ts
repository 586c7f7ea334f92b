/** Which files of a folder changed, as the kernel reports it (inotify(7)). */
import { type FSWatcher, watch } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../host/clock.ts';

export interface FolderChangesOptions {
  readonly clock: Clock;
  readonly isWanted: (file: string) => boolean;
  /** Called at once for each report; `next` returns later. */
  readonly onChange: (file: string) => void;
  /** The kernel cannot watch the folder; called for the first failure only. */
  readonly onUnwatched: (error: unknown) => void;
}

export class FolderChanges {
  readonly #options: FolderChangesOptions;
  readonly #changed = new Set<string>();
  #watcher: FSWatcher | undefined;
  #hasFailed = false;
  #wake: (() => void) | undefined;

  constructor(options: FolderChangesOptions) {
    this.#options = options;
  }

  get isWatching(): boolean {
    return this.#watcher !== undefined;
  }

  /** Call it only right after the folder was listed: the call blocks the event loop, and a dead mount would hold it. */
  watch(folder: string, signal: AbortSignal): void {
    try {
      const watcher = watch(folder, { signal }, (_, name) => {
        if (name !== null && this.#options.isWanted(join(folder, name))) this.add(join(folder, name));
      });
      this.#watcher = watcher;
      // The watch of a folder ends when the folder goes away; the next rescan reports what it finds.
      watcher.on('error', () => {
        watcher.close();
        if (this.#watcher === watcher) this.#watcher = undefined;
      });
    } catch (error) {
      if (this.#hasFailed) return;
      this.#hasFailed = true;
      this.#options.onUnwatched(error);
    }
  }

  add(file: string): void {
    this.#changed.add(file);
    this.#options.onChange(file);
    this.#wake?.();
  }

  /** Wait for a change; false when the time is up, or the signal aborts, first. */
  next(milliseconds: number, signal: AbortSignal): Promise<boolean> {
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

  /** All files that changed; each is returned once. */
  take(): string[] {
    const files = [...this.#changed];
    this.#changed.clear();
    return files;
  }
}
