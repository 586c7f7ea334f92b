/** Calls all that want to hear of something, in the order in which they asked for it. */
export class Listeners<T extends readonly unknown[]> {
  readonly #calls: ((...told: T) => void)[] = [];

  add(call: (...told: T) => void): void {
    this.#calls.push(call);
  }

  tell(...told: T): void {
    for (const call of this.#calls) call(...told);
  }
}
