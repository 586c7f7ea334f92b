/**
 * Expressions of nftables' rules (linux/netfilter/nf_tables.h). Each reads and writes registers, which are 16 words of 4 bytes. A
 * value takes as many words as it needs; the parts of a concatenation take consecutive words.
 */
import type { BodyWriter } from '../body-writer.ts';
import { AF_INET, AF_INET6 } from '../libc.ts';
import {
  ICMP_PORT_UNREACH,
  ICMPV6_PORT_UNREACH,
  NF_ACCEPT,
  NF_DROP,
  NF_NAT_RANGE_MAP_IPS,
  NF_NAT_RANGE_PROTO_RANDOM_FULLY,
  NF_NAT_RANGE_PROTO_SPECIFIED,
  NFT_CMP_EQ,
  NFT_CMP_NEQ,
  NFT_CONNLIMIT_F_INV,
  NFT_CT_STATE,
  NFT_CT_STATUS,
  NFT_DYNSET_OP_ADD,
  NFT_DYNSET_OP_UPDATE,
  NFT_FIB_RESULT_ADDRTYPE,
  NFT_GOTO,
  NFT_HASH_JENKINS,
  NFT_JUMP,
  NFT_LIMIT_F_INV,
  NFT_LIMIT_PKTS,
  NFT_META_IIFNAME,
  NFT_META_L4PROTO,
  NFT_META_MARK,
  NFT_META_NFTRACE,
  NFT_NAT_DNAT,
  NFT_NG_RANDOM,
  NFT_PAYLOAD_NETWORK_HEADER,
  NFT_PAYLOAD_TRANSPORT_HEADER,
  NFT_REG_VERDICT,
  NFT_REG32_00,
  NFT_REJECT_ICMP_UNREACH,
  NFT_REJECT_TCP_RST,
  NFT_RETURN,
  NFTA_BITWISE_DREG,
  NFTA_BITWISE_LEN,
  NFTA_BITWISE_MASK,
  NFTA_BITWISE_SREG,
  NFTA_BITWISE_XOR,
  NFTA_CMP_DATA,
  NFTA_CMP_OP,
  NFTA_CMP_SREG,
  NFTA_CONNLIMIT_COUNT,
  NFTA_CONNLIMIT_FLAGS,
  NFTA_CT_DREG,
  NFTA_CT_KEY,
  NFTA_DATA_VALUE,
  NFTA_DATA_VERDICT,
  NFTA_DYNSET_EXPR,
  NFTA_DYNSET_OP,
  NFTA_DYNSET_SET_NAME,
  NFTA_DYNSET_SREG_KEY,
  NFTA_DYNSET_TIMEOUT,
  NFTA_EXPR_DATA,
  NFTA_EXPR_NAME,
  NFTA_FIB_DREG,
  NFTA_FIB_F_DADDR,
  NFTA_FIB_F_SADDR,
  NFTA_FIB_FLAGS,
  NFTA_FIB_RESULT,
  NFTA_HASH_DREG,
  NFTA_HASH_LEN,
  NFTA_HASH_MODULUS,
  NFTA_HASH_OFFSET,
  NFTA_HASH_SEED,
  NFTA_HASH_SREG,
  NFTA_HASH_TYPE,
  NFTA_IMMEDIATE_DATA,
  NFTA_IMMEDIATE_DREG,
  NFTA_LIMIT_BURST,
  NFTA_LIMIT_FLAGS,
  NFTA_LIMIT_RATE,
  NFTA_LIMIT_TYPE,
  NFTA_LIMIT_UNIT,
  NFTA_LIST_ELEM,
  NFTA_LOOKUP_DREG,
  NFTA_LOOKUP_SET,
  NFTA_LOOKUP_SREG,
  NFTA_MASQ_FLAGS,
  NFTA_META_DREG,
  NFTA_META_KEY,
  NFTA_META_SREG,
  NFTA_NAT_FAMILY,
  NFTA_NAT_FLAGS,
  NFTA_NAT_REG_ADDR_MAX,
  NFTA_NAT_REG_ADDR_MIN,
  NFTA_NAT_REG_PROTO_MAX,
  NFTA_NAT_REG_PROTO_MIN,
  NFTA_NAT_TYPE,
  NFTA_NG_DREG,
  NFTA_NG_MODULUS,
  NFTA_NG_OFFSET,
  NFTA_NG_TYPE,
  NFTA_PAYLOAD_BASE,
  NFTA_PAYLOAD_DREG,
  NFTA_PAYLOAD_LEN,
  NFTA_PAYLOAD_OFFSET,
  NFTA_REJECT_ICMP_CODE,
  NFTA_REJECT_TYPE,
  NFTA_VERDICT_CHAIN,
  NFTA_VERDICT_CODE,
} from './constants.ts';
import { COUNTER } from './request.ts';

/** The index of a word, from 0 (NFT_REG32_00). */
export type Word = number;

/** Writes the expression's attributes. */
export type ExpressionWriter = (body: BodyWriter) => void;

/** The destination of a packet: another chain, the calling chain, or none. */
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

function expression(name: string, write: (data: BodyWriter) => void): ExpressionWriter {
  return (body) => body.nest(NFTA_LIST_ELEM, (one) => one.text(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, write));
}

const reg = (word: Word) => NFT_REG32_00 + word;

/** Writes a verdict as data of an expression or element. */
export function writeVerdict(body: BodyWriter, verdict: Verdict): void {
  body.nest(NFTA_DATA_VERDICT, (inner) => {
    inner.u32be(NFTA_VERDICT_CODE, CODES[verdict.kind] >>> 0);
    if ('chain' in verdict) inner.text(NFTA_VERDICT_CHAIN, verdict.chain);
  });
}

/** The header to which an offset of `payload` belongs. */
export type Base = 'network' | 'transport';

/** `ip daddr`, `th dport`: copies bytes of the packet into words. */
export function payload(base: Base, offset: number, length: number, to: Word): ExpressionWriter {
  return expression('payload', (data) =>
    data
      .u32be(NFTA_PAYLOAD_DREG, reg(to))
      .u32be(NFTA_PAYLOAD_BASE, base === 'network' ? NFT_PAYLOAD_NETWORK_HEADER : NFT_PAYLOAD_TRANSPORT_HEADER)
      .u32be(NFTA_PAYLOAD_OFFSET, offset)
      .u32be(NFTA_PAYLOAD_LEN, length),
  );
}

const META = { mark: NFT_META_MARK, iifname: NFT_META_IIFNAME, l4proto: NFT_META_L4PROTO } as const;

/** `meta mark`, `meta iifname`, `meta l4proto`: copies a property of the packet into words. */
export function meta(key: keyof typeof META, to: Word): ExpressionWriter {
  return expression('meta', (data) => data.u32be(NFTA_META_DREG, reg(to)).u32be(NFTA_META_KEY, META[key]));
}

/** `meta mark set`: copies a word into the mark. */
export function setMark(from: Word): ExpressionWriter {
  return expression('meta', (data) => data.u32be(NFTA_META_KEY, META.mark).u32be(NFTA_META_SREG, reg(from)));
}

/** `meta nftrace set`: the lowest byte of a word decides whether the kernel reports the packet's way from here on. */
export function setTrace(from: Word): ExpressionWriter {
  return expression('meta', (data) => data.u32be(NFTA_META_KEY, NFT_META_NFTRACE).u32be(NFTA_META_SREG, reg(from)));
}

const DAY = 24n * 60n * 60n;

/** `limit rate 1/day burst COUNT packets`: the rule goes on for the first packets, and then for one a day. */
export function first(count: number): ExpressionWriter {
  return expression('limit', (data) =>
    data
      .u64be(NFTA_LIMIT_RATE, 1n)
      .u64be(NFTA_LIMIT_UNIT, DAY)
      .u32be(NFTA_LIMIT_BURST, count)
      .u32be(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS),
  );
}

const OPERATORS = { eq: NFT_CMP_EQ, neq: NFT_CMP_NEQ } as const;

/** The rule goes on if the words equal the value, or differ from it. */
export function compare(from: Word, operator: keyof typeof OPERATORS, value: Uint8Array): ExpressionWriter {
  return expression('cmp', (data) =>
    data
      .u32be(NFTA_CMP_SREG, reg(from))
      .u32be(NFTA_CMP_OP, OPERATORS[operator])
      .nest(NFTA_CMP_DATA, (inner) => inner.bytes(NFTA_DATA_VALUE, value)),
  );
}

/** `(words & mask) ^ xor` */
export function bitwise(from: Word, to: Word, mask: Uint8Array, xor: Uint8Array): ExpressionWriter {
  return expression('bitwise', (data) =>
    data
      .u32be(NFTA_BITWISE_SREG, reg(from))
      .u32be(NFTA_BITWISE_DREG, reg(to))
      .u32be(NFTA_BITWISE_LEN, mask.length)
      .nest(NFTA_BITWISE_MASK, (inner) => inner.bytes(NFTA_DATA_VALUE, mask))
      .nest(NFTA_BITWISE_XOR, (inner) => inner.bytes(NFTA_DATA_VALUE, xor)),
  );
}

/** Writes a value into words. */
export function immediate(to: Word, value: Uint8Array): ExpressionWriter {
  return expression('immediate', (data) =>
    data.u32be(NFTA_IMMEDIATE_DREG, reg(to)).nest(NFTA_IMMEDIATE_DATA, (inner) => inner.bytes(NFTA_DATA_VALUE, value)),
  );
}

/** A verdict as the last expression of a rule. */
export function verdict(what: Verdict): ExpressionWriter {
  return expression('immediate', (data) =>
    data.u32be(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT).nest(NFTA_IMMEDIATE_DATA, (inner) => writeVerdict(inner, what)),
  );
}

export interface LookupOptions {
  /** The target of a map's data: words, or `verdict`, which the kernel carries out. */
  readonly to?: Word | 'verdict';
}

/** Looks the words up in a set or map; the rule ends when there is no such element. */
export function lookup(set: string, from: Word, { to }: LookupOptions = {}): ExpressionWriter {
  return expression('lookup', (data) => {
    data.text(NFTA_LOOKUP_SET, set).u32be(NFTA_LOOKUP_SREG, reg(from));
    if (to !== undefined) data.u32be(NFTA_LOOKUP_DREG, to === 'verdict' ? NFT_REG_VERDICT : reg(to));
  });
}

/** `numgen random mod MODULUS offset OFFSET`: a random number in the machine's byte order. */
export function random(modulus: number, offset: number, to: Word): ExpressionWriter {
  return expression('numgen', (data) =>
    data
      .u32be(NFTA_NG_DREG, reg(to))
      .u32be(NFTA_NG_MODULUS, modulus)
      .u32be(NFTA_NG_TYPE, NFT_NG_RANDOM)
      .u32be(NFTA_NG_OFFSET, offset),
  );
}

/** `jhash … mod MODULUS seed SEED offset OFFSET` of `length` bytes from a word on. Without a seed the kernel draws one. */
export function hash(
  { from, length, to }: { readonly from: Word; readonly length: number; readonly to: Word },
  { modulus, seed, offset }: { readonly modulus: number; readonly seed: number; readonly offset: number },
): ExpressionWriter {
  return expression('hash', (data) =>
    data
      .u32be(NFTA_HASH_SREG, reg(from))
      .u32be(NFTA_HASH_DREG, reg(to))
      .u32be(NFTA_HASH_LEN, length)
      .u32be(NFTA_HASH_MODULUS, modulus)
      .u32be(NFTA_HASH_SEED, seed)
      .u32be(NFTA_HASH_OFFSET, offset)
      .u32be(NFTA_HASH_TYPE, NFT_HASH_JENKINS),
  );
}

/** `dnat to` the address and port in these words. */
export function dnat(family: 'IPv4' | 'IPv6', address: Word, port: Word): ExpressionWriter {
  return expression('nat', (data) =>
    data
      .u32be(NFTA_NAT_TYPE, NFT_NAT_DNAT)
      .u32be(NFTA_NAT_FAMILY, family === 'IPv4' ? AF_INET : AF_INET6)
      .u32be(NFTA_NAT_REG_ADDR_MIN, reg(address))
      .u32be(NFTA_NAT_REG_ADDR_MAX, reg(address))
      .u32be(NFTA_NAT_REG_PROTO_MIN, reg(port))
      .u32be(NFTA_NAT_REG_PROTO_MAX, reg(port))
      .u32be(NFTA_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED),
  );
}

/** `masquerade fully-random` */
export function masquerade(): ExpressionWriter {
  return expression('masq', (data) => data.u32be(NFTA_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY));
}

/** `fib daddr type`, `fib saddr type`: writes the RTN_… of the address into a word. */
export function addressType(of: 'saddr' | 'daddr', to: Word): ExpressionWriter {
  return expression('fib', (data) =>
    data
      .u32be(NFTA_FIB_DREG, reg(to))
      .u32be(NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE)
      .u32be(NFTA_FIB_FLAGS, of === 'saddr' ? NFTA_FIB_F_SADDR : NFTA_FIB_F_DADDR),
  );
}

/** `reject with icmp port-unreachable`. Each family has its own code: NFT_REJECT_ICMPX_UNREACH is for tables of both families (nft_reject_ipv4.c drops). */
export function reject(family: 'IPv4' | 'IPv6'): ExpressionWriter {
  const code = family === 'IPv4' ? ICMP_PORT_UNREACH : ICMPV6_PORT_UNREACH;
  return expression('reject', (data) =>
    data.u32be(NFTA_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH).u8(NFTA_REJECT_ICMP_CODE, code),
  );
}

/** `reject with tcp reset`. The kernel answers TCP alone (nf_reject_ipv4.c). */
export function resetTcp(): ExpressionWriter {
  return expression('reject', (data) => data.u32be(NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST));
}

const CT = { state: NFT_CT_STATE, status: NFT_CT_STATUS } as const;

/** `ct state`, `ct status`: copies bits of the connection into a word. */
export function connection(key: keyof typeof CT, to: Word): ExpressionWriter {
  return expression('ct', (data) => data.u32be(NFTA_CT_DREG, reg(to)).u32be(NFTA_CT_KEY, CT[key]));
}

/** `update @set`: adds an element from words, or renews it. The element expires after `timeout` milliseconds. */
export function remember(set: string, key: Word, timeout: number): ExpressionWriter {
  return expression('dynset', (data) =>
    data
      .text(NFTA_DYNSET_SET_NAME, set)
      .u32be(NFTA_DYNSET_OP, NFT_DYNSET_OP_UPDATE)
      .u32be(NFTA_DYNSET_SREG_KEY, reg(key))
      .u64be(NFTA_DYNSET_TIMEOUT, BigInt(timeout)),
  );
}

/** `limit rate over PER_SECOND/second burst BURST packets`: the rule goes on for packets beyond that. */
export function overRate(perSecond: number, burst: number): ExpressionWriter {
  return expression('limit', (data) =>
    data
      .u64be(NFTA_LIMIT_RATE, BigInt(perSecond))
      .u64be(NFTA_LIMIT_UNIT, 1n)
      .u32be(NFTA_LIMIT_BURST, burst)
      .u32be(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS)
      .u32be(NFTA_LIMIT_FLAGS, NFT_LIMIT_F_INV),
  );
}

function writeOverConnections(data: BodyWriter, most: number): void {
  data.u32be(NFTA_CONNLIMIT_COUNT, most).u32be(NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
}

/** `ct count over MOST`: the rule goes on where more connections that met it are open. */
export function overConnections(most: number): ExpressionWriter {
  return expression('connlimit', (data) => writeOverConnections(data, most));
}

/** `add @SET { … ct count over MOST }`: the same for the connections whose words are alike. An element goes with the last of its connections. */
export function overConnectionsOf(set: string, key: Word, most: number): ExpressionWriter {
  return expression('dynset', (data) =>
    data
      .text(NFTA_DYNSET_SET_NAME, set)
      .u32be(NFTA_DYNSET_OP, NFT_DYNSET_OP_ADD)
      .u32be(NFTA_DYNSET_SREG_KEY, reg(key))
      .nest(NFTA_DYNSET_EXPR, (one) =>
        one.text(NFTA_EXPR_NAME, 'connlimit').nest(NFTA_EXPR_DATA, (inner) => writeOverConnections(inner, most)),
      ),
  );
}

/** `counter`: counts the packets that come so far in the rule. */
export function counter(): ExpressionWriter {
  return expression(COUNTER, () => {});
}
