/** Which Node an address belongs to: by its own addresses, or by those that network plugins give it in the ranges of its Pods. Pure. */
import { type Address, addressOctets, addressOfBytes, type Cidr } from '../base/address.ts';

export interface AddressesOfNode {
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
}

export class NodeAddresses {
  readonly #own = new Map<Address, string>();
  /** The first two addresses of each range: those of a bridge, or of a tunnel's interface. Pods have the others. */
  readonly #inRanges = new Map<Address, string>();

  /** The Node of an address; undefined: it is of none. An own address counts before one in a range. */
  nodeOf(address: Address): string | undefined {
    return this.#own.get(address) ?? this.#inRanges.get(address);
  }

  replace(node: string, before: AddressesOfNode | undefined, now: AddressesOfNode | undefined): void {
    replaceIn(this.#own, node, { before: before?.addresses, now: now?.addresses });
    const [former, present] = [before, now].map((each) => each?.podCIDRs.flatMap(firstTwo));
    replaceIn(this.#inRanges, node, { before: former, now: present });
  }
}

function replaceIn(
  nodes: Map<Address, string>,
  node: string,
  { before = [], now = [] }: Readonly<Record<'before' | 'now', readonly Address[] | undefined>>,
): void {
  for (const address of before) if (nodes.get(address) === node) nodes.delete(address);
  for (const address of now) nodes.set(address, node);
}

/** `10.244.1.0` and `10.244.1.1` of `10.244.1.0/24`. */
function firstTwo(range: Cidr): Address[] {
  const [text = '', length = ''] = range.split('/');
  const octets = addressOctets(text as Address).slice();
  for (let bit = Number(length); bit < octets.length * 8; bit += 1) {
    const at = Math.floor(bit / 8);
    octets[at] = (octets[at] ?? 0) & ~(0x80 >> (bit % 8));
  }
  const first = addressOfBytes(octets.slice());
  const last = octets.length - 1;
  octets[last] = (octets[last] ?? 0) | 1;
  return [first, addressOfBytes(octets)];
}
