/** Follows the file that --config names. A ConfigMap changes by a symbolic link beside the file, and editors replace files: the folder is watched, and the content compared. */
import { dirname } from 'node:path';
import { causeOf } from '../base/cause.ts';
import { type Clock, sleep, unlessAborted } from '../base/clock.ts';
import { unwatchedText } from '../cluster/source/unwatched.ts';
import type { FolderWatch } from '../cluster/source/watch-folder.ts';
import { type Files, realPlatform } from './platform.ts';

/** Milliseconds from the first event to reading: one save makes several events. */
const SETTLE_MS = 100;
/** Milliseconds between two checks of the file, for changes without an event. */
const CHECK = 10_000;

export interface ConfigWatch {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Digest of the file as it was read last. */
  readonly before: string | undefined;
  readonly onChange: () => Promise<void>;
  readonly warn: (text: string) => void;
  readonly files?: Pick<Files, 'readOne' | 'watch'>;
}

/** Calls `onChange` after each change of the content, until the signal aborts. A missing or unreadable file is no change, but a warning. */
export async function watchConfigFile(path: string, options: ConfigWatch): Promise<void> {
  const { clock, signal, onChange, warn, files = realPlatform.files } = options;
  let { before } = options;
  // Check at once: the file may have changed since it was read, before the watch began.
  let isFirst = true;
  let isReported = false;
  let wake = () => {};
  let isUnreadable = false;
  const onEvent = () => {
    isReported = true;
    wake();
  };
  const watcher = startWatch(files, dirname(path), onEvent, (text) => warn(`--config ${path}: ${text}`));
  try {
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      if (!isFirst && !isReported) await Promise.race([woken, sleep(clock, CHECK, signal)]);
      isFirst = false;
      await sleep(clock, SETTLE_MS, signal);
      isReported = false;
      const now = await unlessAborted(digestOf(path, files), signal);
      // One warning; none for an editor that is replacing the file, which makes another event.
      if ('problem' in now && !isUnreadable && !isReported)
        warn(`--config ${path}: cannot be read: ${now.problem}; the former configuration stays in force`);
      isUnreadable = 'problem' in now;
      if ('problem' in now || now.digest === before) continue;
      before = now.digest;
      await onChange();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    watcher?.close();
  }
}

/** undefined where the folder cannot be watched: the periodic check remains. Call it after the file was read: on a dead mount it would block the event loop. */
function startWatch(
  files: Pick<Files, 'watch'>,
  folder: string,
  call: () => void,
  warn: (text: string) => void,
): FolderWatch | undefined {
  try {
    const watcher = files.watch(folder, call);
    watcher.onEnd(() => watcher.close());
    return watcher;
  } catch (error) {
    warn(unwatchedText(error, CHECK));
    return undefined;
  }
}

async function digestOf(
  path: string,
  files: Pick<Files, 'readOne'>,
): Promise<{ readonly digest: string } | { readonly problem: string }> {
  try {
    return await files.readOne(path);
  } catch (error) {
    return { problem: causeOf(error) };
  }
}
