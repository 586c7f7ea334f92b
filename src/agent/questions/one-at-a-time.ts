/** Work that costs something runs once at a time, so that nobody loads the node by asking often. */

import { unlessAborted } from '../../base/clock.ts';
import { createMutex } from '../../base/mutex.ts';
import { NoAnswer } from '../../inspect/wire/envelope.ts';

/** Most questions of a kind that wait. */
export const MAX_WAITING_QUESTIONS = 16;

export class OneAtATime {
  readonly #name: string;
  readonly #mutex = createMutex();
  #waiting = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** Rejects with the signal's reason as soon as it aborts; work that has begun ends for itself. Throws NoAnswer where too many wait. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#waiting > MAX_WAITING_QUESTIONS)
      throw new NoAnswer(`too many questions of ${this.#name} wait for their answers`);
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

/** Streams that cost memory while they run: so many at the same time. */
export class FewAtATime {
  readonly #name: string;
  readonly #most: number;
  #running = 0;

  constructor(name: string, most: number) {
    this.#name = name;
    this.#most = most;
  }

  /** The same pieces. A stream counts from its first piece to its end. Throws NoAnswer where too many run. */
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
    if (this.#running < this.#most) return;
    throw new NoAnswer(`${this.#most} ${this.#name} run already, and that is the limit: end one of them, or wait`);
  }
}
