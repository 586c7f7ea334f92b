/**
 * Packed values: an object as one short text, each character a byte. A hundred thousand objects of an API server, unpacked, are
 * millions of objects and texts for the garbage collector; packed, each is one. Equal values have equal texts. Pure.
 */
import type { Address } from '../../../base/address.ts';

/** A value of type `T` as a text of bytes. */
export type Packed<T> = string & { readonly __of: T };

const FIRST_ROOM = 1024;
/** The limit of bytes for one number, or for the head of a text. */
const MAX_SMALL = 16;

/** Writes values one after another, between `begin` and `end`. */
export class Packer {
  #bytes = Buffer.alloc(FIRST_ROOM);
  #at = 0;

  /** Drops the bytes that an error left behind. */
  begin(): void {
    this.#at = 0;
  }

  /** Returns the values since `begin` as one text. */
  end<T>(): Packed<T> {
    const packed = this.#bytes.toString('latin1', 0, this.#at);
    this.#at = 0;
    return packed as Packed<T>;
  }

  byte(value: number): void {
    this.#room(1);
    this.#bytes[this.#at++] = value;
  }

  /** A whole number from 0 on, up to `Number.MAX_SAFE_INTEGER`: seven bits a byte, the last ones first. Throws RangeError for others. */
  number(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new RangeError(`${value} cannot be packed: it is no whole number from 0 on`);
    }
    this.#room(MAX_SMALL);
    let left = value;
    for (; left > 127; left = Math.floor(left / 128)) this.#bytes[this.#at++] = (left % 128) | 128;
    this.#bytes[this.#at++] = left;
  }

  /** Any text: in Latin-1 if it has only such characters, otherwise in UTF-16. */
  text(text: string): void {
    const isWide = /[^\0-\u00ff]/.test(text);
    const length = isWide ? text.length * 2 : text.length;
    this.number(length * 2 + (isWide ? 1 : 0));
    this.#room(length);
    this.#at += this.#bytes.write(text, this.#at, length, isWide ? 'utf16le' : 'latin1');
  }

  /** IPv4 in 4 bytes after a 0; IPv6 as text, which is faster to read back. */
  address(address: Address): void {
    if (address.includes(':')) {
      this.text(address);
      return;
    }
    this.#room(MAX_SMALL);
    this.#bytes[this.#at++] = 0;
    let octet = 0;
    for (let i = 0; i < address.length; i++) {
      const code = address.charCodeAt(i);
      if (code === DOT) {
        this.#bytes[this.#at++] = octet;
        octet = 0;
      } else octet = octet * 10 + code - ZERO;
    }
    this.#bytes[this.#at++] = octet;
  }

  list<T>(all: readonly T[], write: (one: T) => void): void {
    this.number(all.length);
    for (const one of all) write(one);
  }

  #room(more: number): void {
    if (this.#at + more <= this.#bytes.length) return;
    const bytes = Buffer.alloc((this.#at + more) * 2);
    bytes.set(this.#bytes);
    this.#bytes = bytes;
  }
}

const DOT = 46;
const ZERO = 48;

/** Reads values in the order in which they were written. */
export class Unpacker {
  readonly #packed: string;
  #at = 0;

  constructor(packed: Packed<unknown>) {
    this.#packed = packed;
  }

  byte(): number {
    return this.#packed.charCodeAt(this.#at++);
  }

  /** Throws RangeError where the text ends before the number does. */
  number(): number {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = this.byte();
      if (byte < 128) return value + byte * unit;
      if (Number.isNaN(byte)) throw new RangeError('a packed text ends in the middle of a number');
      value += (byte - 128) * unit;
    }
  }

  text(): string {
    const head = this.number();
    const length = (head - (head % 2)) / 2;
    const bytes = this.#packed.slice(this.#at, this.#at + length);
    this.#at += length;
    return head % 2 === 0 ? bytes : Buffer.from(bytes, 'latin1').toString('utf16le');
  }

  address(): Address {
    if (this.#packed.charCodeAt(this.#at) !== 0) return this.text() as Address;
    this.#at += 1;
    return `${this.byte()}.${this.byte()}.${this.byte()}.${this.byte()}` as Address;
  }

  list<T>(read: () => T): readonly T[] {
    const length = this.number();
    if (length === 0) return NOTHING;
    const all: T[] = [];
    for (let i = 0; i < length; i++) all.push(read());
    return all;
  }
}

const NOTHING: readonly never[] = Object.freeze([]);

// A UUID in 16 bytes instead of 36.

/** The form of nearly every uid (RFC 9562), as the API server writes it. */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const LENGTH = 36;
const HYPHEN = 0x2d;
/** The two digits of each byte. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

export function isUuid(text: string): boolean {
  return text.length === LENGTH && text.charCodeAt(8) === HYPHEN && UUID.test(text);
}

/** `text` must be a UUID. */
export function packUuid(into: Packer, text: string): void {
  for (let i = 0; i < LENGTH; i += 2) {
    if (text.charCodeAt(i) === HYPHEN) i += 1;
    into.byte(digit(text.charCodeAt(i)) * 16 + digit(text.charCodeAt(i + 1)));
  }
}

export function unpackUuid(from: Unpacker): string {
  let text = '';
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) text += '-';
    text += HEX[from.byte()];
  }
  return text;
}

function digit(code: number): number {
  return code < 0x3a ? code - 0x30 : code - 0x57;
}
