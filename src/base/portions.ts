/** Long work, and many short requests, in portions between which the event loop runs other work. */
import { breath } from './clock.ts';

/** Milliseconds of a portion. */
const PORTION_MS = 10;
/** Values between two readings of the clock. */
const STRIDE = 32;

/** Calls `take` with each value. Rejects with the signal's reason when it aborts. */
export async function inPortions<T>(values: Iterable<T>, take: (value: T) => void, signal: AbortSignal): Promise<void> {
  let began = performance.now();
  let count = 0;
  for (const value of values) {
    take(value);
    count += 1;
    if (count % STRIDE !== 0 || performance.now() - began < PORTION_MS) continue;
    await breath();
    signal.throwIfAborted();
    began = performance.now();
  }
}

/**
 * Bounds the time that requests from outside take of each round of the event loop: those that one round answers take a portion together, and
 * the others wait for the next round, so that other work of the process runs in between.
 */
export class Rounds {
  /** In the order in which they came. */
  readonly #waiting: (() => void)[] = [];
  /** When the portion of the present round began; undefined before its first request. */
  #began: number | undefined;

  /** Whether the present round has time for one more request. If not, `later` is called in a later round, in order. */
  enter(later: () => void): boolean {
    if (this.#waiting.length === 0 && this.#hasTime()) return true;
    this.#waiting.push(later);
    return false;
  }

  #hasTime(): boolean {
    if (this.#began === undefined) this.#begin();
    return performance.now() - (this.#began ?? 0) < PORTION_MS;
  }

  #begin(): void {
    this.#began = performance.now();
    setImmediate(() => this.#next());
  }

  #next(): void {
    this.#began = undefined;
    if (this.#waiting.length === 0) return;
    this.#begin();
    // At least one request in each round, however long it takes.
    do this.#waiting.shift()?.();
    while (this.#waiting.length > 0 && this.#hasTime());
  }
}
