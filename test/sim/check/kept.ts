/** Values that are made once. */

interface MapLike<K, V> {
  get(key: K): V | undefined;
  set(key: K, value: V): unknown;
}

/** The value of a key, made when it is asked for first. Values are never undefined. */
export function kept<K, V extends NonNullable<unknown>>(map: MapLike<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
