/**
 * Expressions of nftables' rules (linux/netfilter/nf_tables.h), as the kernel takes them: each reads and writes registers.
 * Registers are 16 words of 4 bytes; a value takes as many words as it needs, a concatenation those that follow each other.
 */
import type { BodyWriter } from '../body-writer.ts';

/** The n-th word, from 0 (NFT_REG32_00). */
export type Word = number;
const REG32_00 = 8;
const REG_VERDICT = 0;

export type Expression = (body: BodyWriter) => void;

export const NFTA_LIST_ELEM = 1;
export const NFTA_EXPR_NAME = 1;
export const NFTA_EXPR_DATA = 2;
export const NFTA_DATA_VALUE = 1;
export const NFTA_DATA_VERDICT = 2;
export const NFTA_VERDICT_CODE = 1;
export const NFTA_VERDICT_CHAIN = 2;

/** Verdicts (NFT_JUMP, NFT_GOTO, NF_DROP…). */
export const NFT_JUMP = -3;
export const NFT_GOTO = -4;
export const NFT_RETURN = -5;
export const NF_DROP = 0;
export const NF_ACCEPT = 1;

export type Verdict =
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  | { readonly kind: 'return' | 'drop' | 'accept' };

const CODES: Readonly<Record<Verdict['kind'], number>> = {
  jump: NFT_JUMP,
  goto: NFT_GOTO,
  return: NFT_RETURN,
  drop: NF_DROP,
  accept: NF_ACCEPT,
};

function expression(name: string, write: (data: BodyWriter) => void): Expression {
  return (body) => body.nest(NFTA_LIST_ELEM, (one) => one.text(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, write));
}

const reg = (word: Word) => REG32_00 + word;

export function writeVerdict(body: BodyWriter, verdict: Verdict): void {
  body.nest(NFTA_DATA_VERDICT, (inner) => {
    inner.u32be(NFTA_VERDICT_CODE, CODES[verdict.kind] >>> 0);
    if ('chain' in verdict) inner.text(NFTA_VERDICT_CHAIN, verdict.chain);
  });
}

export type Base = 'network' | 'transport';

/** `ip daddr`, `th dport`: bytes of the packet into words. */
export function payload(base: Base, offset: number, length: number, to: Word): Expression {
  return expression('payload', (data) =>
    data
      .u32be(1, reg(to))
      .u32be(2, base === 'network' ? 1 : 2)
      .u32be(3, offset)
      .u32be(4, length),
  );
}

/** NFT_META_… */
const META = { mark: 3, iifname: 6, l4proto: 16 } as const;

export function meta(key: keyof typeof META, to: Word): Expression {
  return expression('meta', (data) => data.u32be(1, reg(to)).u32be(2, META[key]));
}

/** `meta mark set`, from a word. */
export function setMark(from: Word): Expression {
  return expression('meta', (data) => data.u32be(2, META.mark).u32be(3, reg(from)));
}

const OPERATORS = { eq: 0, neq: 1 } as const;

/** The rule goes on when the words compare so with the value. */
export function compare(from: Word, operator: keyof typeof OPERATORS, value: Uint8Array): Expression {
  return expression('cmp', (data) =>
    data
      .u32be(1, reg(from))
      .u32be(2, OPERATORS[operator])
      .nest(3, (inner) => inner.bytes(NFTA_DATA_VALUE, value)),
  );
}

/** `(words & mask) ^ xor` */
export function bitwise(from: Word, to: Word, mask: Uint8Array, xor: Uint8Array): Expression {
  return expression('bitwise', (data) =>
    data
      .u32be(1, reg(from))
      .u32be(2, reg(to))
      .u32be(3, mask.length)
      .nest(4, (inner) => inner.bytes(NFTA_DATA_VALUE, mask))
      .nest(5, (inner) => inner.bytes(NFTA_DATA_VALUE, xor)),
  );
}

/** A value into words. */
export function immediate(to: Word, value: Uint8Array): Expression {
  return expression('immediate', (data) =>
    data.u32be(1, reg(to)).nest(2, (inner) => inner.bytes(NFTA_DATA_VALUE, value)),
  );
}

export function verdict(what: Verdict): Expression {
  return expression('immediate', (data) => data.u32be(1, REG_VERDICT).nest(2, (inner) => writeVerdict(inner, what)));
}

export interface LookupOptions {
  /** Where the data of a map goes: words, or `verdict`, which is carried out. */
  readonly to?: Word | 'verdict';
  /** The rule goes on when there is no such element. */
  readonly isInverted?: boolean;
}

/** Look the words up in a set or map; the rule ends when there is no such element. */
export function lookup(set: string, from: Word, { to, isInverted = false }: LookupOptions = {}): Expression {
  return expression('lookup', (data) => {
    data.text(1, set).u32be(2, reg(from));
    if (to !== undefined) data.u32be(3, to === 'verdict' ? REG_VERDICT : reg(to));
    if (isInverted) data.u32be(5, 1);
  });
}

/** `numgen random mod n offset m`, in the machine's byte order. */
export function random(modulus: number, offset: number, to: Word): Expression {
  return expression('numgen', (data) => data.u32be(1, reg(to)).u32be(2, modulus).u32be(3, 1).u32be(4, offset));
}

/** `dnat to` the address and port in words. */
export function dnat(family: 'IPv4' | 'IPv6', address: Word, port: Word): Expression {
  return expression('nat', (data) =>
    data
      .u32be(1, 1)
      .u32be(2, family === 'IPv4' ? 2 : 10)
      .u32be(3, reg(address))
      .u32be(4, reg(address))
      .u32be(5, reg(port))
      .u32be(6, reg(port))
      // NF_NAT_RANGE_MAP_IPS, NF_NAT_RANGE_PROTO_SPECIFIED
      .u32be(7, 3),
  );
}

/** `masquerade fully-random` (NF_NAT_RANGE_PROTO_RANDOM_FULLY). */
export function masquerade(): Expression {
  return expression('masq', (data) => data.u32be(1, 16));
}

/** `fib daddr type`, `fib saddr type`: an RTN_… in a word. */
export function addressType(of: 'saddr' | 'daddr', to: Word): Expression {
  return expression('fib', (data) =>
    data
      .u32be(1, reg(to))
      .u32be(2, 3)
      .u32be(3, of === 'saddr' ? 1 : 2),
  );
}

/** Refuse with an ICMP error, «port unreachable», in the words of the family: NFT_REJECT_ICMPX_UNREACH is for tables of both (nft_reject_ipv4.c drops). */
export function reject(family: 'IPv4' | 'IPv6'): Expression {
  const portUnreachable = family === 'IPv4' ? 3 : 4;
  return expression('reject', (data) => data.u32be(1, 0).u8(2, portUnreachable));
}

const CT = { state: 0, status: 2 } as const;

export function connection(key: keyof typeof CT, to: Word): Expression {
  return expression('ct', (data) => data.u32be(1, reg(to)).u32be(2, CT[key]));
}

export interface SetChange {
  readonly set: string;
  readonly key: Word;
  readonly data?: Word;
  /** Milliseconds. */
  readonly timeout?: number;
}

/** Add an element from words; `update` keeps one that is there alive, `delete` drops it. */
export function change(how: 'add' | 'update' | 'delete', { set, key, data: value, timeout }: SetChange): Expression {
  return expression('dynset', (data) => {
    data.text(1, set).u32be(3, ['add', 'update', 'delete'].indexOf(how)).u32be(4, reg(key));
    if (value !== undefined) data.u32be(5, reg(value));
    if (timeout !== undefined) data.u64be(6, BigInt(timeout));
  });
}
