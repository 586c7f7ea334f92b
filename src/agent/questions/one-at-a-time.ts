/** Limits expensive answers, so that many requests do not load the node. */

import { unlessAborted } from '../../base/clock.ts';
import { createMutex } from '../../base/mutex.ts';
import { NoAnswer } from '../../inspect/wire/envelope.ts';

/** Limit of requests of a kind that wait. */
export const MAX_WAITING_QUESTIONS = 16;

/** Runs work one after another. */
export class OneAtATime {
  readonly #name: string;
  readonly #mutex = createMutex();
  #waiting = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /**
   * Run the work when no other runs. Rejects with the signal's reason as soon as it aborts; work that has begun still ends. Throws NoAnswer
   * when too many requests wait.
   */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#waiting > MAX_WAITING_QUESTIONS) throw new NoAnswer(`too many ${this.#name} requests are queued`);
    this.#waiting += 1;
    const answer = this.#mutex(async () => {
      signal.throwIfAborted();
      return await work();
    }).finally(() => {
      this.#waiting -= 1;
    });
    return await unlessAborted(answer, signal);
  }
}

/** Limits streams that cost memory while they run. */
export class FewAtATime {
  readonly #name: string;
  readonly #limit: number;
  #running = 0;

  constructor(name: string, limit: number) {
    this.#name = name;
    this.#limit = limit;
  }

  /** Returns the same pieces. A stream counts from its first piece to its end. Throws NoAnswer when too many run. */
  pass<T>(pieces: AsyncIterable<T>): AsyncIterable<T> {
    this.#mustHaveRoom();
    return this.#counted(pieces);
  }

  async *#counted<T>(pieces: AsyncIterable<T>): AsyncGenerator<T> {
    this.#mustHaveRoom();
    this.#running += 1;
    try {
      yield* pieces;
    } finally {
      this.#running -= 1;
    }
  }

  #mustHaveRoom(): void {
    if (this.#running < this.#limit) return;
    throw new NoAnswer(`${this.#limit} ${this.#name} are running, which is the limit: end one of them, or wait`);
  }
}
