/**
 * The current faults by object, and their number by effect. A change costs the faults of its object, not a count of all faults
 * (docs/architecture.md, invariant 11).
 */
import type { Fault } from './objects.ts';

export class FaultBook {
  readonly #faults = new Map<string, readonly Fault[]>();
  readonly #counts = new Map<Fault['effect'], number>();

  /** All faults; the object whose faults came last is last. */
  get all(): Fault[] {
    return [...this.#faults.values()].flat();
  }

  /** The first faults, up to a limit. */
  first(limit: number): Fault[] {
    const found: Fault[] = [];
    for (const faults of this.#faults.values()) {
      if (found.length >= limit) break;
      found.push(...faults.slice(0, limit - found.length));
    }
    return found;
  }

  /** All faults of one object, by the key under which they were set. */
  of(key: string): readonly Fault[] {
    return this.#faults.get(key) ?? [];
  }

  /** The number of faults by effect, without zeros. */
  get counts(): ReadonlyMap<Fault['effect'], number> {
    return this.#counts;
  }

  /** Sets all faults of one object. Returns those that it did not have before, for the log. */
  set(key: string, faults: readonly Fault[]): readonly Fault[] {
    // Most objects never have faults: skip the lookup.
    if (faults.length === 0 && this.#faults.size === 0) return [];
    const before = this.#faults.get(key) ?? [];
    for (const { effect } of before) this.#count(effect, -1);
    for (const { effect } of faults) this.#count(effect, 1);
    if (faults.length > 0) this.#faults.set(key, faults);
    else this.#faults.delete(key);
    if (before.length === 0 || faults.length === 0) return faults;
    const known = new Set(before.map((fault) => JSON.stringify(fault)));
    return faults.filter((fault) => !known.has(JSON.stringify(fault)));
  }

  #count(effect: Fault['effect'], by: 1 | -1): void {
    const count = (this.#counts.get(effect) ?? 0) + by;
    if (count === 0) this.#counts.delete(effect);
    else this.#counts.set(effect, count);
  }
}
