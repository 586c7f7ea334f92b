/**
 * A digest of the objects of a table that follows their changes: the sum of a hash of each object, so that an object is added or taken
 * away in constant time and the order does not matter. Pure.
 *
 * The names in the objects come from whoever may write Services. A sum of plain hashes can be made to collide by choosing such names,
 * so the hash has a secret key: HalfSipHash-2-4 with 64 bits (Aumasson and Bernstein, "SipHash: a fast short-input PRF"; the kernel has
 * it in lib/siphash.c). Who does not know the key gets two different tables with one digest once in 2^64 tries, and a try is a restart.
 */
import type { NftElement, NftSet, ReadChain } from '../../../kernel/nftables-kernel.ts';
import { type Half, HalfSipHash } from './half-sip-hash.ts';

/** The objects of one table. */
export interface DigestedTable {
  readonly chains: ReadonlyMap<string, ReadChain>;
  readonly sets: ReadonlyMap<string, NftSet>;
  /** The elements of each set that slicewire writes. */
  readonly elements: Iterable<readonly [NftSet, Iterable<NftElement>]>;
}

/** Objects that are hashed between two breaths of the event loop. */
const OBJECTS_AT_ONCE = 20_000;

export class TableDigest {
  readonly #hash = new HalfSipHash();
  readonly #key: Half;
  /** A key for each set, so that an element need not name its set. */
  readonly #ofSets = new Map<string, Half>();
  readonly #ofChains: Half;
  readonly #ofNames: Half;
  #low = 0;
  #high = 0;

  /** `key`: 16 hexadecimal digits. Digests with different keys cannot be compared. */
  constructor(key: string) {
    const [high, low] = [key.slice(0, 8), key.slice(8)].map((half) => Number.parseInt(half, 16) | 0);
    if (key.length !== 16 || high === undefined || low === undefined) throw new RangeError('a key has 16 digits');
    this.#key = { low, high };
    this.#ofChains = this.#keyOf('chain', '');
    this.#ofNames = this.#keyOf('set', '');
  }

  /** 16 hexadecimal digits. */
  get value(): string {
    return [this.#high, this.#low].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('');
  }

  /** `by`: 1 when the object came, -1 when it went. */
  element({ name }: NftSet, { key, end, data, isCounted }: NftElement, by: 1 | -1): void {
    let ofSet = this.#ofSets.get(name);
    if (ofSet === undefined) {
      ofSet = this.#keyOf('elements', name);
      this.#ofSets.set(name, ofSet);
    }
    const hash = this.#hash.begin().text(key).text(end).text(data);
    this.#add((isCounted === true ? hash.text('counted') : hash).end(ofSet), by);
  }

  /** The texts of rules identify them, as in `sameChain`. */
  chain(name: string, { rules }: ReadChain, by: 1 | -1): void {
    const hash = this.#hash.begin().text(name);
    for (const { text } of rules) hash.text(text);
    this.#add(hash.end(this.#ofChains), by);
  }

  set(name: string, by: 1 | -1): void {
    this.#add(this.#hash.begin().text(name).end(this.#ofNames), by);
  }

  /** Adds all objects of a table. Yields now and then, for a breath of the event loop; the table must not change meanwhile. */
  *addAll({ chains, sets, elements }: DigestedTable): Generator<undefined, void> {
    let count = 0;
    for (const name of sets.keys()) this.set(name, 1);
    for (const [name, chain] of chains) {
      this.chain(name, chain, 1);
      if (++count % OBJECTS_AT_ONCE === 0) yield;
    }
    for (const [set, ofSet] of elements) {
      for (const element of ofSet) {
        this.element(set, element, 1);
        if (++count % OBJECTS_AT_ONCE === 0) yield;
      }
    }
  }

  #keyOf(kind: string, name: string): Half {
    const { low, high } = this.#hash.begin().text(kind).text(name).end(this.#key);
    return { low, high };
  }

  #add({ low, high }: Half, by: 1 | -1): void {
    this.#low = (this.#low + by * low) | 0;
    this.#high = (this.#high + by * high) | 0;
  }
}
