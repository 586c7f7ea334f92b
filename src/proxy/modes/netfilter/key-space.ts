/** The keys of a dispatch tree (bits of an address, then the protocol, then bits of the port), and the match of a key's prefix. */

import { createHash } from 'node:crypto';
import {
  type Address,
  addressBits,
  addressWidth,
  type Family,
  fromBinary,
  type Protocol,
} from '../../../base/address.ts';
import { protocol, toPort } from './rules.ts';

/** A key is a string of digits: `0` and `1` for bits, one letter for a protocol. A tree node is a prefix of keys. */
export interface KeySpace {
  /** The iptables match that holds for exactly the keys with this prefix; "" for the empty prefix. */
  match(prefix: string): string;
  /** A short name for the prefix, which fits into a chain's name: at most 19 characters. */
  label(prefix: string): string;
}

const PORT_BITS = 16;
/** A protocol is one digit, because a match cannot name a part of one. */
const PROTOCOL_DIGITS: Readonly<Record<Protocol, string>> = { TCP: 't', UDP: 'u', SCTP: 's' };

/** Key of a socket: the address, then the protocol, then the port. */
export function socketKey(address: Address, name: Protocol, port: number): string {
  return addressBits(address) + portKey(name, port);
}

/** Key of an address alone. */
export function addressKey(address: Address): string {
  return addressBits(address);
}

/** Key of a protocol and port. */
export function portKey(name: Protocol, port: number): string {
  return PROTOCOL_DIGITS[name] + port.toString(2).padStart(PORT_BITS, '0');
}

/** Keys that begin with an address; `flag` selects the source or the destination address. */
export function addressSpace(family: Family, flag: '-s' | '-d'): KeySpace {
  const width = addressWidth(family);
  const base = (prefix: string) => fromBinary(prefix.slice(0, width).padEnd(width, '0'));
  return {
    match(prefix) {
      if (prefix === '') return '';
      const rest = prefix.length > width ? ` ${PORTS.match(prefix.slice(width))}` : '';
      return `${flag} ${base(prefix)}/${Math.min(prefix.length, width)}${rest}`;
    },
    label(prefix) {
      return family === 'IPv4' && prefix.length <= width ? `${base(prefix)}-${prefix.length}` : shortHash(prefix);
    },
  };
}

/** Keys that are a protocol and a port. */
export const PORTS: KeySpace = {
  match(prefix) {
    if (prefix === '') return '';
    const { name, first, last } = portRange(prefix);
    return prefix.length === 1 ? protocol(name) : `${protocol(name)} ${toPort(name, first, last)}`;
  },
  label(prefix) {
    if (prefix === '') return 'all';
    const { name, first, last } = portRange(prefix);
    return `${name.toLowerCase()}-${first}-${last}`;
  },
};

function portRange(prefix: string): { name: Protocol; first: number; last: number } {
  const digit = prefix.charAt(0);
  const name = (Object.keys(PROTOCOL_DIGITS) as Protocol[]).find((protocol) => PROTOCOL_DIGITS[protocol] === digit);
  if (name === undefined) throw new RangeError(`no protocol has the digit ${digit}`);
  const bits = prefix.slice(1);
  const first = Number.parseInt(bits.padEnd(PORT_BITS, '0'), 2);
  const last = Number.parseInt(bits.padEnd(PORT_BITS, '1'), 2);
  return { name, first, last };
}

// The hash in the names of chains.

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** The first 16 characters of SHA-256 in base32 (RFC 4648), as kube-proxy's portProtoHash (pkg/proxy/iptables) makes them. */
export function shortHash(text: string): string {
  const bytes = createHash('sha256').update(text).digest();
  let bits = 0;
  let held = 0;
  let out = '';
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5 && out.length < 16) {
      bits -= 5;
      out += BASE32[(held >> bits) & 31];
    }
    if (out.length === 16) return out;
    held &= (1 << bits) - 1;
  }
  return out;
}
