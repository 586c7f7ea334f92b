/**
 * A copy of a list without spare room. A list that grew by `push` has room for 16 more, which adds up over tens of thousands of
 * short lists. All empty lists are the same object.
 */
export function compact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NOTHING : list.slice();
}

const NOTHING: readonly never[] = Object.freeze([]);
