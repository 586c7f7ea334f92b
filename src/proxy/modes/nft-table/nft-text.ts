/** A rule of any program in the language of nft(8), from its expressions. Pure. */
import { type Family, portOf } from '../../../base/address.ts';
import type { Latin1Bytes, PacketField, ReadExpression, Word } from '../../../kernel/nftables-kernel.ts';
import { protocolOf } from './element-bytes.ts';
import { addressOf } from './print.ts';

/** `ip daddr . meta l4proto . th dport vmap @service-ips`; an expression that slicewire does not know is its name in brackets. */
export function nftText(expressions: readonly ReadExpression[], family: Family): string {
  return new NftText(family).of(expressions);
}

/** The words of a field, and the text of a value that it is compared with. */
interface Loaded {
  readonly text: string;
  readonly field: PacketField | undefined;
  /** Bytes that a mask keeps; undefined for all. */
  readonly prefix?: number | undefined;
}

class NftText {
  readonly #family: Family;
  /** The content of each word so far. */
  readonly #loaded = new Map<Word, Loaded>();
  readonly #values = new Map<Word, Latin1Bytes>();
  /** Words that were loaded since the last part of the text: a lookup takes these. */
  readonly #fresh = new Set<Word>();

  constructor(family: Family) {
    this.#family = family;
  }

  of(expressions: readonly ReadExpression[]): string {
    const parts: string[] = [];
    for (const expression of expressions) {
      const text = this.#step(expression);
      if (text === '') continue;
      parts.push(text);
      this.#fresh.clear();
    }
    return parts.join(' ');
  }

  #step(expression: ReadExpression): string {
    switch (expression.do) {
      case 'load':
      case 'load-part': {
        const { what, to } = expression;
        const prefix = expression.do === 'load-part' ? expression.bytes * 8 : undefined;
        return this.#load(to, { text: this.#fieldText(what), field: what, prefix });
      }
      case 'value':
        this.#values.set(expression.to, expression.value);
        return this.#load(expression.to, { text: hex(expression.value), field: undefined });
      case 'random':
        return this.#load(expression.to, { text: randomText(expression), field: undefined });
      case 'hash':
        return this.#hash(expression);
      case 'mask':
        return this.#mask(expression);
      case 'compare': {
        const { text, field, prefix } = this.#at(expression.from);
        const is = expression.is === 'equal' ? '' : '!= ';
        return `${text} ${is}${valueText(field, expression.value, { prefix, family: this.#family })}`;
      }
      case 'lookup':
        return this.#lookup(expression);
      case 'lookup-absence':
        return `${this.#key(expression.from)} != @${expression.set}`;
      case 'remember':
        return `update @${expression.set} { ${this.#at(expression.key).text} }`;
      case 'over-rate':
        return `limit rate over ${expression.perSecond}/second burst ${expression.burst} packets`;
      case 'over-connections': {
        const { most, per } = expression;
        const over = `ct count over ${most}`;
        return per === undefined ? over : `add @${per.set} { ${this.#at(per.key).text} ${over} }`;
      }
      case 'set-mark':
        return `meta mark set ${this.#at(expression.from).text}`;
      case 'translate':
        return `dnat to ${this.#translation(expression)}`;
      case 'verdict':
        return 'chain' in expression.verdict
          ? `${expression.verdict.kind} ${expression.verdict.chain}`
          : expression.verdict.kind;
      case 'count':
        return 'counter';
      case 'masquerade':
      case 'reject':
        return expression.do;
      case 'reset tcp':
        return 'reject with tcp reset';
      case 'unknown':
        return `[${expression.name}]`;
    }
  }

  #load(word: Word, loaded: Loaded): '' {
    this.#loaded.set(word, loaded);
    this.#fresh.add(word);
    return '';
  }

  #at(word: Word): Loaded {
    return this.#loaded.get(word) ?? { text: `[word ${word}]`, field: undefined };
  }

  /** The fields from this word on that were loaded for one lookup, as a concatenation. */
  #key(from: Word): string {
    const words = [...this.#fresh].filter((word) => word >= from).sort((a, b) => a - b);
    return (words.length === 0 ? [from] : words).map((word) => this.#at(word).text).join(' . ');
  }

  /** The value that a map gives is a part of the text behind it. */
  #lookup({ set, from, to }: Extract<ReadExpression, { do: 'lookup' }>): string {
    const key = this.#key(from);
    if (to === undefined) return `${key} @${set}`;
    if (to === 'verdict') return `${key} vmap @${set}`;
    this.#fresh.clear();
    return this.#load(to, { text: `${key} map @${set}`, field: undefined });
  }

  /** The words that it hashes are no part of a later key. */
  #hash({ from, to, count, seed, first }: Extract<ReadExpression, { do: 'hash' }>): '' {
    const key = this.#key(from);
    for (const word of this.#fresh) if (word >= from) this.#fresh.delete(word);
    const offset = first === 0 ? '' : ` offset ${first}`;
    return this.#load(to, { text: `jhash ${key} mod ${count} seed 0x${seed.toString(16)}${offset}`, field: undefined });
  }

  /** A mask before a comparison is a prefix, or a part of the mark. */
  #mask({ at, mask, flip }: Extract<ReadExpression, { do: 'mask' }>): '' {
    const { text, field } = this.#at(at);
    const bits = prefixOf(mask);
    const isAddress = field === 'source address' || field === 'destination address';
    if (isAddress && bits !== undefined) return this.#load(at, { text, field, prefix: bits });
    const kept = /[^\xff]/.test(mask) ? ` & ${wordText(mask)}` : '';
    const flipped = /[^\0]/.test(flip) ? ` ^ ${wordText(flip)}` : '';
    return this.#load(at, { text: `${text}${kept}${flipped}`, field: 'mark' });
  }

  #translation({ address, port }: Extract<ReadExpression, { do: 'translate' }>): string {
    const [to, at] = [this.#values.get(address), this.#values.get(port)];
    if (to === undefined || at === undefined) return this.#key(Math.min(address, port));
    const text = addressOf(to);
    return `${this.#family === 'IPv6' ? `[${text}]` : text}:${portOf(at)}`;
  }

  #fieldText(what: PacketField): string {
    return what === 'source address' || what === 'destination address'
      ? `${this.#family === 'IPv4' ? 'ip' : 'ip6'} ${what === 'source address' ? 'saddr' : 'daddr'}`
      : FIELDS[what];
  }
}

const FIELDS: Readonly<Record<Exclude<PacketField, 'source address' | 'destination address'>, string>> = {
  protocol: 'meta l4proto',
  'source port': 'th sport',
  'destination port': 'th dport',
  mark: 'meta mark',
  'input interface': 'iifname',
  'connection state': 'ct state',
  'connection status': 'ct status',
  'kind of source address': 'fib saddr type',
  'kind of destination address': 'fib daddr type',
};

function randomText({ count, first }: { readonly count: number; readonly first: number }): string {
  return `numgen random mod ${count}${first === 0 ? '' : ` offset ${first}`}`;
}

/** RTN_LOCAL (linux/rtnetlink.h) */
const LOCAL = 2;

function valueText(
  field: PacketField | undefined,
  value: Latin1Bytes,
  { prefix, family }: { readonly prefix: number | undefined; readonly family: Family },
): string {
  switch (field) {
    case 'source address':
    case 'destination address': {
      const length = family === 'IPv4' ? 4 : 16;
      const text = addressOf(value.padEnd(length, '\0'));
      return prefix === undefined || prefix === length * 8 ? text : `${text}/${prefix}`;
    }
    case 'protocol':
      return protocolOf(value.charCodeAt(0))?.toLowerCase() ?? String(value.charCodeAt(0));
    case 'source port':
    case 'destination port':
      return String(portOf(value));
    case 'input interface':
      return `"${value.replace(/\0+$/, '')}${value.endsWith('\0') ? '' : '*'}"`;
    case 'kind of source address':
    case 'kind of destination address':
      return value.charCodeAt(0) === LOCAL ? 'local' : wordText(value);
    case undefined:
      return hex(value);
    case 'mark':
    case 'connection state':
    case 'connection status':
      return wordText(value);
  }
}

/** The number of leading bits of a mask; undefined where others follow. */
function prefixOf(mask: Latin1Bytes): number | undefined {
  const bits = [...mask].map((byte) => byte.charCodeAt(0).toString(2).padStart(8, '0')).join('');
  const [ones = ''] = /^1*/.exec(bits) ?? [];
  return bits.includes('1', ones.length) ? undefined : ones.length;
}

/** A word in the machine's byte order, which is that of all supported ones. */
function wordText(bytes: Latin1Bytes): string {
  const number = [...bytes].reduce((sum, byte, i) => sum + byte.charCodeAt(0) * 256 ** i, 0);
  return `0x${number.toString(16)}`;
}

function hex(bytes: Latin1Bytes): string {
  return `0x${Buffer.from(bytes, 'latin1').toString('hex')}`;
}
