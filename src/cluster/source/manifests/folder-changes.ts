/** Which files of a folder changed, as the kernel reports it (inotify(7)). */
import { join } from 'node:path';
import type { Clock } from '../../../base/clock.ts';
import { type FolderWatch, type WatchFolder, watchFolder } from '../watch-folder.ts';

export interface FolderChangesOptions {
  readonly clock: Clock;
  readonly watchFolder?: WatchFolder | undefined;
  readonly isWanted: (file: string) => boolean;
  /** Called at once for each report; `next` returns later. */
  readonly onChange: (file: string) => void;
  /** The kernel cannot watch the folder; called for the first failure only. */
  readonly onUnwatched: (error: unknown) => void;
}

export class FolderChanges {
  readonly #options: FolderChangesOptions;
  readonly #changed = new Set<string>();
  #watcher: FolderWatch | undefined;
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
    // Nobody would end the watch, and it would keep the process alive.
    if (signal.aborted) return;
    const { isWanted, watchFolder: start = watchFolder } = this.#options;
    try {
      const watcher = start(folder, (name) => {
        if (name !== null && isWanted(join(folder, name))) this.add(join(folder, name));
      });
      this.#watcher = watcher;
      const end = () => {
        signal.removeEventListener('abort', end);
        watcher.close();
        if (this.#watcher === watcher) this.#watcher = undefined;
      };
      // The next rescan reports what it finds.
      watcher.onEnd(end);
      signal.addEventListener('abort', end, { once: true });
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
