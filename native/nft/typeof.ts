/**
 * A map that is declared with `typeof`: user data of the set, in which `nft` describes the parts of the key and the data. The kernel
 * only stores it (libnftnl's udata.h; `expr_udata_*` and `*_build_udata` of nft's expression.c, payload.c, meta.c, numgen.c). A number
 * needs it: `nft` lists the type "integer", but cannot read it back without a length and a byte order.
 */

/** A part of a key or of data, as an expression of nft. */
export type TypeofPart =
  | { readonly kind: 'destination address'; readonly family: 'IPv4' | 'IPv6' }
  /** `meta l4proto`, `th dport`, `numgen random mod 2` */
  | { readonly kind: 'protocol' | 'destination port' | 'random number' };

/** NFTNL_UDATA_SET_* */
const SET = { keyByteOrder: 0, dataByteOrder: 1, keyTypeof: 3, dataTypeof: 4, dataInterval: 6 } as const;
/** NFTNL_UDATA_SET_TYPEOF_*: the expression's type, and its data. */
const TYPEOF = { expression: 0, data: 1 } as const;
/** enum expr_types (nft's expression.h). nft never changes numbers that user data has. */
const EXPRESSION = { payload: 7, meta: 9, concatenation: 13, numgen: 23 } as const;
/** enum proto_desc_id (nft's proto.h) */
const PROTOCOL = { transport: 11, ip: 12, ip6: 13 } as const;
/** Fields of these headers: IPHDR_DADDR, IP6HDR_DADDR, THDR_DPORT. */
const FIELD = { ip: 12, ip6: 9, transport: 2 } as const;
/** NFT_META_L4PROTO (linux/netfilter/nf_tables.h) */
const META_PROTOCOL = 16;
/** NFT_NG_RANDOM, modulus 2, offset 0: every modulus has the same type. */
const RANDOM = [1, 2, 0] as const;

/** The user data of a map whose key and data are concatenations. */
export function typeofMap(key: readonly TypeofPart[], data: readonly TypeofPart[]): Buffer {
  return Buffer.concat([
    // A concatenation has the byte order of its parts.
    number(SET.keyByteOrder, 0),
    number(SET.dataByteOrder, 0),
    attribute(SET.keyTypeof, concatenation(key)),
    attribute(SET.dataTypeof, concatenation(data)),
    number(SET.dataInterval, 0),
  ]);
}

function concatenation(parts: readonly TypeofPart[]): Buffer {
  return expression(
    EXPRESSION.concatenation,
    parts.map((part, i) => attribute(i, partOf(part))),
  );
}

function partOf(part: TypeofPart): Buffer {
  switch (part.kind) {
    case 'destination address': {
      const header = part.family === 'IPv4' ? 'ip' : 'ip6';
      return expression(EXPRESSION.payload, [number(0, PROTOCOL[header]), number(1, FIELD[header])]);
    }
    case 'destination port':
      return expression(EXPRESSION.payload, [number(0, PROTOCOL.transport), number(1, FIELD.transport)]);
    case 'protocol':
      return expression(EXPRESSION.meta, [number(0, META_PROTOCOL)]);
    case 'random number':
      return expression(
        EXPRESSION.numgen,
        RANDOM.map((value, i) => number(i, value)),
      );
  }
}

function expression(type: number, data: readonly Buffer[]): Buffer {
  return Buffer.concat([number(TYPEOF.expression, type), attribute(TYPEOF.data, Buffer.concat(data))]);
}

/** struct nftnl_udata: a type and a length of one byte each. */
function attribute(type: number, value: Buffer): Buffer {
  return Buffer.concat([Buffer.from([type, value.length]), value]);
}

/** In the machine's byte order. */
function number(type: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return attribute(type, bytes);
}
