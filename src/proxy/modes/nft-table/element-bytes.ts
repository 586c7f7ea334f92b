/** Keys and values of elements in the kernel's form: each part fills whole words of 4 bytes. Pure. */

import type { Protocol } from '../../../base/address.ts';
import { type Address, addressBytes, type Cidr, cidrContains, portBytes } from '../../../base/address.ts';
import type { Latin1Bytes } from '../../../kernel/nftables-kernel.ts';

const PROTOCOLS: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };

/** The protocol of an IANA number; undefined for one that a Service cannot have. */
export function protocolOf(number: number): Protocol | undefined {
  return (Object.keys(PROTOCOLS) as Protocol[]).find((protocol) => PROTOCOLS[protocol] === number);
}

export function protocolByte(protocol: Protocol): Latin1Bytes {
  return String.fromCharCode(PROTOCOLS[protocol]);
}

export function protocolWord(protocol: Protocol): Latin1Bytes {
  return `${protocolByte(protocol)}\0\0\0`;
}

export function portWord(port: number): Latin1Bytes {
  return `${portBytes(port)}\0\0`;
}

/** In host byte order; all supported machines are little-endian. */
export function numberWord(value: number): Latin1Bytes {
  return String.fromCharCode(value & 255, (value >>> 8) & 255, (value >>> 16) & 255, (value >>> 24) & 255);
}

/** The key of a frontend: address, protocol and port. */
export function socketKey(address: Address, protocol: Protocol, port: number): Latin1Bytes {
  return addressBytes(address) + protocolWord(protocol) + portWord(port);
}

export function portKey(protocol: Protocol, port: number): Latin1Bytes {
  return protocolWord(protocol) + portWord(port);
}

export function targetValue(address: Address, port: number): Latin1Bytes {
  return addressBytes(address) + portWord(port);
}

/** First and last address of a range, and its mask. */
export function rangeOf(cidr: Cidr): {
  readonly first: Latin1Bytes;
  readonly last: Latin1Bytes;
  readonly mask: Latin1Bytes;
} {
  const [base = '', length = ''] = cidr.split('/');
  const first = addressBytes(base as Address);
  const mask = maskOf(first.length * 8, Number(length));
  const last = [...first].map((byte, i) => String.fromCharCode(byte.charCodeAt(0) | (~mask.charCodeAt(i) & 255)));
  return { first, last: last.join(''), mask };
}

function maskOf(width: number, length: number): Latin1Bytes {
  const byte = (i: number) => (0xff00 >> Math.max(0, Math.min(8, length - i * 8))) & 255;
  return Array.from({ length: width / 8 }, (_, i) => String.fromCharCode(byte(i))).join('');
}

/** Removes ranges that lie within another one: the kernel refuses overlapping ranges. */
export function widest(ranges: readonly Cidr[]): Cidr[] {
  const unique = [...new Set(ranges)];
  const length = (range: Cidr) => Number(range.split('/')[1]);
  const base = (range: Cidr) => range.split('/')[0] as Parameters<typeof cidrContains>[1];
  return unique.filter(
    (range) => !unique.some((other) => length(other) < length(range) && cidrContains(other, base(range))),
  );
}
