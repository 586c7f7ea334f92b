/**
 * Desired and applied state of one kind of kernel object, and the difference between them, as data.
 *
 * Goals, and how each is met:
 * 1. The cost of a delta follows the change: `#pending` holds the keys that may differ, and only those are compared.
 * 2. A step is believed only after it succeeded (invariant 4): `applied` is the only way a desired value becomes applied.
 * 3. Unknown is not empty (invariant 2): until the kernel was read, `delta` cannot be asked for.
 * 4. What was read replaces what was believed: `observe` compares all of it once and finds drift.
 */
export interface Delta<K, V> {
  readonly create: ReadonlyMap<K, V>;
  readonly update: ReadonlyMap<K, { readonly from: V; readonly to: V }>;
  readonly remove: ReadonlyMap<K, V>;
}

export class Tracker<K, V> {
  readonly #same: (a: V, b: V) => boolean;
  readonly #desired = new Map<K, V>();
  #applied: Map<K, V> | undefined;
  readonly #pending = new Set<K>();
  #compared = 0;

  constructor(same: (a: V, b: V) => boolean) {
    this.#same = same;
  }

  get desired(): ReadonlyMap<K, V> {
    return this.#desired;
  }

  /** What the kernel is believed to hold; undefined until it was read. */
  get applied(): ReadonlyMap<K, V> | undefined {
    return this.#applied;
  }

  /** Keys that were compared for deltas since this tracker was made, as often as they were (invariant 11). */
  get compared(): number {
    return this.#compared;
  }

  /** Set what should be there; undefined for nothing. */
  desire(key: K, value: V | undefined): void {
    if (value === undefined) this.#desired.delete(key);
    else this.#desired.set(key, value);
    this.#pending.add(key);
  }

  /**
   * Take what was read as the truth. Where a desired value is the same, its object is kept in place of the read one, so
   * that the state is in memory once.
   */
  observe(read: ReadonlyMap<K, V>): void {
    const applied = new Map<K, V>();
    this.#pending.clear();
    for (const [key, value] of read) {
      const wanted = this.#desired.get(key);
      const equal = wanted !== undefined && this.#same(value, wanted);
      applied.set(key, equal ? wanted : value);
      if (!equal) this.#pending.add(key);
    }
    for (const key of this.#desired.keys()) if (!applied.has(key)) this.#pending.add(key);
    this.#applied = applied;
  }

  /** Keys whose value, as read, is not what was believed: another program changed them. None while nothing is believed. */
  driftFrom(read: ReadonlyMap<K, V>): K[] {
    const believed = this.#applied;
    if (believed === undefined) return [];
    const isOther = (key: K) => {
      const [a, b] = [believed.get(key), read.get(key)];
      return a === undefined || b === undefined ? a !== b : !this.#same(a, b);
    };
    return [...new Set([...believed.keys(), ...read.keys()])].filter(isOther);
  }

  /** Forget what was believed, after a write whose outcome is not known. */
  forget(): void {
    this.#applied = undefined;
  }

  /** A write succeeded: the kernel now holds this value (undefined: nothing). */
  wrote(key: K, value: V | undefined): void {
    const applied = this.#known();
    if (value === undefined) applied.delete(key);
    else applied.set(key, value);
    if (this.#equal(key)) this.#pending.delete(key);
    else this.#pending.add(key);
  }

  /** What must be written. Throws when the kernel was not read. */
  delta(): Delta<K, V> {
    const applied = this.#known();
    const create = new Map<K, V>();
    const update = new Map<K, { from: V; to: V }>();
    const remove = new Map<K, V>();
    this.#compared += this.#pending.size;
    for (const key of this.#pending) {
      const to = this.#desired.get(key);
      const from = applied.get(key);
      if (this.#equal(key)) {
        this.#pending.delete(key);
        // It was read before it was desired: it need not be in memory twice.
        if (to !== undefined) applied.set(key, to);
      } else if (to === undefined) remove.set(key, from as V);
      else if (from === undefined) create.set(key, to);
      else update.set(key, { from, to });
    }
    return { create, update, remove };
  }

  #equal(key: K): boolean {
    const to = this.#desired.get(key);
    const from = this.#known().get(key);
    if (to === undefined || from === undefined) return to === from;
    return this.#same(from, to);
  }

  #known(): Map<K, V> {
    if (this.#applied === undefined) throw new Error('the kernel state is not known: observe before delta');
    return this.#applied;
  }
}
