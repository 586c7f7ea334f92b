/** Times of the clock that never goes backwards as moments of answers. Pure. */

import type { Clock } from '../base/clock.ts';
import { momentOf } from '../inspect/wire/envelope.ts';

/** Milliseconds by which the two clocks may drift apart before moments follow. */
const DRIFT = 1000;

export class WallClock {
  readonly #clock: Pick<Clock, 'now' | 'wall'>;
  #offset: number;

  constructor(clock: Pick<Clock, 'now' | 'wall'>) {
    this.#clock = clock;
    this.#offset = Math.round(clock.wall() - clock.now());
  }

  /** The same time is the same moment each time, unless somebody sets the machine's clock. */
  of(at: number): string {
    return momentOf(this.wallOf(at));
  }

  /** Milliseconds since 1970. */
  wallOf(at: number): number {
    const offset = Math.round(this.#clock.wall() - this.#clock.now());
    if (Math.abs(offset - this.#offset) > DRIFT) this.#offset = offset;
    return this.#offset + at;
  }
}
