/** A limit of the time that work may take, as a share of all time. */
import type { Clock } from './clock.ts';

/** A share of the time. A burst may be spent at once, after a rest that pays for it: most programs write a few times, and then rest. */
export class Allowance {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #share: number;
  readonly #burst: number;
  /** The time of the last expense, and the milliseconds that were left then; negative when it was more. */
  #last: { readonly at: number; readonly left: number };

  /** `burst`: milliseconds. */
  constructor(clock: Pick<Clock, 'now'>, { share, burst }: { readonly share: number; readonly burst: number }) {
    this.#clock = clock;
    this.#share = share;
    this.#burst = burst;
    this.#last = { at: clock.now(), left: burst };
  }

  /** The earliest time at which more may be spent. */
  get next(): number {
    return this.#last.at + Math.max(0, -this.#last.left) / this.#share;
  }

  spend(milliseconds: number): void {
    const at = this.#clock.now();
    const paid = Math.min(this.#burst, this.#last.left + (at - this.#last.at) * this.#share);
    this.#last = { at, left: paid - milliseconds };
  }
}
