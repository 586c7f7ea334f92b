/** Requests that wait until a version is in the kernel. They are checked when marks move, without polling. */
import type { Clock } from '../../base/clock.ts';

/** Limit of requests that wait at the same time. */
export const MAX_WAITERS = 1000;

interface Waiter {
  readonly isDone: () => boolean;
  readonly end: () => void;
}

export class Waiters {
  readonly #clock: Pick<Clock, 'after'>;
  readonly #waiters = new Set<Waiter>();

  constructor(clock: Pick<Clock, 'after'>) {
    this.#clock = clock;
  }

  get count(): number {
    return this.#waiters.size;
  }

  get isFull(): boolean {
    return this.#waiters.size >= MAX_WAITERS;
  }

  /** Resolves when `isDone` returns true, when the milliseconds are over, or when the signal aborts. */
  async wait(isDone: () => boolean, milliseconds: number, signal: AbortSignal): Promise<void> {
    if (isDone() || signal.aborted || milliseconds <= 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter: Waiter = { isDone, end: resolve };
    const cancel = this.#clock.after(milliseconds, resolve);
    signal.addEventListener('abort', waiter.end, { once: true });
    this.#waiters.add(waiter);
    try {
      await promise;
    } finally {
      cancel();
      signal.removeEventListener('abort', waiter.end);
      this.#waiters.delete(waiter);
    }
  }

  /** Ends the waits whose version is in the kernel now. Call it when marks moved. */
  check(): void {
    for (const waiter of this.#waiters) if (waiter.isDone()) waiter.end();
  }
}
