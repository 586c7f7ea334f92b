/** Columns of a table in memory: one value for each row. Pure. */
import type { Latin1Bytes } from '../../../kernel/nftables-kernel.ts';

const FIRST_ROWS = 8;
const GROWTH = 1.25;

/** Texts of the same number of bytes. */
export class BytesColumn {
  readonly width: number;
  #bytes: Buffer = Buffer.alloc(0);

  /** `width`: bytes of a value; 0: all values are "". */
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
export class BitsColumn {
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
export class TextsColumn {
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

/** With more texts, the older ones are no longer looked for. */
const MAX_SHARED = 4096;
