/** Every list before something is in it: `append` makes another. */
export const NOTHING: never[] = [];

/** Add a value to a list; use the result. A list of one, as most are, has no spare room; `[]` and `push` would make room for 17. */
export function append<T>(list: T[], value: T): T[] {
  if (list.length === 0) return [value];
  list.push(value);
  return list;
}
