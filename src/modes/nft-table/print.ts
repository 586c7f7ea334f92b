/** Elements as text, in the syntax of `nft`. Pure. */
import type { Bytes, Field, NftElement, NftSet } from '../../host/nftables-kernel.ts';
import { type Address, addressOfBytes, type Family } from '../../model/address.ts';
import { protocolOf } from './bytes.ts';

/** `10.96.0.10 . tcp . 80 : goto cluster-ip-of-3`, or with a counter `10.96.0.10 . tcp . 80 counter`. */
export function entryText(
  { key: fields, data: type }: NftSet,
  { key: bytes, end, data, isCounted }: NftElement,
  family: Family,
): string {
  const first = fieldTexts(fields, bytes, family);
  const last = end === '' ? first : fieldTexts(fields, end, family);
  const left = first.map((text, i) => (text === last[i] ? text : `${text}-${last[i]}`)).join(' . ');
  const key = isCounted ? `${left} counter` : left;
  if (type === undefined) return key;
  return `${key} : ${type === 'verdict' ? data : fieldTexts(type, data, family).join(' . ')}`;
}

/** The texts of fields, which fill whole words. */
function fieldTexts(fields: readonly Field[], bytes: Bytes, family: Family): string[] {
  let at = 0;
  return fields.map((field) => {
    const size = field === 'address' && family === 'IPv6' ? 16 : 4;
    const part = bytes.slice(at, at + size);
    at += size;
    return fieldText(field, part);
  });
}

function fieldText(field: Field, part: Bytes): string {
  const byte = (i: number) => part.charCodeAt(i);
  if (field === 'address') return addressOf(part);
  if (field === 'protocol') return protocolOf(byte(0))?.toLowerCase() ?? String(byte(0));
  if (field === 'port') return String(byte(0) * 256 + byte(1));
  return String((byte(0) | (byte(1) << 8) | (byte(2) << 16) | (byte(3) << 24)) >>> 0);
}

/** The address from its 4 or 16 bytes. */
export function addressOf(bytes: Bytes): Address {
  return addressOfBytes(Buffer.from(bytes, 'latin1'));
}
