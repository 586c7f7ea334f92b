/** Failures of the keys of a queue in a row, and how long each retry waits (client-go's workqueue). */
import type { Clock } from '../base/clock.ts';

/** Milliseconds. */
const FIRST_WAIT = 1000;
const MOST_WAIT = 1_000_000;
/** Retries of all keys at once, and milliseconds for each one more. */
const BURST = 100;
const REFILL = 100;

export class Failures {
  readonly #clock: Clock;
  readonly #inARow = new Map<string, number>();
  /** When the bucket of retries is empty, the next retry waits until this time. */
  #nextRetryAt = Number.NEGATIVE_INFINITY;
  #retries = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The number of retries of all keys so far. */
  get retries(): number {
    return this.#retries;
  }

  /** How often work on the key failed in a row. */
  of(key: string): number {
    return this.#inARow.get(key) ?? 0;
  }

  /** Count a failure. Returns the milliseconds until the retry: longer after each failure in a row. */
  add(key: string): number {
    const failures = this.of(key);
    this.#inARow.set(key, failures + 1);
    this.#retries += 1;
    return Math.max(this.#untilToken(), Math.min(MOST_WAIT, FIRST_WAIT * 2 ** Math.min(failures, 20)));
  }

  /** Work on the key succeeded, or is given up. */
  forget(key: string): void {
    this.#inARow.delete(key);
  }

  clear(): void {
    this.#inARow.clear();
  }

  /** Milliseconds until the bucket admits one more retry. */
  #untilToken(): number {
    const now = this.#clock.now();
    this.#nextRetryAt = Math.max(this.#nextRetryAt, now - BURST * REFILL) + REFILL;
    return Math.max(0, this.#nextRetryAt - now);
  }
}
