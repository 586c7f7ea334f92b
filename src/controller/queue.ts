/**
 * A queue of keys, each in it once (client-go's workqueue). A key that a worker has is not given out again until it is done;
 * a key that was added meanwhile comes again. Failed keys wait 1 s, doubling to 1,000 s for each key; all keys together are
 * retried at most 10 times a second after the first 100.
 */
import { type Clock, doubledWait } from '../base/clock.ts';
import { TokenQueue } from '../base/token-bucket.ts';
import { ApiError } from '../cluster/api/client.ts';

/** Promises for the moment at which a queue has no key ready or with a worker. */
class Drain {
  readonly #waiting: (() => void)[] = [];

  /** Resolves the next time. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  reached(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

export class WorkQueue {
  readonly failures: Failures;
  readonly drain = new Drain();
  /** In the order in which workers get them. */
  readonly #ready = new Set<string>();
  readonly #working = new Set<string>();
  /** Added while a worker has them. */
  readonly #again = new Set<string>();
  readonly #delayed: DelayedKeys;
  readonly #takers: ((key: string) => void)[] = [];
  #isOpen: boolean;
  #adds = 0;

  /** A closed queue ignores keys until it is opened. */
  constructor(clock: Clock, { isOpen = true } = {}) {
    this.failures = new Failures(clock);
    this.#delayed = new DelayedKeys(clock, (key) => this.add(key));
    this.#isOpen = isOpen;
  }

  open(): void {
    this.#isOpen = true;
  }

  /** Forgets all keys, and ignores further ones. */
  close(): void {
    this.#isOpen = false;
    this.#delayed.clear();
    this.#ready.clear();
    this.#again.clear();
    this.failures.clear();
    this.drain.reached();
  }

  /** The number of keys that a worker could take now. */
  get depth(): number {
    return this.#ready.size;
  }

  get adds(): number {
    return this.#adds;
  }

  /** No key is ready, with a worker or delayed. */
  get isIdle(): boolean {
    return this.#ready.size + this.#working.size + this.#delayed.size === 0;
  }

  /** A delay of the same key goes on. If it were cancelled, failures in quick succession would put off the retry of the first. */
  add(key: string): void {
    if (!this.#isOpen) return;
    if (this.#working.has(key)) {
      this.#again.add(key);
      return;
    }
    if (this.#ready.has(key)) return;
    this.#adds += 1;
    const taker = this.#takers.shift();
    if (taker === undefined) this.#ready.add(key);
    else {
      this.#working.add(key);
      taker(key);
    }
  }

  /** Of several waits for one key the shortest counts. */
  addAfter(key: string, milliseconds: number): void {
    if (!this.#isOpen) return;
    if (milliseconds <= 0) {
      this.add(key);
      return;
    }
    this.#delayed.add(key, milliseconds);
  }

  /** Work on the key failed. The key comes again after `least` milliseconds or later. */
  retry(key: string, least = 0): void {
    this.addAfter(key, Math.max(least, this.failures.add(key)));
  }

  /** The cache is stale for the key. It comes again after a second or later, as often as needed, and that counts as no failure. */
  retryStale(key: string): void {
    this.addAfter(key, this.failures.addStale(key));
  }

  /** The next key; the caller must report it `done`. Rejects when the signal aborts. */
  take(signal: AbortSignal): Promise<string> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const [next] = this.#ready;
    if (next !== undefined) {
      this.#ready.delete(next);
      this.#working.add(next);
      return Promise.resolve(next);
    }
    return new Promise((resolve, reject) => {
      const taker = (key: string) => {
        signal.removeEventListener('abort', onAbort);
        resolve(key);
      };
      const onAbort = () => {
        this.#takers.splice(this.#takers.indexOf(taker), 1);
        reject(signal.reason);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#takers.push(taker);
    });
  }

  done(key: string): void {
    this.#working.delete(key);
    if (this.#again.delete(key)) this.add(key);
    if (this.#ready.size + this.#working.size === 0) this.drain.reached();
  }
}

interface Waiting {
  readonly at: number;
  readonly cancel: () => void;
}

/** Keys that wait for a time before they enter a queue. */
class DelayedKeys {
  readonly #clock: Clock;
  readonly #onTime: (key: string) => void;
  readonly #waiting = new Map<string, Waiting>();

  constructor(clock: Clock, onTime: (key: string) => void) {
    this.#clock = clock;
    this.#onTime = onTime;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Of several waits for one key the shortest counts. */
  add(key: string, milliseconds: number): void {
    const at = this.#clock.now() + milliseconds;
    const before = this.#waiting.get(key);
    if (before !== undefined && before.at <= at) return;
    before?.cancel();
    const onTime = () => {
      this.#waiting.delete(key);
      this.#onTime(key);
    };
    this.#waiting.set(key, { at, cancel: this.#clock.after(milliseconds, onTime) });
  }

  clear(): void {
    for (const { cancel } of this.#waiting.values()) cancel();
    this.#waiting.clear();
  }
}

/** The wait after the first failure, and the longest wait. */
const FIRST_WAIT_MS = 1000;
const MAX_WAIT_MS = 1_000_000;
/** The rate of retries of all keys. */
const RETRY_RATE = { burst: 100, refill: 100 };

/** Failures of the keys of a queue in a row, and how long each retry waits (client-go's workqueue). */
class Failures {
  readonly #clock: Clock;
  readonly #inARow = new Map<string, number>();
  /** Keys for which the cache was stale the last time. */
  readonly #stale = new Set<string>();
  readonly #tokens = new TokenQueue(RETRY_RATE);
  #retries = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The number of retries of all keys so far. */
  get retries(): number {
    return this.#retries;
  }

  /** The number of failures of the key in a row. */
  of(key: string): number {
    return this.#inARow.get(key) ?? 0;
  }

  /** Whether the key waits for a retry. */
  has(key: string): boolean {
    return this.#inARow.has(key) || this.#stale.has(key);
  }

  /** Returns the milliseconds until the retry. */
  addStale(key: string): number {
    this.#stale.add(key);
    this.#retries += 1;
    return Math.max(this.#tokens.take(this.#clock.now()), FIRST_WAIT_MS);
  }

  /** Counts a failure. Returns the milliseconds until the retry, which grow with each failure in a row. */
  add(key: string): number {
    const failures = this.of(key);
    this.#stale.delete(key);
    this.#inARow.set(key, failures + 1);
    this.#retries += 1;
    return Math.max(this.#tokens.take(this.#clock.now()), doubledWait(failures + 1, FIRST_WAIT_MS, MAX_WAIT_MS));
  }

  /** Work on the key succeeded, or is given up. */
  forget(key: string): void {
    this.#inARow.delete(key);
    this.#stale.delete(key);
  }

  clear(): void {
    this.#inARow.clear();
    this.#stale.clear();
  }
}

// Workers. A failed key is retried 15 times, and then left until something about it changes, or half a day is over. A key that waits for
// the cache is never given up.

/** kube-controller-manager's. */
const MAX_RETRIES = 15;
/** Milliseconds until a key that was given up is tried again: the resync period of kube-controller-manager's informers. */
const RESYNC_MS = 12 * 60 * 60 * 1000;

/** The cache does not show the last writes yet, so the sync must wait. */
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

/** Opens the queue, adds these keys, and works until the signal aborts. The queue is emptied then. */
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

/** Works until the signal aborts. The queue keeps its keys. */
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
        // The cache catches up in the end.
        const isLast = queue.failures.of(key) >= MAX_RETRIES;
        if (!isStale) onFailure(key, cause, isLast);
        if (isStale) queue.retryStale(key);
        else if (isLast) {
          queue.failures.forget(key);
          queue.addAfter(key, RESYNC_MS);
        } else queue.retry(key, cause instanceof ApiError ? cause.retryAfter : undefined);
      } else queue.add(key);
    } finally {
      queue.done(key);
    }
  }
}
