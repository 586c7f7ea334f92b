/** Numbers that look random and follow from a seed alone. */

export interface Random {
  /** A whole number from 0 to 2³² - 1. */
  next(): number;
  /** A whole number from 0 to `count` - 1. */
  below(count: number): number;
  /** True once in `times`. */
  once(times: number): boolean;
  /** One of them. Throws RangeError for an empty list. */
  pick<T>(list: readonly T[]): T;
}

/** splitmix32. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state ^ (state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  };
  const below = (count: number) => next() % Math.max(1, count);
  return {
    next,
    below,
    once: (times) => below(times) === 0,
    pick(list) {
      if (list.length === 0) throw new RangeError('nothing to pick from');
      return list[below(list.length)] as (typeof list)[number];
    },
  };
}

/** The numbers for the input of this index: each input follows from seed and index alone, so that one can be repeated. */
export function randomAt(seed: number, index: number): Random {
  return randomOf(Math.imul(seed ^ 0x5bd1e995, 0x27d4eb2d) ^ Math.imul(index + 1, 0x165667b1));
}
