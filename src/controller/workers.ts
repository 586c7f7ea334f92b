/**
 * Workers of a queue. A failed key is retried 15 times, then left until something about it changes, or half a day is over.
 * A key that waits for the cache is never given up.
 */
import { ApiError } from '../cluster/api/client.ts';
import type { WorkQueue } from './queue.ts';

/** As in kube-controller-manager. */
const MAX_RETRIES = 15;
/** Milliseconds until a key that was given up is tried again: the resync period of kube-controller-manager's informers. */
const RESYNC = 12 * 60 * 60 * 1000;

/** The cache does not show the last writes yet: the sync must wait. */
export class StaleCache extends Error {
  readonly code = 'STALE_CACHE';
}

export type SyncResult = 'success' | 'stale' | 'error';

export interface WorkersOptions {
  readonly queue: WorkQueue;
  readonly workers: number;
  readonly sync: (key: string, signal: AbortSignal) => Promise<void>;
  readonly onResult?: (result: SyncResult) => void;
  /** `isLast`: the key is not retried until something about it changes, or half a day is over. */
  readonly onFailure: (key: string, error: Error, isLast: boolean) => void;
}

/** Open the queue, add these keys, and work until the signal aborts; the queue is emptied then. */
export async function workOff(keys: Iterable<string>, options: WorkersOptions, signal: AbortSignal): Promise<void> {
  const { queue } = options;
  queue.open();
  for (const key of keys) queue.add(key);
  try {
    await runWorkers(options, signal);
  } finally {
    queue.close();
  }
}

/** Work until the signal aborts. The queue keeps its keys. */
export async function runWorkers(options: WorkersOptions, signal: AbortSignal): Promise<void> {
  await Promise.all(Array.from({ length: options.workers }, () => work(options, signal)));
}

async function work({ queue, sync, onResult, onFailure }: WorkersOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const key = await queue.take(signal).catch(() => undefined);
    if (key === undefined) return;
    try {
      await sync(key, signal);
      onResult?.('success');
      queue.failures.forget(key);
    } catch (error) {
      const cause = error instanceof Error ? error : new Error(String(error));
      if (!signal.aborted) {
        const isStale = cause instanceof StaleCache;
        onResult?.(isStale ? 'stale' : 'error');
        // The cache catches up in the end: a key that waits for it is never given up.
        const isLast = !isStale && queue.failures.of(key) >= MAX_RETRIES;
        if (!isStale) onFailure(key, cause, isLast);
        if (isLast) {
          queue.failures.forget(key);
          queue.addAfter(key, RESYNC);
        } else queue.retry(key, cause instanceof ApiError ? cause.retryAfter : undefined);
      } else queue.add(key);
    } finally {
      queue.done(key);
    }
  }
}
