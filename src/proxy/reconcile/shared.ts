/**
 * Values that several owners share. A value exists while an owner requests it; the owner whose name sorts first decides it, unless `join` makes
 * one value of all, which are in no order. Pure.
 */
export class Shared<K, V> {
  readonly #join: ((first: V, values: Iterable<V>) => V) | undefined;
  readonly #requests = new Map<K, Map<string, V>>();
  readonly #changed = new Set<K>();

  constructor(join?: (first: V, values: Iterable<V>) => V) {
    this.#join = join;
  }

  /** An owner requests a value. The order of arrival does not matter (docs/architecture.md, invariant 12). */
  request(key: K, owner: string, value: V): void {
    const owners = this.#requests.get(key) ?? new Map<string, V>();
    owners.set(owner, value);
    this.#requests.set(key, owners);
    this.#changed.add(key);
  }

  /** The owner does not request the value any more. */
  release(key: K, owner: string): void {
    const owners = this.#requests.get(key);
    if (owners?.delete(owner) !== true) return;
    if (owners.size === 0) this.#requests.delete(key);
    this.#changed.add(key);
  }

  /** The current values of keys that changed since the last call; undefined for those without an owner. */
  takeChanges(): Map<K, V | undefined> {
    const changes = new Map<K, V | undefined>();
    for (const key of this.#changed) changes.set(key, this.#valueOf(key));
    this.#changed.clear();
    return changes;
  }

  #valueOf(key: K): V | undefined {
    const owners = this.#requests.get(key);
    if (owners === undefined) return undefined;
    let [first, value] = [...owners][0] ?? [];
    if (this.#join !== undefined && value !== undefined && owners.size > 1) return this.#join(value, owners.values());
    if (owners.size > 1) {
      for (const [owner, other] of owners) if (first === undefined || owner < first) [first, value] = [owner, other];
    }
    return value;
  }
}

/**
 * Counts one holder more or less of an object that several owners may need. It exists while one of them holds it. Returns true for the
 * first holder, false when the last one is gone, otherwise undefined.
 */
export function countHolder<K>(counts: Map<K, number>, key: K, by: 1 | -1): boolean | undefined {
  const before = counts.get(key) ?? 0;
  const now = before + by;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
  if (before === 0) return true;
  return now === 0 ? false : undefined;
}
