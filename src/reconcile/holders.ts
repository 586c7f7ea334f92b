/** What several owners may need is there as long as one of them does: how many hold it. Pure. */

/** Count a holder more or less. Returns true when it is the first, false when it was the last, and undefined otherwise. */
export function countHolder<K>(counts: Map<K, number>, key: K, by: 1 | -1): boolean | undefined {
  const before = counts.get(key) ?? 0;
  const now = before + by;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
  if (before === 0) return true;
  return now === 0 ? false : undefined;
}
