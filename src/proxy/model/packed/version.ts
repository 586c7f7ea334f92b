/**
 * The resourceVersion at the beginning of a packed object. It is no part of the object's value: two texts of one value may differ in it
 * alone (`sameContent`). Pure.
 */
import { type Packed, type Packer, Unpacker } from './bytes.ts';

/** A number without leading zeros that a double holds exactly (KEP-5504); others count as none. */
const KEPT = /^[1-9]\d{0,14}$/;

/** Four or five bytes in most clusters; one where there is none. */
export function packVersion(packer: Packer, version: string): void {
  packer.number(KEPT.test(version) ? Number(version) : 0);
}

/** "" where the object has none. */
export function packedVersion(packed: Packed<unknown>): string {
  const number = new Unpacker(packed).number();
  return number === 0 ? '' : String(number);
}

/** Whether two texts are of the same value, whatever their versions. */
export function sameContent(a: Packed<unknown>, b: Packed<unknown>): boolean {
  return a === b || contentOf(a) === contentOf(b);
}

function contentOf(packed: Packed<unknown>): string {
  let length = 1;
  while (packed.charCodeAt(length - 1) > 127) length++;
  return packed.slice(length);
}
