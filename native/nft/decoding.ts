/**
 * Expressions of rules as the kernel lists them (nft_*_dump in net/netfilter): the counterpart of `expressions.ts`. An expression with
 * an attribute or a value that `expressions.ts` never writes is not misread as another one: it is unknown.
 */
import { AF_INET, AF_INET6 } from '../libc.ts';
import { attributes, findAttribute, textAt, valueLength } from '../netlink.ts';
import { Fields } from './attributes.ts';
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
  NFT_LOOKUP_F_INV,
  NFT_META_IIFNAME,
  NFT_META_L4PROTO,
  NFT_META_MARK,
  NFT_NAT_DNAT,
  NFT_NG_RANDOM,
  NFT_OBJECT_COUNTER,
  NFT_PAYLOAD_NETWORK_HEADER,
  NFT_PAYLOAD_TRANSPORT_HEADER,
  NFT_REG_VERDICT,
  NFT_REJECT_ICMP_UNREACH,
  NFT_REJECT_TCP_RST,
  NFT_RETURN,
  NFTA_BITWISE_DREG,
  NFTA_BITWISE_MASK,
  NFTA_BITWISE_OP,
  NFTA_BITWISE_SREG,
  NFTA_BITWISE_XOR,
  NFTA_BYTEORDER_DREG,
  NFTA_BYTEORDER_LEN,
  NFTA_BYTEORDER_SIZE,
  NFTA_BYTEORDER_SREG,
  NFTA_CMP_DATA,
  NFTA_CMP_OP,
  NFTA_CMP_SREG,
  NFTA_CONNLIMIT_COUNT,
  NFTA_CONNLIMIT_FLAGS,
  NFTA_CT_DIRECTION,
  NFTA_CT_DREG,
  NFTA_CT_KEY,
  NFTA_DATA_VERDICT,
  NFTA_DYNSET_EXPR,
  NFTA_DYNSET_EXPRESSIONS,
  NFTA_DYNSET_OP,
  NFTA_DYNSET_SET_NAME,
  NFTA_DYNSET_SREG_DATA,
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
  NFTA_LOOKUP_DREG,
  NFTA_LOOKUP_FLAGS,
  NFTA_LOOKUP_SET,
  NFTA_LOOKUP_SREG,
  NFTA_MASQ_FLAGS,
  NFTA_MASQ_REG_PROTO_MIN,
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
  NFTA_OBJREF_IMM_TYPE,
  NFTA_PAYLOAD_BASE,
  NFTA_PAYLOAD_DREG,
  NFTA_PAYLOAD_LEN,
  NFTA_PAYLOAD_OFFSET,
  NFTA_PAYLOAD_SREG,
  NFTA_REJECT_ICMP_CODE,
  NFTA_REJECT_TYPE,
  NFTA_VERDICT_CHAIN,
  NFTA_VERDICT_CODE,
} from './constants.ts';
import type { Base, Verdict, Word } from './expressions.ts';

/** A verdict of any program's rule or element. */
export type SeenVerdict = Verdict | ForeignVerdict;
/** `continue`, `queue`, … */
interface ForeignVerdict {
  readonly kind: 'other';
}

/** An expression; bytes are text of Latin-1. `unknown`: one that `expressions.ts` does not write, by the kernel's name. */
export type DecodedExpression =
  | { readonly is: 'payload'; readonly base: Base; readonly offset: number; readonly length: number; readonly to: Word }
  | { readonly is: 'meta'; readonly key: 'mark' | 'iifname' | 'l4proto'; readonly to: Word }
  | { readonly is: 'set-mark'; readonly from: Word }
  | { readonly is: 'compare'; readonly from: Word; readonly operator: 'eq' | 'neq'; readonly value: string }
  | { readonly is: 'bitwise'; readonly at: Word; readonly mask: string; readonly xor: string }
  | { readonly is: 'immediate'; readonly to: Word; readonly value: string }
  | { readonly is: 'verdict'; readonly verdict: Verdict }
  | { readonly is: 'lookup'; readonly set: string; readonly from: Word; readonly to: Word | 'verdict' | undefined }
  /** Goes on where the set lacks the key. */
  | { readonly is: 'lookup of absence'; readonly set: string; readonly from: Word }
  | { readonly is: 'random'; readonly modulus: number; readonly offset: number; readonly to: Word }
  /** jhash of `length` bytes. */
  | {
      readonly is: 'hash';
      readonly from: Word;
      readonly length: number;
      readonly modulus: number;
      readonly seed: number;
      readonly offset: number;
      readonly to: Word;
    }
  | { readonly is: 'dnat'; readonly address: Word; readonly port: Word }
  /** `count`: a counter of its own or a named one. */
  | { readonly is: 'masquerade' | 'reject' | 'reset tcp' | 'count' }
  | { readonly is: 'address type'; readonly of: 'saddr' | 'daddr'; readonly to: Word }
  | { readonly is: 'connection'; readonly key: 'state' | 'status'; readonly to: Word }
  | { readonly is: 'remember'; readonly set: string; readonly key: Word; readonly timeout: number }
  | { readonly is: 'over rate'; readonly perSecond: number; readonly burst: number }
  | { readonly is: 'over connections'; readonly most: number }
  | { readonly is: 'over connections of'; readonly set: string; readonly key: Word; readonly most: number }
  | { readonly is: 'unknown'; readonly name: string };

type Family = 'IPv4' | 'IPv6';

/** The expressions of a rule, from the content of its NFTA_RULE_EXPRESSIONS. Throws RangeError when a length is impossible. */
export function decodeExpressions(list: Buffer, family: Family): DecodedExpression[] {
  const found: DecodedExpression[] = [];
  for (const [at, length] of attributes(list, 0, list.length)) {
    const name = textAt(list, at, at + length, NFTA_EXPR_NAME) ?? '';
    const data = findAttribute(list, at, at + length, NFTA_EXPR_DATA);
    const fields = new Fields(list, data, data < 0 ? -1 : data + valueLength(list, data));
    if (name === 'byteorder' && changesNothing(fields)) continue;
    // A name such as `constructor` is not a decoder.
    const decode = Object.hasOwn(DECODERS, name) ? DECODERS[name] : undefined;
    found.push(decode?.(fields, family) ?? { is: 'unknown', name });
  }
  return found;
}

/** The nft tool writes it before a lookup of one byte among ranges: the kernel turns whole words alone (nft_byteorder_eval). */
function changesNothing(fields: Fields): boolean {
  const isInPlace = fields.number(NFTA_BYTEORDER_SREG) === fields.number(NFTA_BYTEORDER_DREG);
  return isInPlace && (fields.number(NFTA_BYTEORDER_LEN) ?? 0) < (fields.number(NFTA_BYTEORDER_SIZE) ?? 0);
}

function isForeign(verdict: SeenVerdict): verdict is ForeignVerdict {
  return verdict.kind === 'other';
}

/** The verdict in an attribute that holds data: of an expression, or of an element. undefined: it holds something else. */
export function decodeVerdict(buffer: Buffer, data: number): SeenVerdict | undefined {
  if (data < 0) return undefined;
  const at = findAttribute(buffer, data, data + valueLength(buffer, data), NFTA_DATA_VERDICT);
  if (at < 0) return undefined;
  const stop = at + valueLength(buffer, at);
  const code = findAttribute(buffer, at, stop, NFTA_VERDICT_CODE, 4);
  switch (code < 0 ? undefined : buffer.readInt32BE(code)) {
    case NFT_JUMP:
      return { kind: 'jump', chain: textAt(buffer, at, stop, NFTA_VERDICT_CHAIN) ?? '' };
    case NFT_GOTO:
      return { kind: 'goto', chain: textAt(buffer, at, stop, NFTA_VERDICT_CHAIN) ?? '' };
    case NFT_RETURN:
      return { kind: 'return' };
    case NF_DROP:
      return { kind: 'drop' };
    case NF_ACCEPT:
      return { kind: 'accept' };
    default:
      return { kind: 'other' };
  }
}

/** undefined: not an expression of ours. */
type Decoder = (fields: Fields, family: Family) => DecodedExpression | undefined;

const DECODERS: Readonly<Record<string, Decoder>> = {
  payload(fields) {
    const [to, offset, length] = [
      fields.word(NFTA_PAYLOAD_DREG),
      fields.number(NFTA_PAYLOAD_OFFSET),
      fields.number(NFTA_PAYLOAD_LEN),
    ];
    const base = BASES[fields.number(NFTA_PAYLOAD_BASE) ?? -1];
    if (to === undefined || offset === undefined || length === undefined || base === undefined) return undefined;
    return fields.has(NFTA_PAYLOAD_SREG) ? undefined : { is: 'payload', base, offset, length, to };
  },

  meta(fields) {
    const key = META[fields.number(NFTA_META_KEY) ?? -1];
    const [from, to] = [fields.word(NFTA_META_SREG), fields.word(NFTA_META_DREG)];
    if (from !== undefined) return key === 'mark' ? { is: 'set-mark', from } : undefined;
    return key === undefined || to === undefined ? undefined : { is: 'meta', key, to };
  },

  cmp(fields) {
    const [from, value] = [fields.word(NFTA_CMP_SREG), fields.value(NFTA_CMP_DATA)];
    const operator = OPERATORS[fields.number(NFTA_CMP_OP) ?? -1];
    if (from === undefined || value === undefined || operator === undefined) return undefined;
    return { is: 'compare', from, operator, value };
  },

  bitwise(fields) {
    const [from, to] = [fields.word(NFTA_BITWISE_SREG), fields.word(NFTA_BITWISE_DREG)];
    const [mask, xor] = [fields.value(NFTA_BITWISE_MASK), fields.value(NFTA_BITWISE_XOR)];
    // NFT_BITWISE_BOOL, later called NFT_BITWISE_MASK_XOR, is 0, and what kernels before 5.6 do without saying so.
    if (from === undefined || from !== to || (fields.number(NFTA_BITWISE_OP) ?? 0) !== 0) return undefined;
    return mask === undefined || xor === undefined ? undefined : { is: 'bitwise', at: from, mask, xor };
  },

  immediate(fields) {
    if (fields.number(NFTA_IMMEDIATE_DREG) === NFT_REG_VERDICT) {
      const verdict = decodeVerdict(fields.buffer, fields.at(NFTA_IMMEDIATE_DATA));
      return verdict === undefined || isForeign(verdict) ? undefined : { is: 'verdict', verdict };
    }
    const [to, value] = [fields.word(NFTA_IMMEDIATE_DREG), fields.value(NFTA_IMMEDIATE_DATA)];
    return to === undefined || value === undefined ? undefined : { is: 'immediate', to, value };
  },

  lookup(fields) {
    const [set, from] = [fields.text(NFTA_LOOKUP_SET), fields.word(NFTA_LOOKUP_SREG)];
    const flags = fields.number(NFTA_LOOKUP_FLAGS) ?? 0;
    if (set === undefined || from === undefined || (flags & ~NFT_LOOKUP_F_INV) !== 0) return undefined;
    if (flags !== 0) return fields.has(NFTA_LOOKUP_DREG) ? undefined : { is: 'lookup of absence', set, from };
    const isVerdict = fields.number(NFTA_LOOKUP_DREG) === NFT_REG_VERDICT;
    return { is: 'lookup', set, from, to: isVerdict ? 'verdict' : fields.word(NFTA_LOOKUP_DREG) };
  },

  counter() {
    return { is: 'count' };
  },

  objref(fields) {
    return fields.number(NFTA_OBJREF_IMM_TYPE) === NFT_OBJECT_COUNTER ? { is: 'count' } : undefined;
  },

  numgen(fields) {
    const [to, modulus] = [fields.word(NFTA_NG_DREG), fields.number(NFTA_NG_MODULUS)];
    if (to === undefined || modulus === undefined || fields.number(NFTA_NG_TYPE) !== NFT_NG_RANDOM) return undefined;
    return { is: 'random', modulus, offset: fields.number(NFTA_NG_OFFSET) ?? 0, to };
  },

  hash(fields) {
    const [from, to] = [fields.word(NFTA_HASH_SREG), fields.word(NFTA_HASH_DREG)];
    const [length, modulus] = [fields.number(NFTA_HASH_LEN), fields.number(NFTA_HASH_MODULUS)];
    const seed = fields.number(NFTA_HASH_SEED);
    if (from === undefined || to === undefined || length === undefined || modulus === undefined) return undefined;
    if (seed === undefined || (fields.number(NFTA_HASH_TYPE) ?? NFT_HASH_JENKINS) !== NFT_HASH_JENKINS)
      return undefined;
    return { is: 'hash', from, length, modulus, seed, offset: fields.number(NFTA_HASH_OFFSET) ?? 0, to };
  },

  nat(fields, family) {
    const [address, port] = [fields.word(NFTA_NAT_REG_ADDR_MIN), fields.word(NFTA_NAT_REG_PROTO_MIN)];
    if (address === undefined || port === undefined) return undefined;
    const isOurs =
      fields.number(NFTA_NAT_TYPE) === NFT_NAT_DNAT &&
      fields.number(NFTA_NAT_FAMILY) === (family === 'IPv4' ? AF_INET : AF_INET6) &&
      (fields.word(NFTA_NAT_REG_ADDR_MAX) ?? address) === address &&
      (fields.word(NFTA_NAT_REG_PROTO_MAX) ?? port) === port &&
      fields.number(NFTA_NAT_FLAGS) === (NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
    return isOurs ? { is: 'dnat', address, port } : undefined;
  },

  masq(fields) {
    const isOurs =
      fields.number(NFTA_MASQ_FLAGS) === NF_NAT_RANGE_PROTO_RANDOM_FULLY && !fields.has(NFTA_MASQ_REG_PROTO_MIN);
    return isOurs ? { is: 'masquerade' } : undefined;
  },

  fib(fields) {
    const to = fields.word(NFTA_FIB_DREG);
    const of = FIB_OF[fields.number(NFTA_FIB_FLAGS) ?? -1];
    const isType = fields.number(NFTA_FIB_RESULT) === NFT_FIB_RESULT_ADDRTYPE;
    return to === undefined || of === undefined || !isType ? undefined : { is: 'address type', of, to };
  },

  reject(fields, family) {
    if (fields.number(NFTA_REJECT_TYPE) === NFT_REJECT_TCP_RST) return { is: 'reset tcp' };
    const code = fields.at(NFTA_REJECT_ICMP_CODE, 1);
    const ours = family === 'IPv4' ? ICMP_PORT_UNREACH : ICMPV6_PORT_UNREACH;
    const isOurs =
      fields.number(NFTA_REJECT_TYPE) === NFT_REJECT_ICMP_UNREACH &&
      code >= 0 &&
      fields.buffer.readUInt8(code) === ours;
    return isOurs ? { is: 'reject' } : undefined;
  },

  ct(fields) {
    const [to, key] = [fields.word(NFTA_CT_DREG), CT[fields.number(NFTA_CT_KEY) ?? -1]];
    return to === undefined || key === undefined || fields.has(NFTA_CT_DIRECTION)
      ? undefined
      : { is: 'connection', key, to };
  },

  dynset(fields) {
    const [set, key] = [fields.text(NFTA_DYNSET_SET_NAME), fields.word(NFTA_DYNSET_SREG_KEY)];
    const timeout = fields.at(NFTA_DYNSET_TIMEOUT, 8);
    const isMore = [NFTA_DYNSET_SREG_DATA, NFTA_DYNSET_EXPRESSIONS].some((type) => fields.has(type));
    if (set === undefined || key === undefined || isMore) return undefined;
    // The kernel lists 0 for none.
    const milliseconds = timeout < 0 ? 0 : Number(fields.buffer.readBigUInt64BE(timeout));
    const operation = fields.number(NFTA_DYNSET_OP);
    if (fields.has(NFTA_DYNSET_EXPR)) {
      const most = mostOf(fields.buffer, fields.at(NFTA_DYNSET_EXPR));
      const isOurs = operation === NFT_DYNSET_OP_ADD && milliseconds === 0;
      return most === undefined || !isOurs ? undefined : { is: 'over connections of', set, key, most };
    }
    const isOurs = operation === NFT_DYNSET_OP_UPDATE && timeout >= 0;
    return isOurs ? { is: 'remember', set, key, timeout: milliseconds } : undefined;
  },

  limit(fields) {
    const [rate, unit] = [fields.at(NFTA_LIMIT_RATE, 8), fields.at(NFTA_LIMIT_UNIT, 8)];
    const burst = fields.number(NFTA_LIMIT_BURST);
    if (rate < 0 || unit < 0 || burst === undefined || fields.buffer.readBigUInt64BE(unit) !== 1n) return undefined;
    if (fields.number(NFTA_LIMIT_TYPE) !== NFT_LIMIT_PKTS || fields.number(NFTA_LIMIT_FLAGS) !== NFT_LIMIT_F_INV)
      return undefined;
    return { is: 'over rate', perSecond: Number(fields.buffer.readBigUInt64BE(rate)), burst };
  },

  connlimit(fields) {
    const most = overOf(fields);
    return most === undefined ? undefined : { is: 'over connections', most };
  },
};

/** The number of `ct count over`; undefined for `ct count` without `over`. */
function overOf(fields: Fields): number | undefined {
  return fields.number(NFTA_CONNLIMIT_FLAGS) === NFT_CONNLIMIT_F_INV ? fields.number(NFTA_CONNLIMIT_COUNT) : undefined;
}

/** The same of the expression of an element; undefined for another one. */
function mostOf(buffer: Buffer, at: number): number | undefined {
  const end = at + valueLength(buffer, at);
  if (textAt(buffer, at, end, NFTA_EXPR_NAME) !== 'connlimit') return undefined;
  const data = findAttribute(buffer, at, end, NFTA_EXPR_DATA);
  return data < 0 ? undefined : overOf(new Fields(buffer, data, data + valueLength(buffer, data)));
}

const BASES: Readonly<Record<number, Base>> = {
  [NFT_PAYLOAD_NETWORK_HEADER]: 'network',
  [NFT_PAYLOAD_TRANSPORT_HEADER]: 'transport',
};
const META: Readonly<Record<number, 'mark' | 'iifname' | 'l4proto'>> = {
  [NFT_META_MARK]: 'mark',
  [NFT_META_IIFNAME]: 'iifname',
  [NFT_META_L4PROTO]: 'l4proto',
};
const OPERATORS: Readonly<Record<number, 'eq' | 'neq'>> = { [NFT_CMP_EQ]: 'eq', [NFT_CMP_NEQ]: 'neq' };
const FIB_OF: Readonly<Record<number, 'saddr' | 'daddr'>> = {
  [NFTA_FIB_F_SADDR]: 'saddr',
  [NFTA_FIB_F_DADDR]: 'daddr',
};
const CT: Readonly<Record<number, 'state' | 'status'>> = { [NFT_CT_STATE]: 'state', [NFT_CT_STATUS]: 'status' };
