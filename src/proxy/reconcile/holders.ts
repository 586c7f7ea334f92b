/** Counts the holders of an object that several owners may need. It exists as long as one of them holds it. Pure. */

/** Count one holder more or less. Returns true for the first holder, false when the last one is gone, else undefined. */
export function countHolder<K>(counts: Map<K, number>, key: K, by: 1 | -1): boolean | undefined {
  const before = counts.get(key) ?? 0;
  const now = before + by;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
  if (before === 0) return true;
  return now === 0 ? false : undefined;
}
