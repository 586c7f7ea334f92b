/** A rule of nftables while a packet is in it. Pure. */

import { type Family, portOf } from '../../base/address.ts';
import type { Expression, KeyField, NftElement, NftSet, ReadExpression } from '../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../proxy/model/objects.ts';
import { addressOf, entryText } from '../../proxy/modes/nft-table/print.ts';
import type { TableView } from '../../proxy/modes/view.ts';
import type { Effect, NodeOfPacket, Packet, PacketState, WalkStep } from './packet.ts';

export type ChainVerdict = Extract<Expression, { do: 'verdict' }>['verdict'];

/** A rule in its chain, and what it has done so far: words as bytes, one character each. */
export interface Run {
  readonly chain: string;
  readonly text: string;
  readonly expressions: readonly ReadExpression[];
  readonly words: string[];
  readonly state: PacketState;
  /** Where the packet goes on when the rule does not match in the end. */
  readonly before: PacketState;
  /** Owner of the last element that was found: the packet goes on as this Service's. */
  readonly owner: WalkStep['owner'];
}

/** The packet behind a rule that does not match. Its steps in the rule do not count. */
export function passedBy({ before, state }: Run): PacketState {
  return { ...before, mark: state.mark };
}

/** The packet behind a rule that ended without a verdict. Lookups and draws count as steps only when an effect followed. */
export function concluded({ state, before }: Run): PacketState {
  for (let at = state.way; at !== undefined && at !== before.way; at = at.before) {
    if (at.step.effect.kind !== 'lookup' && at.step.effect.kind !== 'choose') return state;
  }
  return { ...state, way: before.way };
}

/** The only drawn number that the next expression lets pass; undefined when it is no such comparison. */
export function onlyNumber(expression: ReadExpression | undefined, word: number): number | undefined {
  if (expression?.do !== 'compare' || expression.from !== word || expression.is !== 'equal') return undefined;
  return expression.value.length === 4 ? numberOf(expression.value) : undefined;
}

export function likely(state: PacketState, share: number): PacketState {
  return { ...state, probability: state.probability * share };
}

/** Packets that are alike in all but their probability become one. */
export function merged(states: readonly PacketState[]): PacketState[] {
  const found: PacketState[] = [];
  for (const state of states) {
    const last = found.at(-1);
    const isAlike = last !== undefined && last.way === state.way && last.mark === state.mark;
    if (isAlike) found[found.length - 1] = { ...last, probability: last.probability + state.probability };
    else found.push(state);
  }
  return found;
}

/** The verdict of an element; undefined for one that slicewire never writes. */
export function verdictIn(data: string): ChainVerdict | undefined {
  const [, kind, chain] = /^(goto|jump) (.+)$/.exec(data) ?? [];
  if (chain !== undefined) return { kind: kind === 'jump' ? 'jump' : 'goto', chain };
  return data === 'drop' || data === 'return' || data === 'accept' ? { kind: data } : undefined;
}

export function effectOf(verdict: ChainVerdict): Effect {
  return 'chain' in verdict ? { kind: verdict.kind, chain: verdict.chain } : { kind: verdict.kind };
}

export interface FoundElement {
  /** As `nft` lists it. */
  readonly text: string;
  /** undefined for a client in a memory of session affinity. */
  readonly key?: string | undefined;
  /** Words of a map, or a verdict; "" in a set. */
  readonly data: string;
  readonly owner: ServiceKey | undefined;
}

/** Looks up a packet in the sets and maps of a table. */
export class SetLookup {
  readonly #family: Family;
  readonly #table: TableView;
  readonly #packet: Packet;
  readonly #facts: NodeOfPacket;
  readonly #memories: Set<string>;

  constructor(input: {
    readonly family: Family;
    readonly table: TableView;
    readonly packet: Packet;
    readonly facts: NodeOfPacket;
    readonly memories: Set<string>;
  }) {
    this.#family = input.family;
    this.#table = input.table;
    this.#packet = input.packet;
    this.#facts = input.facts;
    this.#memories = input.memories;
  }

  /** The element of the key in these words; undefined when the set has none. */
  find(name: string, words: readonly string[], from: number): FoundElement | 'no set' | undefined {
    const set = this.#table.set(name);
    if (set === undefined) return 'no set';
    if (set.isMemory === true) {
      this.#memories.add(name);
      const isKnown = this.#facts.remembered.has(name);
      return isKnown ? { text: this.#packet.source, data: '', owner: undefined } : undefined;
    }
    const key = readRegister(words, from, this.#lengthOf(set));
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
    return `${addressOf(data.slice(0, at))} . ${portOf(data.slice(at, at + 2))}`;
  }

  #found(set: NftSet, element: NftElement & { readonly owner: ServiceKey | undefined }): FoundElement {
    const { key, data, owner } = element;
    return { text: entryText(set, element, this.#family), key, data, owner };
  }

  /** Field by field, as the kernel compares ranges of concatenations (nft_set_pipapo.c). */
  #isWithin({ key: fields }: NftSet, key: string, { key: first, end }: NftElement): boolean {
    const last = end === '' ? first : end;
    // A key within each field is within the whole, too: most elements are passed over without a look at their fields.
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

/** Writes bytes into registers, which are words of 4 bytes, from one on. */
export function writeRegister(words: string[], at: number, bytes: string): void {
  for (let i = 0; i * 4 < bytes.length; i++) words[at + i] = bytes.slice(i * 4, i * 4 + 4).padEnd(4, '\0');
}

/** The kernel refuses rules that read a word without a value (nft_parse_register_load, nf_tables_api.c); here it is 0. */
export function readRegister(words: readonly string[], at: number, length: number): string {
  let bytes = '';
  for (let i = at; bytes.length < length; i++) bytes += words[i] ?? '\0\0\0\0';
  return bytes.slice(0, length);
}

/** `(bytes & mask) ^ flip` */
export function masked(bytes: string, mask: string, flip: string): string {
  const byte = (text: string, i: number) => text.charCodeAt(i);
  let result = '';
  for (let i = 0; i < bytes.length; i++) {
    result += String.fromCharCode((byte(bytes, i) & byte(mask, i)) ^ byte(flip, i));
  }
  return result;
}

/** The number of a word in the machine's byte order. */
export function numberOf(word: string): number {
  return [0, 1, 2, 3].reduce((sum, i) => sum + word.charCodeAt(i) * 256 ** i, 0);
}
