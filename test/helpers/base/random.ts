/** Chance from a seed: the same seed gives the same numbers, on every machine. */

export class Random {
  #state: number;

  /** Any 32 bits. */
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Any 32 bits (mulberry32 by Tommy Ettinger, public domain). */
  bits(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  /** From 0 to below 1. */
  readonly next = (): number => this.bits() / 2 ** 32;

  /** A whole number from 0 to below `count`. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  /** From `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** Throws RangeError without choices. */
  pick<T>(choices: readonly T[]): T {
    if (choices.length === 0) throw new RangeError('nothing to choose from');
    return choices[this.below(choices.length)] as T;
  }

  /** Another sequence, which does not depend on how often this one is asked from now on. */
  fork(): Random {
    return new Random(this.below(2 ** 32));
  }
}
