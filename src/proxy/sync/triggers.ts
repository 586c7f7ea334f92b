/** Times of the changes that are not in the kernel yet, for the metric of programming latency. Milliseconds since 1970. */

/** Most times kept while writes fail: the latest are enough. */
const MOST = 10_000;

export class Triggers {
  /** Changes before the agent's start do not count: the agent did not delay them. */
  readonly #begun: number;
  #times: number[] = [];

  constructor(begun: number) {
    this.#begun = begun;
  }

  add(times: readonly number[]): void {
    for (const at of times) if (at >= this.#begun) this.#times.push(at);
    if (this.#times.length > MOST) this.#times.splice(0, this.#times.length - MOST);
  }

  /** Return all times and forget them: their changes are in the kernel now. */
  take(): readonly number[] {
    return this.#times.splice(0);
  }
}
