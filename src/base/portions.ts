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
  #began: number | undefined;

  /** Whether the present round has time for one more. If not, ask again in `setImmediate`. */
  hasTime(): boolean {
    const now = performance.now();
    if (this.#began === undefined) {
      this.#began = now;
      setImmediate(() => {
        this.#began = undefined;
      });
    }
    return now - this.#began < PORTION_MS;
  }
}
