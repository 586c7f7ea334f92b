/** Turns times of the monotonic clock into moments for answers. Pure. */
import type { Clock } from '../base/clock.ts';
import { momentOf } from '../inspect/wire/envelope.ts';

/** The offset of the two clocks is kept until they drift apart by so much. */
const MAX_DRIFT_MS = 1000;

export class WallClock {
  readonly #clock: Pick<Clock, 'now' | 'wall'>;
  #offset: number;

  constructor(clock: Pick<Clock, 'now' | 'wall'>) {
    this.#clock = clock;
    this.#offset = Math.round(clock.wall() - clock.now());
  }

  /** The same time gives the same moment, unless the machine's clock is set. */
  of(at: number): string {
    return momentOf(this.wallOf(at));
  }

  /** Milliseconds since 1970. */
  wallOf(at: number): number {
    const offset = Math.round(this.#clock.wall() - this.#clock.now());
    if (Math.abs(offset - this.#offset) > MAX_DRIFT_MS) this.#offset = offset;
    return this.#offset + at;
  }
}
