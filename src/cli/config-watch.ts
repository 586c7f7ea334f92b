/** Follows the file that --config names. A ConfigMap is replaced by a symbolic link beside it, an editor may replace the file: so its folder is watched, and the content compared. */
import { type FSWatcher, watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Clock, sleep } from '../host/clock.ts';

/** Milliseconds from a first change to reading: one save makes several events. */
const SETTLE = 100;
/** Milliseconds between looks at the file, for changes that nobody tells. */
const LOOK = 10_000;

/** Calls `onChange` after each change of the content, until the signal aborts. A file that is gone for a moment, or unreadable, is no change. */
export async function watchConfigFile(
  path: string,
  {
    clock,
    signal,
    onChange,
  }: { readonly clock: Clock; readonly signal: AbortSignal; readonly onChange: () => Promise<void> },
): Promise<void> {
  let before = await contentOf(path);
  let wake = () => {};
  const watcher = startWatch(dirname(path), () => wake());
  try {
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const look = new AbortController();
      await Promise.race([woken, sleep(clock, LOOK, AbortSignal.any([signal, look.signal]))]);
      look.abort();
      await sleep(clock, SETTLE, signal);
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
