/** What the dispatch tree branches on: hexadecimal digits of an address, of a protocol and port, and the match that a prefix of them means. */
import { type Address, addressBits, addressWidth, type Family, fromBinary } from '../../model/address.ts';
import type { Protocol } from '../../model/objects.ts';
import { PROTOCOLS } from '../../model/objects.ts';
import { shortHash } from './hash.ts';
import { protocol, toPort } from './rules.ts';

/** A key is a string of hexadecimal digits; a tree node is a prefix of keys. */
export interface KeySpace {
  /** The iptables match that holds for exactly the keys with this prefix; "" for the empty prefix. */
  match(prefix: string): string;
  /** A short name for the prefix, fit for a chain's name: at most 19 characters. */
  label(prefix: string): string;
}

const PORT_DIGITS = 4;

/** Key of a socket: the address, then the protocol, then the port. */
export function socketKey(address: Address, name: Protocol, port: number): string {
  return addressKey(address) + portKey(name, port);
}

/** Key of an address alone. */
export function addressKey(address: Address): string {
  const bits = addressBits(address);
  let digits = '';
  for (let i = 0; i < bits.length; i += 4) digits += Number.parseInt(bits.slice(i, i + 4), 2).toString(16);
  return digits;
}

/** Key of a protocol and port. */
export function portKey(name: Protocol, port: number): string {
  return PROTOCOLS.indexOf(name).toString(16) + port.toString(16).padStart(PORT_DIGITS, '0');
}

/** Keys that begin with an address; `flag` says which address of the packet is meant. */
export function addressSpace(family: Family, flag: '-s' | '-d'): KeySpace {
  const digits = addressWidth(family) / 4;
  const network = (prefix: string) => {
    const length = Math.min(prefix.length, digits) * 4;
    return { base: baseAddress(prefix.slice(0, digits), digits), length };
  };
  return {
    match(prefix) {
      if (prefix === '') return '';
      const { base, length } = network(prefix);
      const rest = prefix.length > digits ? ` ${PORTS.match(prefix.slice(digits))}` : '';
      return `${flag} ${base}/${length}${rest}`;
    },
    label(prefix) {
      const { base, length } = network(prefix);
      return family === 'IPv4' && prefix.length <= digits ? `${base}-${length}` : shortHash(prefix);
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
  const name = PROTOCOLS[Number.parseInt(prefix.slice(0, 1), 16)];
  if (name === undefined) throw new RangeError(`no protocol has the key ${prefix}`);
  const digits = prefix.slice(1);
  const first = Number.parseInt(digits.padEnd(PORT_DIGITS, '0'), 16);
  const last = Number.parseInt(digits.padEnd(PORT_DIGITS, 'f'), 16);
  return { name, first, last };
}

function baseAddress(prefix: string, digits: number): Address {
  let bits = '';
  for (const digit of prefix.padEnd(digits, '0')) bits += Number.parseInt(digit, 16).toString(2).padStart(4, '0');
  return fromBinary(bits);
}
