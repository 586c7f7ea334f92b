/** Objects that several owners may ask for. Each exists while an owner asks for it; the first owner by name gives its value. Pure. */
export class Shared<K, V> {
  readonly #asked = new Map<K, Map<string, V>>();
  readonly #changed = new Set<K>();

  /** `owner` asks for the object. The owner that sorts first wins, whatever the order of arrival (invariant 12). */
  ask(key: K, owner: string, value: V): void {
    const owners = this.#asked.get(key) ?? new Map<string, V>();
    owners.set(owner, value);
    this.#asked.set(key, owners);
    this.#changed.add(key);
  }

  release(key: K, owner: string): void {
    const owners = this.#asked.get(key);
    if (owners?.delete(owner) !== true) return;
    if (owners.size === 0) this.#asked.delete(key);
    this.#changed.add(key);
  }

  /** The keys touched since the last call, with their value now; undefined when no owner asks for it. */
  takeChanges(): Map<K, V | undefined> {
    const changes = new Map<K, V | undefined>();
    for (const key of this.#changed) changes.set(key, this.#valueOf(key));
    this.#changed.clear();
    return changes;
  }

  #valueOf(key: K): V | undefined {
    const owners = this.#asked.get(key);
    if (owners === undefined) return undefined;
    let [first, value] = [...owners][0] ?? [];
    if (owners.size > 1) {
      for (const [owner, other] of owners) if (first === undefined || owner < first) [first, value] = [owner, other];
    }
    return value;
  }
}
