/** A byte for each row: whether its element is desired, and whether it is applied. Pure. */
import { BitsColumn } from './columns.ts';

export const DESIRED = 1;
export const APPLIED = 2;
/** A mark for the time of one comparison. */
export const SEEN = 4;

const BOTH = DESIRED | APPLIED;

export class RowStates {
  readonly #bits = new BitsColumn();
  /** The number of rows by state, without the mark. */
  readonly #counts = [0, 0, 0, 0];

  /** The number of rows with this bit: `DESIRED` or `APPLIED`. */
  count(bit: number): number {
    return this.only(bit) + this.only(DESIRED | APPLIED);
  }

  /** The number of rows with just these of both bits. */
  only(bits: number): number {
    return this.#counts[bits] ?? 0;
  }

  at(row: number): number {
    return this.#bits.at(row);
  }

  is(row: number, bit: number): boolean {
    return (this.at(row) & bit) !== 0;
  }

  mark(row: number, bit: number, isSet: boolean): void {
    if (this.is(row, bit) === isSet) return;
    const before = this.at(row);
    this.#bits.set(row, before ^ bit);
    this.#counts[before & BOTH] = this.only(before & BOTH) - 1;
    this.#counts[(before ^ bit) & BOTH] = this.only((before ^ bit) & BOTH) + 1;
  }

  /** Marks the rows below `end` that have another bit. */
  markAll(having: number, bit: number, end: number): void {
    for (let row = 0; row < end; row++) if (this.is(row, having)) this.mark(row, bit, true);
  }
}
