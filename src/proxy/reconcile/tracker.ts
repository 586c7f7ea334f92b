/**
 * The desired and the applied state of one kind of kernel object, and their difference, as data.
 *
 * Goals, and the means for each (docs/architecture.md, Invariants):
 * 1. The cost of a delta follows the change: `#pending` holds the keys that may differ, and only those are compared.
 * 2. A write counts only after it succeeded (invariant 4): only `wrote` and `observe` change the applied values.
 * 3. Unknown is not empty (invariant 2): `delta` throws until the kernel was read.
 * 4. A read replaces the believed state: `observe` compares all of it once and finds drift.
 */
export interface Delta<K, V extends R, R = V> {
  readonly create: ReadonlyMap<K, V>;
  readonly update: ReadonlyMap<K, { readonly from: R; readonly to: V }>;
  readonly remove: ReadonlyMap<K, R>;
}

/** `V`: what we want. `R`: what the kernel may have, which is more where other programs can write what we never would. */
export class Tracker<K, V extends R, R = V> {
  readonly #same: (a: R, b: R) => boolean;
  readonly #desired = new Map<K, V>();
  #applied: Map<K, R> | undefined;
  readonly #pending = new Set<K>();
  #compared = 0;
  #writes = 0;

  constructor(same: (a: R, b: R) => boolean) {
    this.#same = same;
  }

  get desired(): ReadonlyMap<K, V> {
    return this.#desired;
  }

  /** The believed state of the kernel; undefined until it was read. */
  get applied(): ReadonlyMap<K, R> | undefined {
    return this.#applied;
  }

  /** The number of comparisons for deltas so far (docs/architecture.md, invariant 11). */
  get compared(): number {
    return this.#compared;
  }

  /** The number of writes that succeeded so far. */
  get writes(): number {
    return this.#writes;
  }

  /** Sets the desired value; undefined removes it. */
  desire(key: K, value: V | undefined): void {
    if (value === undefined) this.#desired.delete(key);
    else this.#desired.set(key, value);
    this.#pending.add(key);
  }

  /**
   * Replaces the believed state by the read one. A read value that equals the desired one is dropped in favour of the desired
   * object, so that memory holds it once. Changes that wait keep their order: a plan does not depend on the order in which the kernel
   * lists its objects, unless another program changed them.
   */
  observe(read: ReadonlyMap<K, R>): void {
    const applied = new Map<K, R>();
    const waiting = [...this.#pending];
    this.#pending.clear();
    for (const key of waiting) if (!this.#isDesired(key, read.get(key))) this.#pending.add(key);
    for (const [key, value] of read) {
      const wanted = this.#desired.get(key);
      const equal = wanted !== undefined && this.#same(value, wanted);
      applied.set(key, equal ? wanted : value);
      if (!equal) this.#pending.add(key);
    }
    for (const key of this.#desired.keys()) if (!applied.has(key)) this.#pending.add(key);
    this.#applied = applied;
  }

  /** Keys whose read value differs from the believed one: another program changed them. Empty while the state is unknown. */
  driftFrom(read: ReadonlyMap<K, R>): K[] {
    const believed = this.#applied;
    if (believed === undefined) return [];
    const isOther = (key: K) => {
      const [a, b] = [believed.get(key), read.get(key)];
      return a === undefined || b === undefined ? a !== b : !this.#same(a, b);
    };
    return [...new Set([...believed.keys(), ...read.keys()])].filter(isOther);
  }

  /**
   * Corrects the believed state of some keys by the read one; undefined: the kernel has none. Returns those that another program
   * changed, with the values that were believed.
   */
  correct(read: ReadonlyMap<K, R | undefined>): ReadonlyMap<K, R | undefined> {
    const applied = this.#known();
    const drift = new Map<K, R | undefined>();
    for (const [key, value] of read) {
      const former = applied.get(key);
      const isSame = value === undefined || former === undefined ? value === former : this.#same(value, former);
      if (isSame) continue;
      drift.set(key, former);
      if (value === undefined) applied.delete(key);
      else applied.set(key, value);
      this.#pending.add(key);
    }
    return drift;
  }

  /** Forgets the believed state, after a write with an unknown outcome. */
  forget(): void {
    this.#applied = undefined;
  }

  /** A write succeeded: the kernel has this value now; undefined when it was removed. */
  wrote(key: K, value: R | undefined): void {
    const applied = this.#known();
    this.#writes += 1;
    if (value === undefined) applied.delete(key);
    else applied.set(key, value);
    if (this.#isDesired(key, value)) this.#pending.delete(key);
    else this.#pending.add(key);
  }

  /** The writes that make the kernel match the desired state. Throws while its state is unknown. */
  delta(): Delta<K, V, R> {
    const applied = this.#known();
    const create = new Map<K, V>();
    const update = new Map<K, { from: R; to: V }>();
    const remove = new Map<K, R>();
    this.#compared += this.#pending.size;
    for (const key of this.#pending) {
      const to = this.#desired.get(key);
      const from = applied.get(key);
      if (this.#isDesired(key, from)) {
        this.#pending.delete(key);
        // The value was read before it was desired: memory needs it once.
        if (to !== undefined) applied.set(key, to);
      } else if (to === undefined) remove.set(key, from as R);
      else if (from === undefined) create.set(key, to);
      else update.set(key, { from, to });
    }
    return { create, update, remove };
  }

  /** Whether this value of the kernel is the desired one; undefined: the kernel has none. */
  #isDesired(key: K, from: R | undefined): boolean {
    const to = this.#desired.get(key);
    if (to === undefined || from === undefined) return to === from;
    return this.#same(from, to);
  }

  #known(): Map<K, R> {
    if (this.#applied === undefined) throw new Error('the kernel state is not known: observe before delta');
    return this.#applied;
  }
}
