/** Whether a net holds an address, for rules that thousands of packets meet. Pure. */
import { type Address, addressOctets, addressWidth, type Cidr, familyOf, parseCidr } from '../../base/address.ts';

/** A CIDR as bytes in network order. */
export interface Net {
  readonly cidr: Cidr;
  readonly first: Uint8Array;
  readonly length: number;
}

export function netOf(cidr: Cidr): Net {
  const [base = '', length = ''] = cidr.split('/');
  return { cidr, first: addressOctets(base as Address), length: Number(length) };
}

/** False when the families differ. */
export function isHeldBy({ first, length }: Net, octets: Uint8Array): boolean {
  if (first.length !== octets.length) return false;
  const whole = length >> 3;
  for (let i = 0; i < whole; i++) if (first[i] !== octets[i]) return false;
  const rest = length & 7;
  return rest === 0 || (((first[whole] ?? 0) ^ (octets[whole] ?? 0)) & (0xff00 >> rest) & 255) === 0;
}

/** Bytes of addresses, each made once. */
export class Octets {
  readonly #known = new Map<Address, Uint8Array>();

  of(address: Address): Uint8Array {
    const known = this.#known.get(address);
    if (known !== undefined) return known;
    const octets = addressOctets(address);
    this.#known.set(address, octets);
    return octets;
  }
}

/** The nets that hold an address, the narrowest first. The kernel tests a set of nets by prefix length, too (ip_set_hash_gen.h). */
export class Nets {
  readonly #known = new Map<Address, readonly Cidr[]>();

  of(address: Address): readonly Cidr[] {
    const known = this.#known.get(address);
    if (known !== undefined) return known;
    const found: Cidr[] = [];
    for (let length = addressWidth(familyOf(address)); length >= 0; length--) {
      const net = parseCidr(`${address}/${length}`);
      if (net !== undefined) found.push(net);
    }
    this.#known.set(address, found);
    return found;
  }
}
