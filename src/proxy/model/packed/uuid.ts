/** A UUID in 16 bytes instead of 36. Pure. */
import type { Packer, Unpacker } from './bytes.ts';

/** The form of nearly every uid (RFC 9562), as the API server writes it. */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const LENGTH = 36;
const HYPHEN = 0x2d;
/** Each byte in two digits. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

export function isUuid(text: string): boolean {
  return text.length === LENGTH && text.charCodeAt(8) === HYPHEN && UUID.test(text);
}

/** `text` must be a UUID. */
export function packUuid(into: Packer, text: string): void {
  for (let i = 0; i < LENGTH; i += 2) {
    if (text.charCodeAt(i) === HYPHEN) i += 1;
    into.byte(digit(text.charCodeAt(i)) * 16 + digit(text.charCodeAt(i + 1)));
  }
}

export function unpackUuid(from: Unpacker): string {
  let text = '';
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) text += '-';
    text += HEX[from.byte()];
  }
  return text;
}

function digit(code: number): number {
  return code < 0x3a ? code - 0x30 : code - 0x57;
}
