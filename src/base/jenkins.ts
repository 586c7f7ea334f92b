/**
 * The kernel's hash of bytes (`jhash` of linux/jhash.h) and its part of a number of values (`reciprocal_scale` of linux/math.h), as the
 * expression `jhash` of nftables has them (nft_hash.c). Pure.
 */

/** A number from 0 to `count - 1`. `bytes`: each a character of Latin-1. */
export function jenkinsNumber(bytes: string, count: number, seed: number): number {
  return Number((BigInt(jenkinsHash(bytes, seed)) * BigInt(count)) >> 32n);
}

/** JHASH_INITVAL */
const START = 0xdeadbeef;

function jenkinsHash(bytes: string, seed: number): number {
  const buffer = Buffer.from(bytes, 'latin1');
  let [a, b, c] = Array<number>(3).fill((START + buffer.length + seed) | 0) as [number, number, number];
  let at = 0;
  for (; buffer.length - at > 12; at += 12) {
    [a, b, c] = mixed(
      (a + buffer.readInt32LE(at)) | 0,
      (b + buffer.readInt32LE(at + 4)) | 0,
      (c + buffer.readInt32LE(at + 8)) | 0,
    );
  }
  if (at === buffer.length) return c >>> 0;
  const rest = Buffer.alloc(12);
  buffer.copy(rest, 0, at);
  return final((a + rest.readInt32LE(0)) | 0, (b + rest.readInt32LE(4)) | 0, (c + rest.readInt32LE(8)) | 0);
}

function rotated(value: number, by: number): number {
  return (value << by) | (value >>> (32 - by));
}

/** __jhash_mix */
function mixed(first: number, second: number, third: number): [number, number, number] {
  let [a, b, c] = [first, second, third];
  a = ((a - c) | 0) ^ rotated(c, 4);
  c = (c + b) | 0;
  b = ((b - a) | 0) ^ rotated(a, 6);
  a = (a + c) | 0;
  c = ((c - b) | 0) ^ rotated(b, 8);
  b = (b + a) | 0;
  a = ((a - c) | 0) ^ rotated(c, 16);
  c = (c + b) | 0;
  b = ((b - a) | 0) ^ rotated(a, 19);
  a = (a + c) | 0;
  c = ((c - b) | 0) ^ rotated(b, 4);
  b = (b + a) | 0;
  return [a, b, c];
}

/** __jhash_final */
function final(first: number, second: number, third: number): number {
  let [a, b, c] = [first, second, third];
  c = ((c ^ b) - rotated(b, 14)) | 0;
  a = ((a ^ c) - rotated(c, 11)) | 0;
  b = ((b ^ a) - rotated(a, 25)) | 0;
  c = ((c ^ b) - rotated(b, 16)) | 0;
  a = ((a ^ c) - rotated(c, 4)) | 0;
  b = ((b ^ a) - rotated(a, 14)) | 0;
  c = ((c ^ b) - rotated(b, 24)) | 0;
  return c >>> 0;
}
