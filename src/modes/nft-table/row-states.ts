/** A byte for each row: whether its element is desired, and whether it is applied. Pure. */
export const DESIRED = 1;
export const APPLIED = 2;
/** A mark for the time of one comparison. */
export const SEEN = 4;

const FIRST = 8;
const GROWTH = 1.25;

export class RowStates {
  #bytes = new Uint8Array(0);
  #desired = 0;
  #applied = 0;

  /** The number of rows with this bit: `DESIRED` or `APPLIED`. */
  count(bit: number): number {
    return bit === DESIRED ? this.#desired : this.#applied;
  }

  at(row: number): number {
    return this.#bytes[row] ?? 0;
  }

  is(row: number, bit: number): boolean {
    return (this.at(row) & bit) !== 0;
  }

  mark(row: number, bit: number, isSet: boolean): void {
    if (this.is(row, bit) === isSet) return;
    if (row >= this.#bytes.length) {
      const bytes = new Uint8Array(Math.max(FIRST, Math.ceil((row + 1) * GROWTH)));
      bytes.set(this.#bytes);
      this.#bytes = bytes;
    }
    this.#bytes[row] = this.at(row) ^ bit;
    const by = isSet ? 1 : -1;
    if (bit === DESIRED) this.#desired += by;
    else if (bit === APPLIED) this.#applied += by;
  }
}
