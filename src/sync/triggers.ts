/** When the changes happened that are not in the kernel yet, for the metric of the time that they take. Milliseconds since 1970. */

/** While nothing can be written, the latest are enough. */
const MOST = 10_000;

export class Triggers {
  /** What happened before the agent began is not its own slowness. */
  readonly #begun: number;
  #times: number[] = [];

  constructor(begun: number) {
    this.#begun = begun;
  }

  add(times: readonly number[]): void {
    for (const at of times) if (at >= this.#begun) this.#times.push(at);
    if (this.#times.length > MOST) this.#times.splice(0, this.#times.length - MOST);
  }

  /** All of them are in the kernel now. */
  take(): readonly number[] {
    return this.#times.splice(0);
  }
}
