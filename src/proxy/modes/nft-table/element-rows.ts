/** Elements of one set as rows: the bytes of keys, ends and data in arrays, verdicts and Services as shared texts. Pure. */
import { addressWidth, type Family } from '../../../base/address.ts';
import type { KeyField, Latin1Bytes, NftElement, NftSet } from '../../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { OwnedElement } from './layout.ts';

// Columns of a table in memory: one value for each row.

const FIRST_ROWS = 8;
const GROWTH = 1.25;

/** Texts of the same number of bytes. */
class BytesColumn {
  readonly width: number;
  #bytes: Buffer = Buffer.alloc(0);

  /** `width` is the number of bytes of a value; with 0 all values are "". */
  constructor(width: number) {
    this.width = width;
  }

  at(row: number): Latin1Bytes {
    return this.#bytes.toString('latin1', row * this.width, (row + 1) * this.width);
  }

  /** The number of a byte of a row. */
  byte(row: number, i: number): number {
    return this.#bytes[row * this.width + i] ?? 0;
  }

  /** `text` must have the width of the column. */
  set(row: number, text: Latin1Bytes): void {
    const end = (row + 1) * this.width;
    if (end > this.#bytes.length) {
      const bytes = Buffer.alloc(Math.max(FIRST_ROWS, Math.ceil((row + 1) * GROWTH)) * this.width);
      bytes.set(this.#bytes);
      this.#bytes = bytes;
    }
    // Short texts: a loop is faster than Buffer.write.
    for (let i = 0; i < this.width; i++) this.#bytes[row * this.width + i] = text.charCodeAt(i);
  }
}

/** Sets of bits, 8 of each row. */
class BitsColumn {
  #bytes = new Uint8Array(0);

  at(row: number): number {
    return this.#bytes[row] ?? 0;
  }

  set(row: number, bits: number): void {
    if (row >= this.#bytes.length) {
      const bytes = new Uint8Array(Math.max(FIRST_ROWS, Math.ceil((row + 1) * GROWTH)));
      bytes.set(this.#bytes);
      this.#bytes = bytes;
    }
    this.#bytes[row] = bits;
  }
}

/** Texts of which many are equal; equal ones are one string. */
class TextsColumn {
  readonly #texts: (string | undefined)[] = [];
  readonly #shared = new Map<string, string>();

  at(row: number): string {
    return this.#texts[row] ?? '';
  }

  set(row: number, text: string): void {
    let one = this.#shared.get(text);
    if (one === undefined) {
      if (this.#shared.size >= MAX_SHARED) this.#shared.clear();
      one = text;
      this.#shared.set(text, text);
    }
    this.#texts[row] = one;
  }
}

/** Limit of the texts that are looked for: with more, the older ones are forgotten, and equal texts may be two strings. */
const MAX_SHARED = 4096;

/** An element, with its Service where that is known. */
export type RowElement = NftElement & { readonly owner?: ServiceKey | undefined };

/** Flags of a row. */
const COUNTED = 1;
const HAS_END = 2;

export class ElementRows {
  readonly #keys: KeyRows;
  readonly #data: BytesColumn;
  readonly #verdicts: TextsColumn | undefined;
  readonly #ends: BytesColumn | undefined;
  readonly #forms = new BitsColumn();
  readonly #owners: (ServiceKey | undefined)[] = [];

  constructor({ key, data, hasRanges = false }: NftSet, family: Family) {
    const width = bytesOf(key, family);
    this.#keys = new KeyRows(width);
    this.#data = new BytesColumn(data === undefined || data === 'verdict' ? 0 : bytesOf(data, family));
    this.#verdicts = data === 'verdict' ? new TextsColumn() : undefined;
    this.#ends = hasRanges ? new BytesColumn(width) : undefined;
  }

  /** Every row is below this; some may be free. */
  get end(): number {
    return this.#keys.end;
  }

  /** Whether our set can have the key. Another program can make a set of the same name and another type. */
  isKey(key: Latin1Bytes): boolean {
    return key.length === this.#keys.width;
  }

  /** Whether a row can hold the element. */
  fits({ key, end, data }: NftElement): boolean {
    const isData = this.#verdicts !== undefined || data.length === this.#data.width;
    return isData && this.isKey(key) && (end === '' || end.length === this.#ends?.width);
  }

  /** The row of a key, or -1. */
  find(key: Latin1Bytes): number {
    return this.isKey(key) ? this.#keys.find(key) : -1;
  }

  /** A row for a new key; `set` gives it its value. */
  add(key: Latin1Bytes): number {
    return this.#keys.add(key);
  }

  /** The value must fit. */
  set(row: number, { end, data, owner, isCounted }: RowElement): void {
    this.#forms.set(row, (isCounted === true ? COUNTED : 0) | (end === '' ? 0 : HAS_END));
    if (this.#verdicts === undefined) this.#data.set(row, data);
    else this.#verdicts.set(row, data);
    if (end !== '') this.#ends?.set(row, end);
    this.#owners[row] = owner;
  }

  remove(row: number): void {
    this.#keys.remove(row);
    this.#owners[row] = undefined;
  }

  key(row: number): Latin1Bytes {
    return this.#keys.key(row);
  }

  owner(row: number): ServiceKey | undefined {
    return this.#owners[row];
  }

  entry(row: number): OwnedElement {
    const [end, data] = [this.#end(row), this.#dataOf(row)];
    const entry = { key: this.key(row), end, data, owner: this.#owners[row] };
    return has(this.#forms.at(row), COUNTED) ? { ...entry, isCounted: true } : entry;
  }

  /** Whether the row has this value. */
  holds(row: number, { end, data, isCounted }: NftElement): boolean {
    return (
      has(this.#forms.at(row), COUNTED) === (isCounted === true) && this.#end(row) === end && this.#dataOf(row) === data
    );
  }

  #end(row: number): Latin1Bytes {
    return has(this.#forms.at(row), HAS_END) ? (this.#ends?.at(row) ?? '') : '';
  }

  #dataOf(row: number): string {
    return this.#verdicts === undefined ? this.#data.at(row) : this.#verdicts.at(row);
  }
}

function has(form: number, bit: number): boolean {
  return (form & bit) !== 0;
}

/** Each field fills whole words of 4 bytes. */
function bytesOf(fields: readonly KeyField[], family: Family): number {
  return fields.reduce((sum, field) => sum + (field === 'address' ? addressWidth(family) / 8 : 4), 0);
}

// Numbers rows by keys of a fixed width, as a map does, in a quarter of its memory: the bytes of all keys are in one array, and a
// table of row numbers finds them (open addressing, linear probing; a removal closes its gap, so that nothing is left behind).

/** A free place in the table of row numbers. */
const FREE = -1;
/** Places for each row, at least, in the table of row numbers. */
const PLACES = 1.5;
/** Tenants choose the addresses in keys. They do not know this number, so they cannot choose keys that collide. */
const SEED = Math.floor(Math.random() * 2 ** 31);

class KeyRows {
  readonly #keys: BytesColumn;
  /** Row numbers; the length is a power of 2. */
  #places: Int32Array;
  /** Rows that were removed, for reuse. */
  #free: number[] = [];
  #end = 0;

  /** `width` is the number of bytes of a key. */
  constructor(width: number) {
    this.#keys = new BytesColumn(width);
    this.#places = new Int32Array(1).fill(FREE);
  }

  get size(): number {
    return this.#end - this.#free.length;
  }

  /** Every row number is below this; the caller's columns mark those in use. */
  get end(): number {
    return this.#end;
  }

  get width(): number {
    return this.#keys.width;
  }

  /** The row of a key of this width, or -1. */
  find(key: Latin1Bytes): number {
    return this.#places[this.#placeOf(key)] ?? FREE;
  }

  /** The row of a new key, which no row has. */
  add(key: Latin1Bytes): number {
    const row = this.#free.pop() ?? this.#end++;
    this.#makeRoom();
    this.#keys.set(row, key);
    this.#places[this.#placeOf(key)] = row;
    return row;
  }

  key(row: number): Latin1Bytes {
    return this.#keys.at(row);
  }

  remove(row: number): void {
    const mask = this.#places.length - 1;
    let gap = this.#placeOf(this.key(row));
    // Rows after the gap whose probing began at or before it move into it.
    for (let at = (gap + 1) & mask; this.#places[at] !== FREE; at = (at + 1) & mask) {
      const moved = this.#places[at] ?? FREE;
      const home = this.#home(moved) & mask;
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      this.#places[gap] = moved;
      gap = at;
    }
    this.#places[gap] = FREE;
    this.#free.push(row);
  }

  #makeRoom(): void {
    if (this.size * PLACES <= this.#places.length) return;
    const before = this.#places;
    this.#places = new Int32Array(before.length * 2).fill(FREE);
    const mask = this.#places.length - 1;
    for (const row of before) {
      if (row === FREE) continue;
      let at = this.#home(row) & mask;
      while (this.#places[at] !== FREE) at = (at + 1) & mask;
      this.#places[at] = row;
    }
  }

  /** The place of a key, or the free one where it would be. */
  #placeOf(key: Latin1Bytes): number {
    const mask = this.#places.length - 1;
    let hash = SEED;
    for (let i = 0; i < this.width; i++) hash = mixed(hash, key.charCodeAt(i));
    let at = spread(hash) & mask;
    for (; ; at = (at + 1) & mask) {
      const row = this.#places[at] ?? FREE;
      if (row === FREE || this.#has(row, key)) return at;
    }
  }

  #home(row: number): number {
    let hash = SEED;
    for (let i = 0; i < this.width; i++) hash = mixed(hash, this.#keys.byte(row, i));
    return spread(hash);
  }

  #has(row: number, key: Latin1Bytes): boolean {
    for (let i = 0; i < this.width; i++) if (this.#keys.byte(row, i) !== key.charCodeAt(i)) return false;
    return true;
  }
}

/** The hash with another byte (the round of MurmurHash3, whose author put it into the public domain). */
function mixed(hash: number, byte: number): number {
  const turned = Math.imul(byte + 1, 0xcc9e2d51);
  const both = hash ^ Math.imul((turned << 15) | (turned >>> 17), 0x1b873593);
  return (Math.imul((both << 13) | (both >>> 19), 5) + 0xe6546b64) | 0;
}

/** Each bit of the result depends on all bits of the hash. */
function spread(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35);
  return twice ^ (twice >>> 16);
}

// A byte for each row: whether its element is desired, and whether it is applied.

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
