/** Follows the file that --config names. A ConfigMap is replaced by a symbolic link beside it, an editor may replace the file: so its folder is watched, and the content compared. */
import { type FSWatcher, watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Clock, sleep } from '../host/clock.ts';

/** Milliseconds from a first change to reading: one save makes several events. */
const SETTLE = 100;
/** Milliseconds between looks at the file, for changes that nobody tells. */
const LOOK = 10_000;

export interface ConfigWatch {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** What the file said when it was read. */
  readonly before: string | undefined;
  readonly onChange: () => Promise<void>;
}

/** Calls `onChange` after each change of the content, until the signal aborts. A file that is gone for a moment, or unreadable, is no change. */
export async function watchConfigFile(path: string, options: ConfigWatch): Promise<void> {
  const { clock, signal, onChange } = options;
  let { before } = options;
  // The first look may be too late for a change that came since the file was read.
  let isFirst = true;
  let isTold = false;
  let wake = () => {};
  const watcher = startWatch(dirname(path), () => {
    isTold = true;
    wake();
  });
  try {
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      if (!isFirst && !isTold) await Promise.race([woken, sleep(clock, LOOK, signal)]);
      isFirst = false;
      await sleep(clock, SETTLE, signal);
      isTold = false;
      const now = await contentOf(path);
      if (now === undefined || now === before) continue;
      before = now;
      await onChange();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    watcher?.close();
  }
}

/** undefined where nothing can be watched: then the file is looked at now and then. */
function startWatch(folder: string, call: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(folder, call);
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}

async function contentOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return undefined;
  }
}
