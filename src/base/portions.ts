/** Long work, and many short works, in portions, between which the event loop runs other work. */
import { breath } from './clock.ts';

/** Milliseconds of a portion. */
const PORTION_MS = 10;
/** Values between two looks at the clock. */
const STRIDE = 32;

/** Hands each value to `take`. Throws the signal's reason when it aborts. */
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
 * Requests from outside, as many as may come at once: those that one round of the event loop answers take a portion in all, and the others
 * wait for the next round. Other work of the process has its turn in between.
 */
export class Rounds {
  /** In the order in which they came. */
  readonly #waiting: (() => void)[] = [];
  /** When the portion of the present round began; undefined: it has had no request. */
  #began: number | undefined;

  /** Whether the present round has time for one more. If not, `later` is called in a later round, after those that came before. */
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
    // One at least, however long this takes.
    do this.#waiting.shift()?.();
    while (this.#waiting.length > 0 && this.#hasTime());
  }
}
