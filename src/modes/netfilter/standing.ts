/**
 * Whether rules stand as they were read or written, told by what the kernel says of them without being asked for all: the number of
 * the ruleset (nft), or the numbers of each table (legacy). A write of ours moves these numbers too: it is recognised by how far. Pure.
 */
import type { RulesState } from '../../host/chain-probe.ts';
import type { ChainKey } from './names.ts';
import { splitChainKey } from './names.ts';
import type { Chain } from './rules.ts';

/** Entries of the legacy variant that a chain has beside its rules: its head, and its end (linux/netfilter/x_tables.h). */
const ENTRIES_OF_CHAIN = 2;

/** What a write did, in the units in which the kernel counts. */
export interface Written {
  /** Transactions: one for each COMMIT. */
  readonly commits: number;
  /** By table, how many entries more it has. */
  readonly entries: ReadonlyMap<string, number>;
}

/** The writes of ours that follow on one another, nobody's between them. Families share it, since they share the ruleset of nft. */
export class OwnWrites {
  #first = 0;
  #last = 0;

  /** A write of ours made this number of that. */
  wrote(from: number, to: number): void {
    if (from !== this.#last) this.#first = from;
    this.#last = to;
  }

  /** Whether nobody else wrote since. */
  isSame(known: RulesState | undefined, now: RulesState): boolean {
    if (known?.kind === 'tables' && now.kind === 'tables') {
      return now.tables.entries().every(([table, { text }]) => known.tables.get(table)?.text === text);
    }
    if (known?.kind !== 'ruleset' || now.kind !== 'ruleset') return false;
    const isOurs = known.generation >= this.#first && known.generation <= this.#last;
    return now.generation === (isOurs ? this.#last : known.generation);
  }
}

/** Whether a write alone made `after` of `before`. */
export function isBy(written: Written, before: RulesState, after: RulesState): boolean {
  if (before.kind === 'ruleset' && after.kind === 'ruleset') {
    return after.generation === before.generation + written.commits;
  }
  if (before.kind !== 'tables' || after.kind !== 'tables') return false;
  return after.tables.entries().every(([table, { entries }]) => {
    const had = before.tables.get(table)?.entries;
    return had !== undefined && entries === had + (written.entries.get(table) ?? 0);
  });
}

/** Counts what writes add to the tables. */
export class EntryCount {
  readonly entries = new Map<string, number>();

  chain(key: ChainKey, from: Chain | undefined, to: Chain | undefined): void {
    this.add(splitChainKey(key).table, entriesOf(to) - entriesOf(from));
  }

  add(table: string, by: number): void {
    this.entries.set(table, (this.entries.get(table) ?? 0) + by);
  }
}

function entriesOf(chain: Chain | undefined): number {
  return chain === undefined ? 0 : chain.length + ENTRIES_OF_CHAIN;
}

/** What is other in a chain, in a few words. */
export function differenceOf(believed: Chain | undefined, seen: Chain | undefined): string {
  if (seen === undefined) return 'gone';
  if (believed === undefined) return 'nobody of us wrote it';
  const count = (of: Chain, notIn: Chain) => {
    const texts = new Set(notIn.map(({ text }) => text));
    return of.filter(({ text }) => !texts.has(text)).length;
  };
  const [gone, more] = [count(believed, seen), count(seen, believed)];
  const rules = (n: number) => `${n} ${n === 1 ? 'rule' : 'rules'}`;
  const parts = [gone > 0 ? `${rules(gone)} gone` : '', more > 0 ? `${rules(more)} more` : ''].filter((part) => part);
  return parts.length > 0 ? parts.join(', ') : 'its rules in another order or number';
}

/** Of what several families, or parts, say: whether one differs; undefined where none does, and one could not tell. */
export function anyDiffers(said: readonly (boolean | undefined)[]): boolean | undefined {
  if (said.includes(true)) return true;
  return said.includes(undefined) ? undefined : false;
}
