/**
 * A queue of keys, each in it once (client-go's workqueue): who is worked on is not given out again until it is done, and
 * a key that was added meanwhile comes again. Failures wait: 1 s doubling to 1,000 s for each key, and all of them together
 * at most 10 a second after the first 100.
 */
import type { Clock } from '../host/clock.ts';

/** Milliseconds. */
const FIRST_WAIT = 1000;
const MOST_WAIT = 1_000_000;
/** Retries of all keys at once, and milliseconds for each one more. */
const BURST = 100;
const REFILL = 100;

interface Waiting {
  readonly at: number;
  readonly cancel: () => void;
}

export class WorkQueue {
  readonly #clock: Clock;
  /** In the order in which they are given out. */
  readonly #ready = new Set<string>();
  readonly #working = new Set<string>();
  /** Added while they are worked on. */
  readonly #again = new Set<string>();
  readonly #waiting = new Map<string, Waiting>();
  readonly #failures = new Map<string, number>();
  readonly #takers: ((key: string) => void)[] = [];
  /** When the bucket of retries is empty, what comes next waits until its turn. */
  #nextRetryAt = Number.NEGATIVE_INFINITY;
  #isOpen: boolean;
  #adds = 0;
  #retries = 0;

  /** A closed one takes nothing until it is opened. */
  constructor(clock: Clock, { isOpen = true } = {}) {
    this.#clock = clock;
    this.#isOpen = isOpen;
  }

  open(): void {
    this.#isOpen = true;
  }

  /** Nothing is to be done any more: what waits is forgotten, and nothing comes in. */
  close(): void {
    this.#isOpen = false;
    this.clear();
  }

  /** Keys that could be given out now. */
  get depth(): number {
    return this.#ready.size;
  }

  get adds(): number {
    return this.#adds;
  }

  get retries(): number {
    return this.#retries;
  }

  /** Nothing is ready, worked on or waits. */
  get isIdle(): boolean {
    return this.#ready.size + this.#working.size + this.#waiting.size === 0;
  }

  /** A wait for the key goes on: were it given up, failures in quick succession would put off the retry of the first. */
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
    const at = this.#clock.now() + milliseconds;
    const before = this.#waiting.get(key);
    if (before !== undefined && before.at <= at) return;
    before?.cancel();
    const onTime = () => {
      this.#waiting.delete(key);
      this.add(key);
    };
    this.#waiting.set(key, { at, cancel: this.#clock.after(milliseconds, onTime) });
  }

  /** Work on the key failed: it comes again, the later the more often it failed in a row, and not sooner than `least` milliseconds. */
  retry(key: string, least = 0): void {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    this.#retries += 1;
    this.addAfter(key, Math.max(least, this.#turn(), Math.min(MOST_WAIT, FIRST_WAIT * 2 ** Math.min(failures, 20))));
  }

  /** How often work on the key failed in a row. */
  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** Work on the key succeeded, or is given up. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** The next key; it must be told to be `done`. Rejects when the signal aborts. */
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
  }

  /** Nothing is to be done any more. */
  clear(): void {
    for (const { cancel } of this.#waiting.values()) cancel();
    this.#waiting.clear();
    this.#ready.clear();
    this.#again.clear();
    this.#failures.clear();
  }

  /** Milliseconds until the bucket admits one more retry. */
  #turn(): number {
    const now = this.#clock.now();
    this.#nextRetryAt = Math.max(this.#nextRetryAt, now - BURST * REFILL) + REFILL;
    return Math.max(0, this.#nextRetryAt - now);
  }
}
