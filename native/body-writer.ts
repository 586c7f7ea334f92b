/**
 * Writes the body of one request in place: headers, attributes, attributes within attributes. Thousands of requests are
 * written in a row, and a buffer for each attribute would cost more than the kernel's work (measured: six times as much).
 */
import { ATTRIBUTE_HEADER, align, NLA_F_NESTED } from './netlink.ts';

/** Bytes of the longest body, where nobody asks for more: most have at most a few hundred. */
const CAPACITY = 1024;

export class BodyWriter {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(capacity = CAPACITY) {
    this.#buffer = Buffer.alloc(capacity);
  }

  /** Begin a body. Throws RangeError, here and in all others, when it grows over the capacity. */
  begin(...header: readonly Uint8Array[]): this {
    this.#buffer.fill(0, 0, this.#at);
    this.#at = 0;
    for (const part of header) {
      this.#buffer.set(part, this.#at);
      this.#at += align(part.length);
    }
    return this;
  }

  bytes(type: number, value: Uint8Array): this {
    const start = this.#header(type, value.length);
    this.#buffer.set(value, start);
    return this;
  }

  /** Text with the NUL that ends it. */
  text(type: number, value: string): this {
    const start = this.#header(type, Buffer.byteLength(value) + 1);
    this.#buffer.write(value, start);
    return this;
  }

  /** Bytes, each a character of Latin-1. */
  latin1(type: number, value: string): this {
    this.#buffer.write(value, this.#header(type, value.length), 'latin1');
    return this;
  }

  u8(type: number, value: number): this {
    this.#buffer.writeUInt8(value, this.#header(type, 1));
    return this;
  }

  /** In the machine's byte order. */
  u16(type: number, value: number): this {
    this.#buffer.writeUInt16LE(value, this.#header(type, 2));
    return this;
  }

  u32(type: number, value: number): this {
    this.#buffer.writeUInt32LE(value, this.#header(type, 4));
    return this;
  }

  /** In network order. */
  u16be(type: number, value: number): this {
    this.#buffer.writeUInt16BE(value, this.#header(type, 2));
    return this;
  }

  u32be(type: number, value: number): this {
    this.#buffer.writeUInt32BE(value, this.#header(type, 4));
    return this;
  }

  u64be(type: number, value: bigint): this {
    this.#buffer.writeBigUInt64BE(value, this.#header(type, 8));
    return this;
  }

  /** An attribute that holds those that `write` writes. */
  nest(type: number, write: (inner: this) => void): this {
    const start = this.#header(type | NLA_F_NESTED, 0) - ATTRIBUTE_HEADER;
    write(this);
    this.#buffer.writeUInt16LE(this.#at - start, start);
    return this;
  }

  /** A copy of what was written. */
  end(): Buffer {
    return Buffer.from(this.#buffer.subarray(0, this.#at));
  }

  /** Returns where the value begins. */
  #header(type: number, length: number): number {
    const start = this.#at;
    const end = start + align(ATTRIBUTE_HEADER + length);
    // Before anything moves: one request that is too long must not spoil the next.
    if (end > this.#buffer.length) {
      throw new RangeError(`netlink: a request of more than ${this.#buffer.length} bytes`);
    }
    this.#buffer.writeUInt16LE(ATTRIBUTE_HEADER + length, start);
    this.#buffer.writeUInt16LE(type, start + 2);
    this.#at = end;
    return start + ATTRIBUTE_HEADER;
  }
}
