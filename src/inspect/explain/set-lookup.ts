/** Looks up packets in the sets and maps of a table of nftables. Pure. */

import type { Family } from '../../base/address.ts';
import type { KeyField, NftElement, NftSet } from '../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { addressOf, entryText } from '../../proxy/modes/nft-table/print.ts';
import type { TableView } from '../../proxy/modes/view.ts';
import type { NodeOfPacket, Packet } from './packet.ts';
import { take } from './registers.ts';

export interface FoundElement {
  /** As `nft` lists it. */
  readonly text: string;
  /** undefined for a client in a memory of session affinity. */
  readonly key?: string | undefined;
  /** Words of a map, or a verdict; "" in a set. */
  readonly data: string;
  readonly owner: ServiceKey | undefined;
}

export class SetLookup {
  readonly #family: Family;
  readonly #table: TableView;
  readonly #packet: Packet;
  readonly #facts: NodeOfPacket;
  readonly #asked: Set<string>;

  constructor(input: {
    readonly family: Family;
    readonly table: TableView;
    readonly packet: Packet;
    readonly facts: NodeOfPacket;
    readonly asked: Set<string>;
  }) {
    this.#family = input.family;
    this.#table = input.table;
    this.#packet = input.packet;
    this.#facts = input.facts;
    this.#asked = input.asked;
  }

  /** The element of the key in these words; undefined when the set has none. */
  find(name: string, words: readonly string[], from: number): FoundElement | 'no set' | undefined {
    const set = this.#table.set(name);
    if (set === undefined) return 'no set';
    if (set.isMemory === true) {
      this.#asked.add(name);
      const isKnown = this.#facts.remembered.has(name);
      return isKnown ? { text: this.#packet.source, data: '', owner: undefined } : undefined;
    }
    const key = take(words, from, this.#lengthOf(set));
    if (set.hasRanges !== true) {
      const element = this.#table.element(name, key);
      return element && this.#found(set, element);
    }
    for (const element of this.#table.elements(name)) {
      if (this.#isWithin(set, key, element)) return this.#found(set, element);
    }
    return undefined;
  }

  /** `10.244.1.11 . 8080`: the value of a map as text; "" of a set. */
  valueText(name: string, data: string): string {
    const type = this.#table.set(name)?.data;
    if (type === undefined || data === '') return '';
    if (type === 'verdict') return data;
    const isTarget = type[0] === 'address' && type[1] === 'port';
    if (!isTarget) return entryText({ name, key: type }, { key: data, end: '', data: '' }, this.#family);
    const at = this.#family === 'IPv4' ? 4 : 16;
    return `${addressOf(data.slice(0, at))} . ${data.charCodeAt(at) * 256 + data.charCodeAt(at + 1)}`;
  }

  #found(set: NftSet, element: NftElement & { readonly owner: ServiceKey | undefined }): FoundElement {
    const { key, data, owner } = element;
    return { text: entryText(set, element, this.#family), key, data, owner };
  }

  /** Field by field, as the kernel compares ranges of concatenations (nft_set_pipapo.c). */
  #isWithin({ key: fields }: NftSet, key: string, { key: first, end }: NftElement): boolean {
    const last = end === '' ? first : end;
    // What is within in each field is so as a whole, too: most elements are passed over without a look at their fields.
    if (key < first || key > last) return false;
    let at = 0;
    return fields.every((field) => {
      const [from, to] = [at, at + this.#size(field)];
      at = to;
      const part = key.slice(from, to);
      return first.slice(from, to) <= part && part <= last.slice(from, to);
    });
  }

  #lengthOf({ key }: NftSet): number {
    return key.reduce((sum, field) => sum + this.#size(field), 0);
  }

  #size(field: KeyField): number {
    return field === 'address' && this.#family === 'IPv6' ? 16 : 4;
  }
}
