/**
 * When to sync (docs/semantics.md 10.6; the rules of kube-proxy's BoundedFrequencyRunner in 1.34): at once after a request, then
 * not again for `min`; after a failure within `retry`; without a request within `max`. Requests during a run or its pause
 * become one run (invariant 9).
 */
import { type Clock, Wait } from '../../base/clock.ts';

export interface Periods {
  /** Milliseconds between the end of a run and the start of the next. */
  readonly min: number;
  readonly retry: number;
  readonly max: number;
}

export interface SchedulerOptions extends Periods {
  readonly clock: Clock;
  /** Resolves with true on success; false asks for a retry. It may throw only when the scheduler is stopped. */
  readonly run: () => Promise<boolean>;
}

export class SyncScheduler {
  readonly #options: SchedulerOptions;
  readonly #wait: Wait;
  #isRequested = false;
  #isUrgent = false;
  #isPausing = false;

  constructor(options: SchedulerOptions) {
    if (options.max < options.min) throw new RangeError(`max ${options.max} ms is less than min ${options.min} ms`);
    this.#options = options;
    this.#wait = new Wait(options.clock);
  }

  /** Requests a run. An urgent one does not wait for `min`: the caller limits how often. Never waits. */
  request(isUrgent = false): void {
    this.#isRequested = true;
    this.#isUrgent ||= isUrgent;
    if (isUrgent || !this.#isPausing) this.#wait.wake();
  }

  /** Runs until the signal aborts, and waits for the run in progress. */
  async start(signal: AbortSignal): Promise<void> {
    const { clock, run, min, retry, max } = this.#options;
    let next = clock.now() + max;
    while (!signal.aborted) {
      await this.#requestOr(next, signal);
      if (signal.aborted) return;
      this.#isRequested = false;
      this.#isUrgent = false;
      const isWell = await run();
      next = clock.now() + (isWell ? max : Math.min(retry, max));
      await this.#pause(min, signal);
    }
  }

  #requestOr(due: number, signal: AbortSignal): Promise<void> {
    if (this.#isRequested) return Promise.resolve();
    return this.#wait.start({ time: due - this.#options.clock.now(), isWakeable: true, signal });
  }

  async #pause(milliseconds: number, signal: AbortSignal): Promise<void> {
    if (milliseconds <= 0 || this.#isUrgent) return;
    this.#isPausing = true;
    await this.#wait.start({ time: milliseconds, isWakeable: true, signal });
    this.#isPausing = false;
  }
}
