/** Answers of somebody else, kept for a while: the same question is asked once at a time, and the number that is kept is bounded. */
import type { Clock } from '../../base/clock.ts';

export interface AnswerCacheOptions<T> {
  readonly clock: Clock;
  /** Milliseconds for which an answer counts. */
  readonly keeps: (answer: T) => number;
  /** Answers and open questions at most. Beyond that the oldest is forgotten, and asked again when it is needed. */
  readonly most: number;
}

interface CachedAnswer<T> {
  readonly answer: Promise<T>;
  /** In the clock's milliseconds; infinite until the answer has come. */
  until: number;
}

export class AnswerCache<T> {
  readonly #options: AnswerCacheOptions<T>;
  readonly #kept = new Map<string, CachedAnswer<T>>();

  constructor(options: AnswerCacheOptions<T>) {
    this.#options = options;
  }

  /** Answers that are kept and questions that are open, at most `most`. */
  get size(): number {
    return this.#kept.size;
  }

  /** The answer, or the one that somebody waits for already; undefined where it must be asked for. */
  get(key: string): Promise<T> | undefined {
    const kept = this.#kept.get(key);
    return kept !== undefined && kept.until > this.#options.clock.now() ? kept.answer : undefined;
  }

  /** Asks, and keeps the answer. A question that rejects is not kept. */
  ask(key: string, ask: () => Promise<T>): Promise<T> {
    const { clock, keeps } = this.#options;
    const answer = ask();
    const kept: CachedAnswer<T> = { answer, until: Number.POSITIVE_INFINITY };
    // At the end of the order also where the key was there.
    this.#kept.delete(key);
    this.#makeRoom();
    this.#kept.set(key, kept);
    answer.then(
      (value) => {
        kept.until = clock.now() + keeps(value);
      },
      () => {
        if (this.#kept.get(key) === kept) this.#kept.delete(key);
      },
    );
    return answer;
  }

  #makeRoom(): void {
    if (this.#kept.size < this.#options.most) return;
    const now = this.#options.clock.now();
    for (const [key, { until }] of this.#kept) if (until <= now) this.#kept.delete(key);
    for (const key of this.#kept.keys()) {
      if (this.#kept.size < this.#options.most) return;
      this.#kept.delete(key);
    }
  }
}
