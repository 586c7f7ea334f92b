/** Watches a folder for changes, as the kernel reports them (inotify(7)). */
import { watch } from 'node:fs';
import { causeOf } from '../../base/cause.ts';

/**
 * Calls with the name of each file of the folder that changed; null where the kernel does not say. Throws when the kernel cannot watch it.
 * Call it only right after the folder was read: the call blocks the event loop, and a dead mount would hold it.
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

// The warning where the kernel cannot watch a file or folder (inotify(7)): cause, remedy, and what follows.

const FULL: Readonly<Record<string, string>> = {
  EMFILE: 'all inotify instances of this user are in use; raise fs.inotify.max_user_instances',
  ENOSPC: 'all inotify watches of this user are in use; raise fs.inotify.max_user_watches',
};

/** `period`: milliseconds between reads of the files. */
export function unwatchedText(error: unknown, period: number): string {
  const cause = FULL[(error as NodeJS.ErrnoException).code ?? ''] ?? causeOf(error);
  return `the kernel does not report changes: ${cause}. Until it does, changes are noticed within ${period / 1000} s`;
}
