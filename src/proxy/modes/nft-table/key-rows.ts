/**
 * Numbers rows by keys of a fixed width, as a map does, in a quarter of its memory: the bytes of all keys stand in one array, and a
 * table of row numbers finds them (open addressing, linear probing; a removal closes its gap, so that nothing is left behind).
 * Pure.
 */
import type { Latin1Bytes } from '../../../kernel/nftables-kernel.ts';
import { BytesColumn } from './columns.ts';

/** A free place in the table of row numbers. */
const FREE = -1;
/** The table of row numbers has at least so many places for each row. */
const PLACES = 1.5;
/** Keys hold addresses that tenants choose: with a number that they do not know, they cannot choose keys that collide. */
const SEED = Math.floor(Math.random() * 2 ** 31);

export class KeyRows {
  readonly #keys: BytesColumn;
  /** Row numbers; the length is a power of 2. */
  #places: Int32Array;
  /** Rows that were removed, for reuse. */
  #free: number[] = [];
  #end = 0;

  /** `width`: bytes of a key. */
  constructor(width: number) {
    this.#keys = new BytesColumn(width);
    this.#places = new Int32Array(1).fill(FREE);
  }

  get size(): number {
    return this.#end - this.#free.length;
  }

  /** Every row number is below this; the caller's columns say which of them are in use. */
  get end(): number {
    return this.#end;
  }

  get width(): number {
    return this.#keys.width;
  }

  /** The row of a key of this width; -1 for none. */
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

/** The hash with one byte more (the round of MurmurHash3, whose author put it into the public domain). */
function mixed(hash: number, byte: number): number {
  const turned = Math.imul(byte + 1, 0xcc9e2d51);
  const both = hash ^ Math.imul((turned << 15) | (turned >>> 17), 0x1b873593);
  return (Math.imul((both << 13) | (both >>> 19), 5) + 0xe6546b64) | 0;
}

/** All bits of the hash count in each bit of the result. */
function spread(hash: number): number {
  const once = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35);
  return twice ^ (twice >>> 16);
}
