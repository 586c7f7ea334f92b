/**
 * A digest of the objects of a table that follows their changes: the sum of a hash of each object, so that an object is added or taken
 * away in constant time and the order does not matter. Pure.
 *
 * The names in the objects come from everyone who may write Services. Well-chosen names could make two sums of plain hashes equal,
 * so the hash has a secret key: HalfSipHash-2-4 with 64 bits (Aumasson and Bernstein, "SipHash: a fast short-input PRF"; the kernel has
 * it in lib/siphash.c). Without the key, two different tables get one digest once in 2^64 tries, and a try is a restart.
 */
import type { NftElement, NftSet, ReadChain } from '../../../kernel/nftables-kernel.ts';

/** The objects of one table. */
interface DigestedTable {
  readonly chains: ReadonlyMap<string, ReadChain>;
  readonly sets: ReadonlyMap<string, NftSet>;
  /** The elements of each set that slicewire writes. */
  readonly elements: Iterable<readonly [NftSet, Iterable<NftElement>]>;
}

/** Objects that are hashed before the event loop runs again. */
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

  /** `by` is 1 when the object was added, -1 when it was removed. */
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

  /** Adds all objects of a table. Yields where the event loop should run; the table must not change meanwhile. */
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

// HalfSipHash-2-4 with 64 bits of output, as lib/siphash.c of the kernel and the authors' reference have it, over a series of texts.

/** 64 bits, as two signed numbers of 32. */
interface Half {
  readonly low: number;
  readonly high: number;
}

/** Bytes of the first buffer; longer input gets a longer one. */
const ROOM = 1024;

/**
 * Hashes one series of texts at a time: `begin`, `text` for each, `end`. Its result is in `low` and `high`. Two series with different
 * texts never are the same input: each text is preceded by its length.
 */
export class HalfSipHash {
  low = 0;
  high = 0;
  #bytes = new Uint8Array(ROOM);
  #length = 0;

  begin(): this {
    this.#length = 0;
    return this;
  }

  /** A string of Latin-1, as nearly all are, takes a byte for each character. */
  text(text: string): this {
    const { length } = text;
    const start = this.#length;
    this.#length = start + 4 + length;
    if (this.#length > this.#bytes.length) this.#grow();
    const bytes = this.#bytes;
    let all = 0;
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i);
      all |= code;
      bytes[start + 4 + i] = code;
    }
    const isWide = all > 0xff;
    this.#number(start, isWide ? ~length : length);
    // The upper bytes of all characters follow.
    if (isWide) for (let i = 0; i < length; i++) this.#byte(text.charCodeAt(i) >> 8);
    return this;
  }

  end({ low, high }: Half): this {
    const length = this.#length;
    // The last word has the length in its highest byte, as the reference has it; up to there the buffer is filled with zeros.
    while (this.#length % 4 !== 3) this.#byte(0);
    this.#byte(length);
    this.#hash(low, high, this.#bytes, this.#length);
    return this;
  }

  #number(at: number, value: number): void {
    const bytes = this.#bytes;
    bytes[at] = value;
    bytes[at + 1] = value >> 8;
    bytes[at + 2] = value >> 16;
    bytes[at + 3] = value >> 24;
  }

  #byte(value: number): void {
    if (this.#length === this.#bytes.length) this.#grow();
    this.#bytes[this.#length++] = value;
  }

  #grow(): void {
    const longer = new Uint8Array(2 * Math.max(this.#length, this.#bytes.length));
    longer.set(this.#bytes);
    this.#bytes = longer;
  }

  /** `bytes` are padded, and `length` is a multiple of 4. */
  #hash(k0: number, k1: number, bytes: Uint8Array, length: number): void {
    let v0 = k0 | 0;
    let v1 = k1 ^ 0xee;
    let v2 = k0 ^ 0x6c796765;
    let v3 = k1 ^ 0x74656462;
    // Two rounds for each word, four rounds before each half of the result.
    let rounds = 2;
    for (let at = 0; at <= length + 4; at += 4) {
      const isInput = at < length;
      const word = isInput ? wordAt(bytes, at) : 0;
      if (isInput) v3 ^= word;
      else {
        rounds = 4;
        if (at === length) v2 ^= 0xee;
        else v1 ^= 0xdd;
      }
      for (let round = 0; round < rounds; round++) {
        v0 = (v0 + v1) | 0;
        v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
        v0 = (v0 << 16) | (v0 >>> 16);
        v2 = (v2 + v3) | 0;
        v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
        v0 = (v0 + v3) | 0;
        v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
        v2 = (v2 + v1) | 0;
        v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
        v2 = (v2 << 16) | (v2 >>> 16);
      }
      if (isInput) v0 ^= word;
      else if (at === length) this.low = v1 ^ v3;
      else this.high = v1 ^ v3;
    }
  }
}

function wordAt(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
}
