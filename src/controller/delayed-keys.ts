/** Keys that wait for a time before they enter a queue. */
import type { Clock } from '../base/clock.ts';

interface Waiting {
  readonly at: number;
  readonly cancel: () => void;
}

export class DelayedKeys {
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
