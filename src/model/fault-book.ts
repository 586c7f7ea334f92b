/** Faults by what they are of, with their number by what follows from them: kept as they come and go, not counted anew (invariant 11). */
import { sameData } from './equal.ts';
import type { Fault } from './objects.ts';

export class FaultBook {
  readonly #faults = new Map<string, readonly Fault[]>();
  readonly #counts = new Map<Fault['effect'], number>();

  /** All of them, newest object last. */
  get all(): Fault[] {
    return [...this.#faults.values()].flat();
  }

  /** Those that are not 0. */
  get counts(): ReadonlyMap<Fault['effect'], number> {
    return this.#counts;
  }

  /** All faults of one thing now. Returns those that are new with it, for the log. */
  set(key: string, faults: readonly Fault[]): readonly Fault[] {
    // Most things never had any: nobody looks them up.
    if (faults.length === 0 && this.#faults.size === 0) return [];
    const before = this.#faults.get(key) ?? [];
    for (const { effect } of before) this.#count(effect, -1);
    for (const { effect } of faults) this.#count(effect, 1);
    if (faults.length > 0) this.#faults.set(key, faults);
    else this.#faults.delete(key);
    return faults.filter((fault) => !before.some((old) => sameData(old, fault)));
  }

  #count(effect: Fault['effect'], by: 1 | -1): void {
    const count = (this.#counts.get(effect) ?? 0) + by;
    if (count === 0) this.#counts.delete(effect);
    else this.#counts.set(effect, count);
  }
}
