/** The Services that the kernel refused. All of them are tried again after a while, because the kernel may have changed. */
import type { Refused } from './isolate.ts';

export class RefusedServices {
  readonly services: Refused = new Map();
  readonly #period: number;
  /** Time of the first refusal, on the monotonic clock. */
  #since: number | undefined;

  /** `period`: milliseconds until the Services are tried again. */
  constructor(period: number) {
    this.#period = period;
  }

  /** Called at the start of a sync: forgets the Services when the period is over. */
  retry(now: number): void {
    if (this.#since === undefined || now - this.#since < this.#period) return;
    this.services.clear();
    this.#since = undefined;
  }

  /** Called after a sync that began at this time has written. */
  written(startedAt: number): void {
    if (this.services.size > 0) this.#since ??= startedAt;
  }
}
