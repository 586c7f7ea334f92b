/** A call that is due once: at the earliest of the moments that were asked for since the last one. */
import type { Clock } from '../base/clock.ts';

export class Deadline {
  readonly #clock: Pick<Clock, 'now' | 'after'>;
  readonly #call: () => void;
  #at = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => undefined;

  /** `call` must not throw: a timer calls it. It may ask for the next moment. */
  constructor(clock: Pick<Clock, 'now' | 'after'>, call: () => void) {
    this.#clock = clock;
    this.#call = call;
  }

  /** Not later than at this moment of the clock, in milliseconds. */
  by(moment: number): void {
    if (moment >= this.#at) return;
    this.#cancel();
    this.#at = moment;
    this.#cancel = this.#clock.after(Math.max(0, moment - this.#clock.now()), () => {
      this.#at = Number.POSITIVE_INFINITY;
      this.#call();
    });
  }

  /** Not at all. */
  cancel(): void {
    this.#cancel();
    this.#at = Number.POSITIVE_INFINITY;
  }
}
