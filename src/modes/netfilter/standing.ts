/**
 * Whether rules stand as they were read or written, told by what the kernel says of them without being asked for all: the number of
 * the ruleset (nft), or the numbers of each table (legacy). A write of ours moves these numbers too: it is recognised by how far.
 */
import type { ChainProbe, RulesState } from '../../host/chain-probe.ts';
import type { ApplyReport } from '../../reconcile/step.ts';
import type { TablesReport } from './apply.ts';
import { type ChainKey, splitChainKey } from './names.ts';
import { TABLES } from './observe.ts';
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

/** What the kernel said of the rules when they were as believed. */
export class Standing {
  readonly #probe: ChainProbe | undefined;
  readonly #own: OwnWrites;
  /** undefined: unknown. */
  #stood: RulesState | undefined;

  constructor(probe: ChainProbe | undefined, own: OwnWrites) {
    this.#probe = probe;
    this.#own = own;
  }

  /** What the kernel says now; undefined where it says nothing. */
  async read(): Promise<RulesState | undefined> {
    return await this.#probe?.state?.(TABLES);
  }

  /** When the kernel said this, the rules were as believed. */
  isAsBelieved(state: RulesState | undefined): void {
    this.#stood = state;
  }

  /** Whether another program may have written since, or that is unknown. Only reading the rules finds out what. */
  async mayDiffer(): Promise<boolean> {
    const now = await this.read();
    return now === undefined || !this.#own.isSame(this.#stood, now);
  }

  /** Write; when nobody else wrote meanwhile, the rules are as believed afterwards too. `entries`: how many more each table will have. */
  async during(entries: ReadonlyMap<string, number>, write: () => Promise<TablesReport>): Promise<ApplyReport> {
    const stood = this.#stood;
    this.#stood = undefined;
    const before = await this.read();
    const report = await write();
    if (report.outcome !== 'complete' || before === undefined || !this.#own.isSame(stood, before)) return report;
    const after = await this.read();
    if (after === undefined || !isBy({ commits: report.commits, entries }, before, after)) return report;
    if (before.kind === 'ruleset' && after.kind === 'ruleset') this.#own.wrote(before.generation, after.generation);
    this.#stood = after;
    return report;
  }
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
