/** Gathers items for a moment, and passes each of them on once. Pure. */
import type { Clock } from '../base/clock.ts';

export class Batch<T> {
  readonly #clock: Pick<Clock, 'after'>;
  readonly #moment: number;
  readonly #take: (item: T) => void;
  readonly #items = new Set<T>();
  #isDue = false;

  /** `moment`: milliseconds. */
  constructor(clock: Pick<Clock, 'after'>, moment: number, take: (item: T) => void) {
    this.#clock = clock;
    this.#moment = moment;
    this.#take = take;
  }

  add(item: T): void {
    this.#items.add(item);
    if (this.#isDue) return;
    this.#isDue = true;
    this.#clock.after(this.#moment, () => {
      this.#isDue = false;
      const items = [...this.#items];
      this.#items.clear();
      for (const each of items) this.#take(each);
    });
  }

  delete(item: T): void {
    this.#items.delete(item);
  }
}
