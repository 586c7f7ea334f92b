/**
 * Writes the body of a request in place: headers, attributes, nested attributes. Thousands of requests are written in a row, and a
 * buffer for each attribute would cost six times as much as the kernel's work (measured).
 */
import { ATTRIBUTE_HEADER, align, NLA_F_NESTED } from './netlink.ts';

/** The default number of bytes of the longest body; most bodies have a few hundred. */
const CAPACITY = 1024;

export class BodyWriter {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(capacity = CAPACITY) {
    this.#buffer = Buffer.alloc(capacity);
  }

  /** Begins a body. This and all other methods throw RangeError when the body exceeds the capacity. */
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

  /** Text with a NUL at its end. */
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

  /** An attribute that contains the attributes that `write` adds. */
  nest(type: number, write: (inner: this) => void): this {
    const start = this.#header(type | NLA_F_NESTED, 0) - ATTRIBUTE_HEADER;
    write(this);
    this.#buffer.writeUInt16LE(this.#at - start, start);
    return this;
  }

  /** A copy of the body. */
  end(): Buffer {
    return Buffer.from(this.#buffer.subarray(0, this.#at));
  }

  /** Returns the offset of the value. */
  #header(type: number, length: number): number {
    const start = this.#at;
    const end = start + align(ATTRIBUTE_HEADER + length);
    // Checked before writing: a request that is too long must not corrupt the next one.
    if (end > this.#buffer.length) {
      throw new RangeError(`netlink: a request of more than ${this.#buffer.length} bytes`);
    }
    this.#buffer.writeUInt16LE(ATTRIBUTE_HEADER + length, start);
    this.#buffer.writeUInt16LE(type, start + 2);
    this.#at = end;
    return start + ATTRIBUTE_HEADER;
  }
}
