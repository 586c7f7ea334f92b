/** How many faults there are, by what follows from them: kept as they come and go, not counted anew (invariant 11). */
import type { Fault } from './objects.ts';

export class FaultCounts {
  readonly #counts = new Map<Fault['effect'], number>();

  /** Some faults of an object take the place of those it had. */
  replace(before: readonly Fault[], now: readonly Fault[]): void {
    for (const { effect } of before) this.#add(effect, -1);
    for (const { effect } of now) this.#add(effect, 1);
  }

  /** Those that are not 0. */
  get counts(): ReadonlyMap<Fault['effect'], number> {
    return this.#counts;
  }

  #add(effect: Fault['effect'], by: 1 | -1): void {
    const count = (this.#counts.get(effect) ?? 0) + by;
    if (count === 0) this.#counts.delete(effect);
    else this.#counts.set(effect, count);
  }
}
