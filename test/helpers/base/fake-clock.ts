/** A clock that a test moves. */
import type { Clock } from '../../../src/base/clock.ts';

interface Timer {
  readonly at: number;
  readonly call: () => void;
}

export interface FakeClockOptions {
  /** Every wait ends at once and moves the time: for runs with many retries. */
  readonly hurried?: boolean;
}

export class FakeClock implements Clock {
  /** The milliseconds of every wait, in order. */
  readonly waits: number[] = [];
  readonly #hurried: boolean;
  readonly #timers = new Set<Timer>();
  #now = 0;
  #wallOffset = 0;

  constructor({ hurried = false }: FakeClockOptions = {}) {
    this.#hurried = hurried;
  }

  now(): number {
    return this.#now;
  }

  wall(): number {
    return Date.UTC(2026, 10, 21) + this.#now + this.#wallOffset;
  }

  /** Somebody sets the machine's clock: so many milliseconds further, or back. */
  setWallBy(milliseconds: number): void {
    this.#wallOffset += milliseconds;
  }

  after(milliseconds: number, call: () => void): () => void {
    this.waits.push(milliseconds);
    const timer = { at: this.#now + milliseconds, call };
    this.#timers.add(timer);
    if (this.#hurried) setImmediate(() => this.#timers.has(timer) && this.advance(timer.at - this.#now));
    return () => this.#timers.delete(timer);
  }

  /** The number of pending waits. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Moves the time, and makes the calls that are due, the earliest first. */
  advance(milliseconds: number): void {
    const end = this.#now + Math.max(0, milliseconds);
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.call();
    }
    this.#now = end;
  }

  /** Moves the time to the end of the longest wait. */
  finishWaits(): void {
    this.advance(Math.max(0, ...[...this.#timers].map(({ at }) => at)) - this.#now);
  }
}
