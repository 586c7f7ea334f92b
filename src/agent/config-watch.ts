/** Follows the file that --config names. A ConfigMap is replaced by a symbolic link beside it, an editor may replace the file: so its folder is watched, and the content compared. */
import { type FSWatcher, watch } from 'node:fs';
import { dirname } from 'node:path';
import { readOneFile } from '../documents/one-file.ts';
import { type Clock, sleep, unlessAborted } from '../host/clock.ts';
import { causeOf } from '../model/cause.ts';
import { unwatchedText } from '../source/unwatched.ts';

/** Milliseconds from a first change to reading: one save makes several events. */
const SETTLE = 100;
/** Milliseconds between looks at the file, for changes that nobody tells. */
const LOOK = 10_000;

export interface ConfigWatch {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Digest of what the file said when it was read. */
  readonly before: string | undefined;
  readonly onChange: () => Promise<void>;
  readonly warn: (text: string) => void;
}

/** Calls `onChange` after each change of the content, until the signal aborts. A file that is gone for a moment, or unreadable, is no change. */
export async function watchConfigFile(path: string, options: ConfigWatch): Promise<void> {
  const { clock, signal, onChange, warn } = options;
  let { before } = options;
  // The first look may be too late for a change that came since the file was read.
  let isFirst = true;
  let isReported = false;
  let wake = () => {};
  let isUnreadable = false;
  const onEvent = () => {
    isReported = true;
    wake();
  };
  const watcher = startWatch(dirname(path), onEvent, (text) => warn(`--config ${path}: ${text}`));
  try {
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      if (!isFirst && !isReported) await Promise.race([woken, sleep(clock, LOOK, signal)]);
      isFirst = false;
      await sleep(clock, SETTLE, signal);
      isReported = false;
      const now = await unlessAborted(digestOf(path), signal);
      // Told once: an editor that replaces the file is done before the next look.
      if ('problem' in now && !isUnreadable && !isReported)
        warn(`--config ${path}: cannot be read: ${now.problem}; what it said before stays in force`);
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

/** undefined where nothing can be watched: then the file is looked at now and then. The folder was just read from: a mount that is dead would keep the loop. */
function startWatch(folder: string, call: () => void, warn: (text: string) => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, call);
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch (error) {
    warn(unwatchedText(error, LOOK));
    return undefined;
  }
}

async function digestOf(path: string): Promise<{ readonly digest: string } | { readonly problem: string }> {
  try {
    return await readOneFile(path);
  } catch (error) {
    return { problem: causeOf(error) };
  }
}
