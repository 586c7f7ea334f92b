/**
 * A problem that lasts occurs again at each try. It is reported when it begins, when it has a cause that was not reported yet, and then every
 * ten minutes: a line for each try would hide all other lines. Pure: the caller passes the time.
 */

/** Milliseconds after which a problem that lasts is reported again. */
export const REPORT_PERIOD_MS = 600_000;

/** Causes of one problem that are remembered: two API servers that are tried in turn fail for two causes. */
export const MAX_CAUSES = 8;

export class LastingProblem {
  /** The time of each cause's last report, in the order of these times. */
  readonly #reportedAt = new Map<string, number>();
  readonly #period: number;

  /** `period`: milliseconds after which a cause is reported again; with Infinity not before the problem is over. */
  constructor(period = REPORT_PERIOD_MS) {
    this.#period = period;
  }

  /** The problem occurred. Returns whether to report it now. `now`: milliseconds of a clock that never goes backwards. */
  met(cause: string, now: number): boolean {
    const at = this.#reportedAt.get(cause);
    if (at !== undefined && now - at < this.#period) return false;
    this.#reportedAt.delete(cause);
    this.#reportedAt.set(cause, now);
    const [oldest] = this.#reportedAt.keys();
    if (this.#reportedAt.size > MAX_CAUSES && oldest !== undefined) this.#reportedAt.delete(oldest);
    return true;
  }

  /** Whether a problem that occurs now is reported, whatever its cause. */
  isDue(now: number): boolean {
    return [...this.#reportedAt.values()].every((at) => now - at >= this.#period);
  }

  /** The problem is over. Returns whether there was one. */
  over(): boolean {
    const had = this.#reportedAt.size > 0;
    this.#reportedAt.clear();
    return had;
  }
}

/** The same for problems of many objects, each by its key. */
export class LastingProblems {
  readonly #byKey = new Map<string, LastingProblem>();
  #clearedAt = 0;

  met(key: string, cause: string, now: number): boolean {
    if (now - this.#clearedAt >= REPORT_PERIOD_MS) this.#forgetDue(now);
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

  /** Forgets the problems with other keys. */
  keep(keys: ReadonlySet<string>): void {
    for (const key of this.#byKey.keys()) if (!keys.has(key)) this.#byKey.delete(key);
  }

  clear(): void {
    this.#byKey.clear();
  }

  /** Problems whose next report is due make no difference, and their objects may be gone. */
  #forgetDue(now: number): void {
    this.#clearedAt = now;
    for (const [key, one] of this.#byKey) if (one.isDue(now)) this.#byKey.delete(key);
  }
}
