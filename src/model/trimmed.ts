/**
 * A list as long as its content. One that grew by `push` keeps room for 16 more, which counts where there are tens of
 * thousands of short lists; an empty one is the same for all.
 */
export function trimmed<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NOTHING : list.slice();
}

const NOTHING: readonly never[] = Object.freeze([]);
