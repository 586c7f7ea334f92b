/** Objects of nftables mode from what the kernel lists: the counterpart of `nftables-encoding.ts`. Pure. */
import { type DecodedExpression, decodeExpressions } from '../../native/nft/decoding.ts';
import type { ListedElement } from '../../native/nft/listings.ts';
import type { Family } from '../base/address.ts';
import type { NftElement, PacketField, ReadExpression, ReadRule } from './nftables-kernel.ts';

/** An element as it was read. */
export function elementOf({ key, end, data = '', packets }: ListedElement): NftElement {
  const text = typeof data === 'string' ? data : 'chain' in data ? `${data.kind} ${data.chain}` : data.kind;
  const element = { key, end, data: text };
  return packets === undefined ? element : { ...element, isCounted: true };
}

/** A rule as it was read. It holds its bytes until somebody asks for the expressions: most rules are identified by their texts alone. */
export function ruleOf(text: string, bytes: string, family: Family): ReadRule {
  return new ListedRule(text, bytes, family);
}

class ListedRule implements ReadRule {
  readonly text: string;
  readonly #family: Family;
  #expressions: string | readonly ReadExpression[];

  constructor(text: string, bytes: string, family: Family) {
    this.text = text;
    this.#family = family;
    this.#expressions = bytes;
  }

  get expressions(): readonly ReadExpression[] {
    if (typeof this.#expressions === 'string') {
      const list = Buffer.from(this.#expressions, 'latin1');
      this.#expressions = decodeExpressions(list, this.#family).map((one) => expressionOf(one, this.#family));
    }
    return this.#expressions;
  }
}

function expressionOf(decoded: DecodedExpression, family: Family): ReadExpression {
  switch (decoded.is) {
    case 'payload': {
      const { base, offset, length, to } = decoded;
      const field = FIELDS[family][`${base} ${offset}`];
      if (field === undefined || length > field.length) return unknown('payload');
      const { what } = field;
      return length === field.length ? { do: 'load', what, to } : { do: 'load-part', what, bytes: length, to };
    }
    case 'meta':
      return { do: 'load', what: META[decoded.key], to: decoded.to };
    case 'connection':
      return { do: 'load', what: `connection ${decoded.key}`, to: decoded.to };
    case 'address type': {
      const what = `kind of ${decoded.of === 'saddr' ? 'source' : 'destination'} address` as const;
      return { do: 'load', what, to: decoded.to };
    }
    case 'set-mark':
      return { do: 'set-mark', from: decoded.from };
    case 'compare': {
      const { from, operator, value } = decoded;
      return { do: 'compare', from, is: operator === 'eq' ? 'equal' : 'other', value };
    }
    case 'bitwise':
      return { do: 'mask', at: decoded.at, mask: decoded.mask, flip: decoded.xor };
    case 'immediate':
      return { do: 'value', to: decoded.to, value: decoded.value };
    case 'verdict':
      return { do: 'verdict', verdict: decoded.verdict };
    case 'lookup': {
      const { set, from, to } = decoded;
      return { do: 'lookup', set, from, ...(to === undefined ? {} : { to }) };
    }
    case 'random':
      return { do: 'random', count: decoded.modulus, first: decoded.offset, to: decoded.to };
    case 'dnat':
      return { do: 'translate', address: decoded.address, port: decoded.port };
    case 'masquerade':
    case 'reject':
      return { do: decoded.is };
    case 'remember':
      return { do: 'remember', set: decoded.set, key: decoded.key, seconds: decoded.timeout / 1000 };
    case 'unknown':
      return unknown(decoded.name);
  }
}

function unknown(name: string): ReadExpression {
  return { do: 'unknown', name };
}

const META: Readonly<Record<'mark' | 'iifname' | 'l4proto', PacketField>> = {
  mark: 'mark',
  iifname: 'input interface',
  l4proto: 'protocol',
};

interface HeaderField {
  readonly what: PacketField;
  /** Bytes. */
  readonly length: number;
}

const PORT: HeaderField = { what: 'destination port', length: 2 };

/** The fields that slicewire loads, by header and offset (linux/ip.h, linux/ipv6.h, linux/tcp.h). */
const FIELDS: Readonly<Record<Family, Readonly<Record<string, HeaderField>>>> = {
  IPv4: {
    'network 12': { what: 'source address', length: 4 },
    'network 16': { what: 'destination address', length: 4 },
    'transport 2': PORT,
  },
  IPv6: {
    'network 8': { what: 'source address', length: 16 },
    'network 24': { what: 'destination address', length: 16 },
    'transport 2': PORT,
  },
};
