/** Which Node an address belongs to: by its own addresses, or by the ranges of its Pods. Pure. */
import { type Address, addressBits, type Cidr, familyOf } from '../model/address.ts';

export interface AddressesOfNode {
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly Cidr[];
}

export class NodeAddresses {
  readonly #byAddress = new Map<Address, string>();
  /** By the bits of a range, which begin with its family. */
  readonly #byRange = new Map<string, string>();
  /** How many ranges there are of each family and length. */
  readonly #lengths = new Map<string, number>();

  /** The Node of an address; undefined: it is of none. An own address counts before a range, and a long range before a short one. */
  nodeOf(address: Address): string | undefined {
    const own = this.#byAddress.get(address);
    if (own !== undefined) return own;
    const bits = addressBits(address);
    const family = familyOf(address);
    const lengths = [...this.#lengths.keys()].filter((each) => each.startsWith(family));
    for (const length of lengths.map((each) => Number(each.slice(family.length))).sort((a, b) => b - a)) {
      const node = this.#byRange.get(family + bits.slice(0, length));
      if (node !== undefined) return node;
    }
    return undefined;
  }

  replace(node: string, before: AddressesOfNode | undefined, now: AddressesOfNode | undefined): void {
    for (const address of before?.addresses ?? []) {
      if (this.#byAddress.get(address) === node) this.#byAddress.delete(address);
    }
    for (const range of before?.podCIDRs ?? []) {
      const { bits, length } = rangeOf(range);
      if (this.#byRange.get(bits) === node && this.#byRange.delete(bits)) this.#countLength(length, -1);
    }
    for (const address of now?.addresses ?? []) this.#byAddress.set(address, node);
    for (const range of now?.podCIDRs ?? []) {
      const { bits, length } = rangeOf(range);
      if (!this.#byRange.has(bits)) this.#countLength(length, 1);
      this.#byRange.set(bits, node);
    }
  }

  #countLength(length: string, by: number): void {
    const count = (this.#lengths.get(length) ?? 0) + by;
    if (count === 0) this.#lengths.delete(length);
    else this.#lengths.set(length, count);
  }
}

function rangeOf(range: Cidr): { readonly bits: string; readonly length: string } {
  const [address = '', length = ''] = range.split('/');
  const family = familyOf(range);
  return { bits: family + addressBits(address as Address).slice(0, Number(length)), length: family + length };
}
