/** When work that takes long lets other work of the event loop have its turn. */
import type { Clock } from '../../base/clock.ts';

/** Milliseconds of work, and pieces of it, in one turn. */
const MAX_TURN_MS = 8;
const MAX_TURN_PIECES = 100;

export class Turn {
  readonly #clock: Clock;
  #since = 0;
  #used = 0;
  #pieces = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Work begins, or goes on after a pause. */
  begin(): void {
    this.#since = this.#clock.now();
  }

  /** A piece of work is done. Returns whether other work should have its turn now. */
  isOver(): boolean {
    const now = this.#clock.now();
    this.#used += now - this.#since;
    this.#since = now;
    this.#pieces += 1;
    if (this.#used < MAX_TURN_MS && this.#pieces < MAX_TURN_PIECES) return false;
    this.#used = 0;
    this.#pieces = 0;
    return true;
  }
}
