/** Changes of the files of a folder, as the kernel reports them (inotify(7)). */
import { watch } from 'node:fs';
import { join } from 'node:path';
import { causeOf } from '../../base/cause.ts';
import type { Clock } from '../../base/clock.ts';

/**
 * Calls `call` with the name of each file of the folder that changed, or with null when the kernel names no file. Throws when the kernel
 * cannot watch the folder. Call it only right after the folder was read: it blocks the event loop, and a dead mount would hold it.
 */
export type WatchFolder = (folder: string, call: (name: string | null) => void) => FolderWatch;

export interface FolderWatch {
  /** The watch of a folder ends when the folder goes away. */
  onEnd(call: () => void): void;
  close(): void;
}

export const watchFolder: WatchFolder = (folder, call) => {
  const watcher = watch(folder, (_, name) => call(name));
  return {
    onEnd: (ended) => void watcher.on('error', ended),
    close: () => watcher.close(),
  };
};

interface FolderChangesOptions {
  readonly clock: Clock;
  readonly watchFolder?: WatchFolder | undefined;
  readonly isWanted: (file: string) => boolean;
  /** Called at once for each change; `next` resolves later. */
  readonly onChange: (file: string) => void;
  /** The kernel cannot watch the folder; called for the first failure only. */
  readonly onUnwatched: (error: unknown) => void;
}

/** Collects the files that changed until they are read. */
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

  /** Call it only right after the folder was listed: it blocks the event loop, and a dead mount would hold it. */
  watch(folder: string, signal: AbortSignal): void {
    // A watch that starts now would never end, and would keep the process alive.
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

  /** Waits for a change; false when the time is up, or the signal aborts, first. */
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

  /** Returns the files that changed, and forgets them. */
  drain(): string[] {
    const files = [...this.#changed];
    this.#changed.clear();
    return files;
  }
}

/** Remedies by the error of inotify(7). */
const LIMITS_REACHED: Readonly<Record<string, string>> = {
  EMFILE: 'all inotify instances of this user are in use; raise fs.inotify.max_user_instances',
  ENOSPC: 'all inotify watches of this user are in use; raise fs.inotify.max_user_watches',
};

/** The warning when the kernel cannot watch a file or folder. `period`: milliseconds between reads of the files. */
export function unwatchedText(error: unknown, period: number): string {
  const cause = LIMITS_REACHED[(error as NodeJS.ErrnoException).code ?? ''] ?? causeOf(error);
  return `the kernel does not report changes: ${cause}. Until it does, changes are noticed within ${period / 1000} s`;
}
