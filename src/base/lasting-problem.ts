/**
 * A problem that lasts is met again at each try. It is told when it begins or has a cause that was not told yet, and then every ten minutes:
 * one line for each try would hide all others. Pure: the caller passes the time.
 */

/** Milliseconds after which a problem that lasts is told again. */
export const TOLD_AGAIN = 600_000;

/** Causes of one problem that are remembered: two API servers, tried by turns, fail for two. */
export const MAX_CAUSES = 8;

export class LastingProblem {
  /** When each cause was told, the one that was told last at the end. */
  readonly #told = new Map<string, number>();
  readonly #period: number;

  /** `period`: milliseconds after which a cause is told again; Infinity: never, until the problem is over. */
  constructor(period = TOLD_AGAIN) {
    this.#period = period;
  }

  /** It was met. Returns whether to tell it now. `now`: milliseconds of a clock that never goes backwards. */
  met(cause: string, now: number): boolean {
    const at = this.#told.get(cause);
    if (at !== undefined && now - at < this.#period) return false;
    this.#told.delete(cause);
    this.#told.set(cause, now);
    const [oldest] = this.#told.keys();
    if (this.#told.size > MAX_CAUSES && oldest !== undefined) this.#told.delete(oldest);
    return true;
  }

  /** Whether it is told again when it is met now, for whatever cause. */
  isDue(now: number): boolean {
    return [...this.#told.values()].every((at) => now - at >= this.#period);
  }

  /** It is over. Returns whether there was one. */
  over(): boolean {
    const had = this.#told.size > 0;
    this.#told.clear();
    return had;
  }
}

/** The same for problems of many objects, each by its key. */
export class LastingProblems {
  readonly #byKey = new Map<string, LastingProblem>();
  #clearedAt = 0;

  met(key: string, cause: string, now: number): boolean {
    if (now - this.#clearedAt >= TOLD_AGAIN) this.#forgetDue(now);
    let one = this.#byKey.get(key);
    if (one === undefined) {
      one = new LastingProblem();
      this.#byKey.set(key, one);
    }
    return one.met(cause, now);
  }

  /** Returns whether there was one. */
  over(key: string): boolean {
    return this.#byKey.delete(key);
  }

  /** Forget the problems that are not among these keys. */
  keep(keys: ReadonlySet<string>): void {
    for (const key of this.#byKey.keys()) if (!keys.has(key)) this.#byKey.delete(key);
  }

  clear(): void {
    this.#byKey.clear();
  }

  /** Problems that are due make no difference, and their objects may be gone. */
  #forgetDue(now: number): void {
    this.#clearedAt = now;
    for (const [key, one] of this.#byKey) if (one.isDue(now)) this.#byKey.delete(key);
  }
}
