/** Desired and believed state of one family's table: chains, sets, and the elements of each set. Does no I/O. */
import type { Family } from '../../../base/address.ts';
import type { NftElement, NftPart, NftSet, NftState, ReadChain } from '../../../kernel/nftables-kernel.ts';
import type { Drift } from '../../model/drift.ts';
import { Tracker } from '../../reconcile/tracker.ts';
import { ElementTable } from './element-table.ts';
import type { DesiredSink, NftChain, OwnedElement, TableLayout } from './layout.ts';
import type { Transaction } from './plan.ts';
import { entryText } from './print.ts';

/** Limit of the changed elements of a set that drift names; the others are only counted. */
const MAX_NAMED_ELEMENTS = 50;

/** The texts of rules identify them. */
export function sameChain(a: ReadChain, b: ReadChain): boolean {
  return a.rules.length === b.rules.length && a.rules.every(({ text }, i) => text === b.rules[i]?.text);
}

/** Whether the kernel sends packets into the chain, though no rule of ours leads there. */
export function isHooked({ hook }: ReadChain): boolean {
  return hook !== undefined;
}

/** A chain of our table that another program changed. */
function chainDrift(family: Family, name: string): Drift {
  return { family, kind: 'chain', table: '', name, target: '', difference: { kind: 'changed' } };
}

/** An element of a map or set that another program changed; undefined for one that is only counted. */
function elementDrift(family: Family, set: NftSet, element: NftElement | undefined): Drift {
  const name = element === undefined ? '' : entryText(set, element, family);
  return { family, kind: 'element', table: set.name, name, target: '', difference: { kind: 'changed' } };
}

function elementDrifts(family: Family, set: NftSet, elements: readonly NftElement[]): readonly Drift[] {
  return elements.map((element, i) => elementDrift(family, set, i < MAX_NAMED_ELEMENTS ? element : undefined));
}

export class TableState implements DesiredSink {
  readonly family: Family;
  readonly chains = new Tracker<string, NftChain, ReadChain>(sameChain);
  readonly sets = new Tracker<string, NftSet>((a, b) => a.name === b.name);
  /** For each set whose elements we write. */
  readonly elements: ReadonlyMap<NftSet, ElementTable>;
  readonly #layout: TableLayout;
  #hasTable = false;

  constructor(family: Family, layout: TableLayout) {
    this.family = family;
    this.#layout = layout;
    this.elements = new Map(layout.sets.map((set) => [set, new ElementTable(set, family)]));
  }

  /** False until the kernel is read, and after a write whose outcome is unknown. */
  get isKnown(): boolean {
    return this.sets.applied !== undefined;
  }

  /** Only meaningful when `isKnown`. */
  get hasTable(): boolean {
    return this.#hasTable;
  }

  get compared(): number {
    const ofElements = [...this.elements.values()].reduce((sum, { compared }) => sum + compared, 0);
    return this.chains.compared + this.sets.compared + ofElements;
  }

  /** Throws RangeError for a set whose elements we do not write. */
  elementsOf(set: NftSet): ElementTable {
    const table = this.elements.get(set);
    if (table === undefined) throw new RangeError(`${set.name} has no elements of ours`);
    return table;
  }

  chain(name: string, chain: NftChain | undefined): void {
    this.chains.desire(name, chain);
  }

  set(name: string, set: NftSet | undefined): void {
    this.sets.desire(name, set);
  }

  element(set: NftSet, key: string, entry: OwnedElement | undefined): void {
    this.elementsOf(set).desire(key, entry);
  }

  isDesired(set: NftSet, key: string): boolean {
    return this.elementsOf(set).desired.has(key);
  }

  /**
   * Believe the read state, which is undefined when the table does not exist, or the desired one. Returns the changes of other programs:
   * none if nothing was known.
   */
  observe(state: NftState | undefined | 'as desired'): readonly Drift[] {
    if (state === 'as desired') {
      this.#hasTable = true;
      this.chains.observe(this.chains.desired);
      this.sets.observe(this.sets.desired);
      for (const table of this.elements.values()) table.observe(state);
      return [];
    }
    const found = observed(state, this.#layout);
    const drift = this.isKnown ? this.#drift(found) : [];
    const { chains, sets, elements } = found;
    this.#hasTable = state !== undefined;
    this.chains.observe(chains);
    this.sets.observe(sets);
    for (const [set, table] of this.elements) table.observe(elements.get(set) ?? []);
    return drift;
  }

  /** The changes of other programs. */
  driftFrom(state: NftState | undefined): readonly Drift[] {
    return this.#drift(observed(state, this.#layout));
  }

  #drift({ chains, elements }: ReturnType<typeof observed>): readonly Drift[] {
    const ofChains = this.chains.driftFrom(chains).map((name) => chainDrift(this.family, name));
    const ofElements = [...this.elements].map(([set, table]) => {
      return elementDrifts(this.family, set, table.driftFrom(elements.get(set) ?? []));
    });
    return [...ofChains, ...ofElements.flat()];
  }

  /** Record a successful transaction. */
  wrote({ chains, sets, elements }: Transaction): void {
    this.#hasTable = true;
    for (const [name, chain] of chains) this.chains.wrote(name, chain);
    for (const [name, set] of sets) this.sets.wrote(name, set);
    for (const { set, key, to } of elements) this.elementsOf(set).wrote(key, to);
  }

  /** Discard the believed state, after a write whose outcome is unknown or a failed reading. */
  forget(): void {
    this.chains.forget();
    this.sets.forget();
    for (const table of this.elements.values()) table.forget();
  }
}

/** Number of rules and elements that are believed to be installed. */
export function countsOf({ chains, elements: tables }: TableState): {
  readonly rules: number;
  readonly elements: number;
} {
  let rules = 0;
  for (const chain of chains.applied?.values() ?? []) rules += chain.rules.length;
  const elements = [...tables.values()].reduce((sum, { applied }) => sum + (applied?.size ?? 0), 0);
  return { rules, elements };
}

function observed(state: NftState | undefined, layout: TableLayout) {
  const chains: ReadonlyMap<string, ReadChain> = state?.chains ?? new Map();
  const sets = new Map<string, NftSet>();
  const elements = new Map<NftSet, readonly NftElement[]>();
  for (const [name, found] of state?.sets ?? []) {
    const set = layout.setNamed(name);
    if (set === undefined) continue;
    sets.set(name, set);
    elements.set(set, found);
  }
  return { chains, sets, elements };
}

/** Believe a reading of some objects of the table. Returns the changes of other programs. The state must be known. */
export function correctTable(state: TableState, { chains, elements, sets }: NftPart): readonly Drift[] {
  const { family } = state;
  const drift = [...state.chains.correct(chains).keys()].map((name) => chainDrift(family, name));
  for (const [set, table] of state.elements) {
    const whole = sets.get(set.name);
    if (whole !== undefined) {
      for (const one of elementDrifts(family, set, table.driftFrom(whole))) drift.push(one);
      table.observe(whole);
    }
    const found = elements.get(set.name);
    if (found === undefined) continue;
    for (const [key, former] of table.correct(found)) {
      const entry = found.get(key) ?? former;
      drift.push(elementDrift(family, set, entry));
    }
  }
  return drift;
}
