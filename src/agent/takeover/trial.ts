/** Judges the rounds of checks of a takeover. Pure. */

/** A check of a round. */
export type CheckName = 'sync' | 'health' | 'verify' | 'packets' | 'services';

/** What a round found: a cause for each check that failed. */
export type Findings = ReadonlyMap<CheckName, string>;

/** Rounds in a row in which a check must fail. One alone may be an endpoint that is just replaced, or a node that is busy. */
const FAILURES = 3;

export class Trial {
  readonly #failures = new Map<CheckName, number>();

  /** Takes the findings of a round. Returns the cause why the takeover failed; undefined where nothing has failed for long enough. */
  round(findings: Findings): string | undefined {
    for (const name of [...this.#failures.keys()]) if (!findings.has(name)) this.#failures.delete(name);
    for (const [name, cause] of findings) {
      const count = (this.#failures.get(name) ?? 0) + 1;
      this.#failures.set(name, count);
      if (count >= FAILURES) return cause;
    }
    return undefined;
  }

  /** No check failed in the last round. */
  get isClean(): boolean {
    return this.#failures.size === 0;
  }
}
