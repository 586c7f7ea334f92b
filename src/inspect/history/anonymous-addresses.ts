/**
 * Replaces addresses so that nobody learns the real ones, and their relations stay: equal ones stay equal, families stay, and two
 * addresses that share the first bits share as many afterwards, so that each is in the ranges that it was in (the method of Crypto-PAn,
 * https://en.wikipedia.org/wiki/Crypto-PAn).
 */
import { createHmac } from 'node:crypto';
import { type Address, addressOctets, addressOfBytes, type Cidr, parseAddress, parseCidr } from '../../base/address.ts';

/** First bytes that real IPv4 addresses rarely have (class E, RFC 1112), then others. */
const FIRST_V4 = [...range(240, 255), ...range(1, 127), ...range(128, 224)];

export class AnonymousAddresses {
  readonly #secret: Uint8Array;
  readonly #flips = new Map<string, Uint8Array>();
  /** New first bytes of IPv4, and first words of IPv6, by the real ones. */
  readonly #first = { v4: new Map<number, number>(), v6: new Map<number, number>() };

  /** The secret must not be in the recording. */
  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  address(address: Address): Address {
    const octets = addressOctets(address);
    return isSpecial(octets) ? address : addressOfBytes(this.#replaced(octets));
  }

  /** Ranges so large that they say nothing about a network stay. */
  cidr(cidr: Cidr): Cidr {
    const [base = '', length = ''] = cidr.split('/');
    const real = parseAddress(base);
    const octets = real === undefined ? new Uint8Array() : addressOctets(real);
    const bits = Number(length);
    if (bits < (octets.length === 4 ? 8 : 16)) return cidr;
    return parseCidr(`${addressOfBytes(this.#replaced(octets))}/${bits}`) ?? cidr;
  }

  #replaced(octets: Uint8Array): Uint8Array {
    const kept = keptBytes(octets);
    if (kept === octets.length) return octets;
    const replaced = Uint8Array.from(octets);
    let start = kept;
    if (kept === 0) start = octets.length === 4 ? this.#firstOfV4(replaced) : this.#firstOfV6(replaced);
    for (let i = start; i < octets.length; i++) {
      const flips = this.#flipsAfter(octets.subarray(0, i));
      replaced[i] = flipped(octets[i] ?? 0, flips);
    }
    return replaced;
  }

  #firstOfV4(octets: Uint8Array): number {
    const real = octets[0] ?? 0;
    const { v4 } = this.#first;
    const used = new Set([...v4.keys(), ...v4.values(), real]);
    const fresh = v4.get(real) ?? FIRST_V4.find((first) => !used.has(first)) ?? real;
    v4.set(real, fresh);
    octets[0] = fresh;
    return 1;
  }

  #firstOfV6(octets: Uint8Array): number {
    const real = (octets[0] ?? 0) * 256 + (octets[1] ?? 0);
    const { v6 } = this.#first;
    // 3ffe::/16 and below: given back, and in no use (RFC 3701).
    let fresh = v6.get(real) ?? 0x3ffe - v6.size;
    while (fresh === real || (v6.has(fresh) && !v6.has(real))) fresh -= 1;
    v6.set(real, fresh);
    octets[0] = fresh >> 8;
    octets[1] = fresh & 0xff;
    return 2;
  }

  /** A bit for each node of the tree of the next byte's bits. */
  #flipsAfter(prefix: Uint8Array): Uint8Array {
    const name = `${prefix.join('.')}`;
    const known = this.#flips.get(name);
    if (known !== undefined) return known;
    const flips = createHmac('sha256', this.#secret).update(name).digest();
    this.#flips.set(name, flips);
    return flips;
  }
}

/** Whether it is the unspecified or the loopback address of IPv6. A range that begins with such an address has others in it. */
function isSpecial(octets: Uint8Array): boolean {
  return octets.length === 16 && octets.subarray(0, 15).every((octet) => octet === 0) && (octets[15] ?? 0) <= 1;
}

/** Bytes at the start that have a meaning of their own: loopback, unspecified, link-local, reserved. All of them: the address stays. */
function keptBytes(octets: Uint8Array): number {
  const [a, b] = octets;
  if (octets.length === 4) return a === 127 || a === 0 ? 4 : a === 169 && b === 254 ? 2 : 0;
  return (a === 0 && b === 0) || (a === 0xfe && b === 0x80) ? 2 : 0;
}

function flipped(byte: number, flips: Uint8Array): number {
  let [result, node] = [0, 0];
  for (let bit = 7; bit >= 0; bit--) {
    const real = (byte >> bit) & 1;
    const flip = ((flips[node >> 3] ?? 0) >> (node & 7)) & 1;
    result = result * 2 + (real ^ flip);
    node = node * 2 + 1 + real;
  }
  return result;
}

function range(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, i) => first + i);
}
