/** Services that the kernel refused. All of them are tried again after a while, since the kernel may have changed. */
import type { Refused } from './isolate.ts';

export class RefusedServices {
  readonly services: Refused = new Map();
  readonly #period: number;
  /** When the first of them was refused, on the clock that never runs backwards. */
  #since: number | undefined;

  /** `period`: milliseconds until they are tried again. */
  constructor(period: number) {
    this.#period = period;
  }

  /** A sync begins: forget them when it is time. */
  retry(now: number): void {
    if (this.#since === undefined || now - this.#since < this.#period) return;
    this.services.clear();
    this.#since = undefined;
  }

  /** A sync that began at this time wrote. */
  written(startedAt: number): void {
    if (this.services.size > 0) this.#since ??= startedAt;
  }
}
