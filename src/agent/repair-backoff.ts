/** Another program that changes our objects again and again: repairs wait longer and longer, and people are told once. Pure. */

/** Milliseconds without a repair after which a fight is over, at least. */
const QUIET = 10_000;
/** Repairs that are made at once. */
const AT_ONCE = 10;
/** Milliseconds before the first repair that waits; each further one waits twice as long. */
const FIRST_WAIT = 100;

export interface RepairBackoffState {
  /** The other program, in words; undefined: not known. */
  readonly by: string | undefined;
  /** Repairs so far. */
  readonly repairs: number;
  /** When the first of them was made. */
  readonly since: number;
}

export class RepairBackoff {
  /** Milliseconds: no repair waits longer. */
  readonly #longest: number;
  #state: RepairBackoffState | undefined;
  #last = 0;

  constructor(longest: number) {
    this.#longest = longest;
  }

  /** Milliseconds that the next repair waits after the last one. */
  get #wait(): number {
    const more = (this.#state?.repairs ?? 0) - AT_ONCE;
    return more <= 0 ? 0 : Math.min(this.#longest, FIRST_WAIT * 2 ** Math.min(more - 1, 30));
  }

  /** The time from which the next repair may be made. */
  get due(): number {
    return this.#last + this.#wait;
  }

  /** A sync repaired what another program changed. Returns whether that was the begin of a fight. */
  repaired(now: number, by: string | undefined): boolean {
    const before = this.#state !== undefined && !this.#isOver(now) ? this.#state : undefined;
    this.#last = now;
    this.#state = { by: by ?? before?.by, repairs: (before?.repairs ?? 0) + 1, since: before?.since ?? now };
    return this.#state.repairs === AT_ONCE + 1;
  }

  /** The fight that goes on now; undefined: none. */
  at(now: number): RepairBackoffState | undefined {
    const state = this.#state;
    return state === undefined || state.repairs <= AT_ONCE || this.#isOver(now) ? undefined : state;
  }

  #isOver(now: number): boolean {
    return now - this.#last > Math.max(QUIET, 2 * this.#wait);
  }
}
