/**
 * A problem that lasts is met again at each try. It is told when it begins or has another cause, and then every ten minutes: one line for
 * each try would hide all others. Pure: the caller passes the time.
 */

/** Milliseconds after which a problem that lasts is told again. */
export const TOLD_AGAIN = 600_000;

interface Told {
  readonly cause: string;
  readonly at: number;
}

export class LastingProblem {
  #told: Told | undefined;

  /** It was met. Returns whether to tell it now. `now`: milliseconds of a clock that never goes backwards. */
  met(cause: string, now: number): boolean {
    const { cause: before, at } = this.#told ?? { cause: undefined, at: 0 };
    if (before === cause && now - at < TOLD_AGAIN) return false;
    this.#told = { cause, at: now };
    return true;
  }

  /** Whether it is told again when it is met now. */
  isDue(now: number): boolean {
    return this.#told === undefined || now - this.#told.at >= TOLD_AGAIN;
  }

  /** It is over. Returns whether there was one. */
  over(): boolean {
    const had = this.#told !== undefined;
    this.#told = undefined;
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
