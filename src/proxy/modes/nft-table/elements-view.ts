/** The desired or the applied elements of a set, looked up and listed as in a map. An `Entry` is made for each answer. Pure. */
import type { Bytes } from '../../../kernel/nftables-kernel.ts';
import type { ElementRows } from './element-rows.ts';
import type { Entry } from './layout.ts';
import type { RowStates } from './row-states.ts';

export interface SeenRows {
  readonly rows: ElementRows;
  readonly states: RowStates;
  /** The rows that count. */
  readonly bit: number;
  readonly entry: (row: number) => Entry;
}

const NONE: ReadonlyMap<Bytes, Entry> = new Map();

export class ElementsView implements ReadonlyMap<Bytes, Entry> {
  readonly #of: SeenRows;
  /** Elements that are in no row. */
  readonly #more: ReadonlyMap<Bytes, Entry>;

  constructor(of: SeenRows, more = NONE) {
    this.#of = of;
    this.#more = more;
  }

  get size(): number {
    return this.#of.states.count(this.#of.bit) + this.#more.size;
  }

  has(key: Bytes): boolean {
    return this.#row(key) >= 0 || this.#more.has(key);
  }

  get(key: Bytes): Entry | undefined {
    const row = this.#row(key);
    return row < 0 ? this.#more.get(key) : this.#of.entry(row);
  }

  *entries(): MapIterator<[Bytes, Entry]> {
    for (const entry of this.values()) yield [entry.key, entry];
  }

  *keys(): MapIterator<Bytes> {
    for (const row of this.#listed()) yield this.#of.rows.key(row);
    yield* this.#more.keys();
  }

  *values(): MapIterator<Entry> {
    for (const row of this.#listed()) yield this.#of.entry(row);
    yield* this.#more.values();
  }

  [Symbol.iterator](): MapIterator<[Bytes, Entry]> {
    return this.entries();
  }

  forEach(call: (value: Entry, key: Bytes, map: ReadonlyMap<Bytes, Entry>) => void): void {
    for (const [key, entry] of this) call(entry, key, this);
  }

  #row(key: Bytes): number {
    const { rows, states, bit } = this.#of;
    const row = rows.find(key);
    return row >= 0 && states.is(row, bit) ? row : -1;
  }

  *#listed(): Generator<number> {
    const { rows, states, bit } = this.#of;
    for (let row = 0; row < rows.end; row++) if (states.is(row, bit)) yield row;
  }
}
