/** The attributes of an expression as the kernel lists it. */
import { findAttribute, textAt, valueLength } from '../netlink.ts';
import { NFT_REG_1, NFT_REG_4, NFT_REG32_00, NFTA_DATA_VALUE } from './constants.ts';
import type { Word } from './expressions.ts';

/** The attributes of one expression. */
export class Fields {
  readonly buffer: Buffer;
  readonly #start: number;
  readonly #end: number;

  constructor(buffer: Buffer, start: number, end: number) {
    this.buffer = buffer;
    this.#start = start;
    this.#end = end;
  }

  /** The offset of an attribute's value of at least so many bytes; -1 when it is missing. */
  at(type: number, least = 0): number {
    return this.#start < 0 ? -1 : findAttribute(this.buffer, this.#start, this.#end, type, least);
  }

  has(type: number): boolean {
    return this.at(type) >= 0;
  }

  number(type: number): number | undefined {
    const at = this.at(type);
    return at < 0 || valueLength(this.buffer, at) !== 4 ? undefined : this.buffer.readUInt32BE(at);
  }

  text(type: number): string | undefined {
    return this.#start < 0 ? undefined : textAt(this.buffer, this.#start, this.#end, type);
  }

  /** The words that a register begins. */
  word(type: number): Word | undefined {
    const register = this.number(type);
    if (register === undefined) return undefined;
    if (register >= NFT_REG32_00) return register - NFT_REG32_00;
    return register >= NFT_REG_1 && register <= NFT_REG_4 ? (register - NFT_REG_1) * 4 : undefined;
  }

  /** A value as bytes. */
  value(type: number): string | undefined {
    const data = this.at(type);
    if (data < 0) return undefined;
    const at = findAttribute(this.buffer, data, data + valueLength(this.buffer, data), NFTA_DATA_VALUE);
    return at < 0 ? undefined : this.buffer.toString('latin1', at, at + valueLength(this.buffer, at));
  }
}
