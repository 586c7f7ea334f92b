/** Judges the rounds of checks of a takeover. Pure. */

/** What a round found: a cause for each check that failed, by its name. Each Service and family is a check of its own. */
export type Findings = ReadonlyMap<string, string>;

/** Rounds in a row in which a check must fail. One alone may be an endpoint that is just replaced, or a node that is busy. */
const FAILURES = 3;

export class Trial {
  readonly #failures = new Map<string, number>();

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
}
