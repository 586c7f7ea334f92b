/** A byte for each row: whether its element is desired, and whether it is applied. Pure. */
import { BitsColumn } from './columns.ts';

export const DESIRED = 1;
export const APPLIED = 2;
/** A mark for the time of one comparison. */
export const SEEN = 4;

export class RowStates {
  readonly #bits = new BitsColumn();
  #desired = 0;
  #applied = 0;

  /** The number of rows with this bit: `DESIRED` or `APPLIED`. */
  count(bit: number): number {
    return bit === DESIRED ? this.#desired : this.#applied;
  }

  at(row: number): number {
    return this.#bits.at(row);
  }

  is(row: number, bit: number): boolean {
    return (this.at(row) & bit) !== 0;
  }

  mark(row: number, bit: number, isSet: boolean): void {
    if (this.is(row, bit) === isSet) return;
    this.#bits.set(row, this.at(row) ^ bit);
    const by = isSet ? 1 : -1;
    if (bit === DESIRED) this.#desired += by;
    else if (bit === APPLIED) this.#applied += by;
  }
}
