/** Elements as text, in the syntax of `nft`, and rules in words. Pure. */

import { type Address, addressOfBytes, type Family } from '../../../base/address.ts';
import type {
  KeyField,
  Latin1Bytes,
  NftElement,
  NftSet,
  ReadExpression,
  ReadRule,
} from '../../../kernel/nftables-kernel.ts';
import { protocolOf } from './element-bytes.ts';

/** `10.96.0.10 . tcp . 80 : goto cluster-ip-of-3`, or with a counter `10.96.0.10 . tcp . 80 counter`. */
export function entryText(set: NftSet, entry: NftElement, family: Family): string {
  const left = keyText(set, entry, family);
  const key = entry.isCounted ? `${left} counter` : left;
  if (set.data === undefined) return key;
  return `${key} : ${set.data === 'verdict' ? entry.data : fieldTexts(set.data, entry.data, family).join(' . ')}`;
}

/** `10.96.0.10 . tcp . 80`; a range `0-255 . 10.96.0.0-10.111.255.255` */
export function keyText({ key: fields }: NftSet, { key: bytes, end }: NftElement, family: Family): string {
  const first = fieldTexts(fields, bytes, family);
  const last = end === '' ? first : fieldTexts(fields, end, family);
  return first.map((text, i) => (text === last[i] ? text : `${text}-${last[i]}`)).join(' . ');
}

/** A rule in words: its comment, then what it does with the packet and with words of memory, which are numbered from 0. */
export function ruleText({ text, expressions }: ReadRule): string {
  return `${text === '' ? 'without a comment' : text}: ${expressions.map(expressionText).join('; ')}`;
}

function expressionText(expression: ReadExpression): string {
  switch (expression.do) {
    case 'load':
      return `${word(expression.to)} = ${expression.what}`;
    case 'load-part':
      return `${word(expression.to)} = the first ${expression.bytes} bytes of ${expression.what}`;
    case 'compare':
      return `${word(expression.from)} is ${expression.is === 'equal' ? '' : 'not '}${hex(expression.value)}`;
    case 'mask':
      return `${word(expression.at)} = ${word(expression.at)} & ${hex(expression.mask)} ^ ${hex(expression.flip)}`;
    case 'lookup': {
      const { set, from, to } = expression;
      const into = to === undefined ? '' : to === 'verdict' ? ', follow its verdict' : `, ${word(to)} = its data`;
      return `${word(from)} in ${set}${into}`;
    }
    case 'lookup-absence':
      return `${word(expression.from)} not in ${expression.set}`;
    case 'random':
      return `${word(expression.to)} = random of ${expression.count} from ${expression.first}`;
    case 'hash':
      return `${word(expression.to)} = hash of ${expression.bytes} bytes from ${word(expression.from)}, one of ${expression.count} from ${expression.first}`;
    case 'value':
      return `${word(expression.to)} = ${hex(expression.value)}`;
    case 'remember':
      return `remember ${word(expression.key)} in ${expression.set} for ${expression.seconds} s`;
    case 'over-rate':
      return `beyond ${expression.perSecond} a second and ${expression.burst} at once`;
    case 'over-connections': {
      const { most, per } = expression;
      return `more than ${most} connections${per === undefined ? '' : ` of ${word(per.key)}, counted in ${per.set}`}`;
    }
    case 'set-mark':
      return `mark = ${word(expression.from)}`;
    case 'translate':
      return `translate to address ${word(expression.address)}, port ${word(expression.port)}`;
    case 'masquerade':
    case 'reject':
    case 'reset tcp':
    case 'count':
      return expression.do;
    case 'verdict': {
      const { verdict } = expression;
      return 'chain' in verdict ? `${verdict.kind} ${verdict.chain}` : verdict.kind;
    }
    case 'unknown':
      return `the expression "${expression.name}", which slicewire never writes`;
  }
}

function word(index: number): string {
  return `w${index}`;
}

function hex(bytes: Latin1Bytes): string {
  return `0x${Buffer.from(bytes, 'latin1').toString('hex')}`;
}

/** The texts of fields; each field fills whole words of 4 bytes. */
function fieldTexts(fields: readonly KeyField[], bytes: Latin1Bytes, family: Family): string[] {
  let at = 0;
  return fields.map((field) => {
    const size = field === 'address' && family === 'IPv6' ? 16 : 4;
    const part = bytes.slice(at, at + size);
    at += size;
    return fieldText(field, part);
  });
}

function fieldText(field: KeyField, part: Latin1Bytes): string {
  const byte = (i: number) => part.charCodeAt(i);
  if (field === 'address') return addressOf(part);
  if (field === 'protocol') return protocolOf(byte(0))?.toLowerCase() ?? String(byte(0));
  if (field === 'port') return String(byte(0) * 256 + byte(1));
  return String((byte(0) | (byte(1) << 8) | (byte(2) << 16) | (byte(3) << 24)) >>> 0);
}

/** The address from its 4 or 16 bytes. */
export function addressOf(bytes: Latin1Bytes): Address {
  return addressOfBytes(Buffer.from(bytes, 'latin1'));
}
