/**
 * When to sync (docs/semantics.md 10.6, kube-proxy's BoundedFrequencyRunner of 1.34): at once after a request, then not again
 * for `min`; after a failure no later than `retry`; without any request no later than `max`. Requests during a run or
 * its pause become one run (invariant 9).
 */
import type { Clock } from '../host/clock.ts';
import { Wait } from './wait.ts';

export interface Periods {
  /** Milliseconds between the end of a run and the next. */
  readonly min: number;
  readonly retry: number;
  readonly max: number;
}

export interface SchedulerOptions extends Periods {
  readonly clock: Clock;
  /** True when all is well; false asks for a retry. It may throw only when the scheduler is stopped. */
  readonly run: () => Promise<boolean>;
}

export class SyncScheduler {
  readonly #options: SchedulerOptions;
  readonly #wait: Wait;
  #isRequested = false;

  constructor(options: SchedulerOptions) {
    if (options.max < options.min) throw new RangeError(`max ${options.max} ms is less than min ${options.min} ms`);
    this.#options = options;
    this.#wait = new Wait(options.clock);
  }

  /** Ask for a run. Never waits. */
  request(): void {
    this.#isRequested = true;
    this.#wait.wake();
  }

  /** Run until the signal aborts. A run that goes on then is waited for. */
  async start(signal: AbortSignal): Promise<void> {
    const { clock, run, min, retry, max } = this.#options;
    let next = clock.now() + max;
    while (!signal.aborted) {
      await this.#requestOr(next, signal);
      if (signal.aborted) return;
      this.#isRequested = false;
      const isWell = await run();
      next = clock.now() + (isWell ? max : Math.min(retry, max));
      await this.#pause(min, signal);
    }
  }

  #requestOr(due: number, signal: AbortSignal): Promise<void> {
    if (this.#isRequested) return Promise.resolve();
    return this.#wait.start({ time: due - this.#options.clock.now(), isWakeable: true, signal });
  }

  #pause(milliseconds: number, signal: AbortSignal): Promise<void> {
    if (milliseconds <= 0) return Promise.resolve();
    return this.#wait.start({ time: milliseconds, isWakeable: false, signal });
  }
}
