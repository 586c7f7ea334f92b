/**
 * Detects, without reading the rules, whether they are still as last read or written: by the generation of the ruleset
 * (nft), or by the numbers of each table (legacy). Our own writes change these too, and are recognised by the difference.
 * The changes of other programs become structures (`Drift`).
 */

import type { Family } from '../../../base/address.ts';
import type { ChainProbe, RulesState } from '../../../kernel/chain-probe.ts';
import type { Commit } from '../../../kernel/ruleset-notices.ts';
import type { Difference, Drift } from '../../model/drift.ts';
import type { ApplyReport } from '../../reconcile/step.ts';
import type { TablesReport } from './apply.ts';
import type { Jump } from './jumps.ts';
import { type ChainKey, isBuiltIn, splitChainKey } from './names.ts';
import { TABLES } from './observe.ts';
import type { Chain } from './rules.ts';

/** Entries of a chain beside its rules, in legacy tables: its head and its end (linux/netfilter/x_tables.h). */
const ENTRIES_OF_CHAIN = 2;

/** The tool that writes for us, by its first 15 characters, and for others too: none of them is blamed without a proof. */
const MAY_BE_OURS = /^ip6?tables-(nft-)?r/;

/** The effect of a write, in the units in which the kernel counts. */
export interface WrittenRules {
  /** Transactions: one for each COMMIT. */
  readonly commits: number;
  /** Entries added to each table; negative if entries were removed. */
  readonly entries: ReadonlyMap<string, number>;
}

/** The last series of our own writes without another program's write in between. Families share it, as they share nft's ruleset. */
export class OwnWrites {
  #first = 0;
  #last = 0;

  /** Record a write of ours: it moved the generation from `from` to `to`. */
  wrote(from: number, to: number): void {
    if (from !== this.#last) this.#first = from;
    this.#last = to;
  }

  /** Whether a write of ours made this generation. */
  isOwnGeneration(generation: number): boolean {
    return generation > this.#first && generation <= this.#last;
  }

  /** The generation after the last of our writes that directly follow this one, or this one when none does. */
  after(generation: number): number {
    return generation >= this.#first && generation <= this.#last ? this.#last : generation;
  }

  /** Whether no other program wrote between the two states. */
  isSame(known: RulesState | undefined, now: RulesState): boolean {
    if (known?.kind === 'tables' && now.kind === 'tables') {
      return now.tables.entries().every(([table, { text }]) => known.tables.get(table)?.text === text);
    }
    if (known?.kind !== 'ruleset' || now.kind !== 'ruleset') return false;
    return now.generation === this.after(known.generation);
  }
}

/** Whether the write alone explains the difference between `before` and `after`. */
export function isBy(written: WrittenRules, before: RulesState, after: RulesState): boolean {
  if (before.kind === 'ruleset' && after.kind === 'ruleset') {
    return after.generation === before.generation + written.commits;
  }
  if (before.kind !== 'tables' || after.kind !== 'tables') return false;
  return after.tables.entries().every(([table, { entries }]) => {
    const had = before.tables.get(table)?.entries;
    return had !== undefined && entries === had + (written.entries.get(table) ?? 0);
  });
}

/** The chains that transactions touched; undefined when unknown. */
export type TouchedBy = (commits: readonly Commit[]) => readonly ChainKey[] | undefined;

/** Writes of other programs. */
export interface ForeignWrites {
  /** The chains of ours, and built-in chains, that they touched. */
  readonly touched: readonly ChainKey[];
  /** The last of the transactions that touched them; the last of all where none did. */
  readonly by: Commit | undefined;
  /** The state to which this leads. */
  readonly state: RulesState;
}

/** A write of ours, as the kernel counts it and as its notices show it. */
export interface OurWrite {
  /** The entries that it adds to each table. */
  readonly entries: ReadonlyMap<string, number>;
  /** The chains that it touches, built-in ones among them. */
  readonly chains: ReadonlySet<ChainKey>;
  readonly run: () => Promise<TablesReport>;
}

/**
 * Compares the kernel's numbers with those of the time when the rules were known to be as believed. What other programs touched since is
 * remembered until it is read, so that their writes and ours may come in any order.
 */
export class ChangeDetector {
  readonly #probe: ChainProbe | undefined;
  readonly #own: OwnWrites;
  readonly #touchedBy: TouchedBy;
  /** Undefined when unknown. */
  #believedAt: RulesState | undefined;
  /** Chains that others touched up to then, each with the last transaction that did, in their order. Whether they are as believed is unknown. */
  readonly #touched = new Map<ChainKey, Commit>();
  /** The last transaction of others since then that touched more than its notices name. */
  #unnamed: Commit | undefined;
  #isWriting = false;

  constructor(probe: ChainProbe | undefined, own: OwnWrites, touchedBy: TouchedBy = () => undefined) {
    this.#probe = probe;
    this.#own = own;
    this.#touchedBy = touchedBy;
  }

  /** The kernel's numbers now; undefined when it has none. */
  async read(): Promise<RulesState | undefined> {
    return await this.#probe?.state?.(TABLES);
  }

  /** The program that changed what only a reading of all shows; undefined when unknown. */
  get suspect(): Commit | undefined {
    return this.#unnamed;
  }

  /** Whether a write of ours made this generation of the ruleset. */
  isOwnGeneration(generation: number): boolean {
    return this.#own.isOwnGeneration(generation);
  }

  /** Record that the rules were as believed at these numbers. A reading that ends while a write runs, which began later, says nothing. */
  recordBelieved(state: RulesState | undefined): void {
    if (this.#isWriting) return;
    this.#believedAt = state;
    this.#touched.clear();
    this.#unnamed = undefined;
  }

  /** Whether another program wrote since then, or may have. Only a reading of the rules shows the change. */
  async mayDiffer(): Promise<boolean> {
    const now = await this.read();
    return now === undefined || this.#touched.size > 0 || !this.#own.isSame(this.#believedAt, now);
  }

  /** The writes of other programs since then, by the kernel's notices; undefined where there are no notices. */
  async foreignWrites(): Promise<ForeignWrites | undefined> {
    const [known, state] = [this.#believedAt, await this.read()];
    const commits = await this.#commits(known, state);
    if (state === undefined || commits === undefined || !this.#remember(commits)) return undefined;
    this.#believedAt = state;
    const touched = [...this.#touched.keys()];
    // Others have rules of their own in the built-in chains. So the program that touched a chain of ours is named rather than theirs.
    const last = touched.findLast((key) => !isBuiltIn(key)) ?? touched.at(-1);
    return { touched, by: last === undefined ? commits.at(-1) : this.#touched.get(last), state };
  }

  /** Write. The chains that no other program touched meanwhile are as believed afterwards. */
  async write(ours: OurWrite): Promise<ApplyReport> {
    this.#isWriting = true;
    try {
      return await this.#write(ours);
    } finally {
      this.#isWriting = false;
    }
  }

  async #write({ entries, chains, run }: OurWrite): Promise<ApplyReport> {
    if (await this.mayDiffer()) await this.foreignWrites();
    const believedAt = this.#believedAt;
    // Until the write has ended well.
    this.#believedAt = undefined;
    const before = await this.read();
    const report = await run();
    if (report.outcome !== 'complete' || before === undefined) return report;
    const after = await this.read();
    if (after === undefined) return report;
    if (this.#own.isSame(believedAt, before) && isBy({ commits: report.commits, entries }, before, after)) {
      if (before.kind === 'ruleset' && after.kind === 'ruleset') this.#own.wrote(before.generation, after.generation);
      this.#believedAt = after;
    } else if (await this.#isWrittenBeside(report.commits, chains, { believedAt, after })) this.#believedAt = after;
    return report;
  }

  /** Other programs wrote during our write. Returns whether it is known which of these transactions are ours, and what the others touched. */
  async #isWrittenBeside(
    count: number,
    chains: ReadonlySet<ChainKey>,
    { believedAt, after }: { readonly believedAt: RulesState | undefined; readonly after: RulesState },
  ): Promise<boolean> {
    const commits = await this.#commits(believedAt, after);
    if (commits === undefined) return false;
    const isOurs = (commit: Commit) => {
      const touched = this.#touchedBy([commit]) ?? [];
      return touched.length > 0 && touched.every((key) => chains.has(key));
    };
    const { ours = [], others = [] } = Object.groupBy(commits, (commit) => (isOurs(commit) ? 'ours' : 'others'));
    if (ours.length !== count || !this.#remember(others)) return false;
    for (const { generation } of ours) this.#own.wrote(generation - 1, generation);
    return true;
  }

  async #commits(known: RulesState | undefined, state: RulesState | undefined): Promise<readonly Commit[] | undefined> {
    if (known?.kind !== 'ruleset' || state?.kind !== 'ruleset') return undefined;
    return await this.#probe?.commits?.(this.#own.after(known.generation), state.generation);
  }

  /** Remembers the chains that transactions of others touched; returns false when these are unknown. */
  #remember(commits: readonly Commit[]): boolean {
    const all = this.#touchedBy(commits);
    // Most touch nothing of ours: then they are not looked at one by one.
    if (all === undefined) {
      const isIt = (commit: Commit) => !MAY_BE_OURS.test(commit.name) && this.#touchedBy([commit]) === undefined;
      this.#unnamed = commits.findLast(isIt) ?? this.#unnamed;
      return false;
    }
    if (all.length === 0) return true;
    for (const commit of commits) {
      for (const key of this.#touchedBy([commit]) ?? []) {
        this.#touched.delete(key);
        this.#touched.set(key, commit);
      }
    }
    return true;
  }
}

/** Counts the entries that writes add to the tables. */
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

/** The difference of two versions of a chain. */
export function differenceOf(believed: Chain | undefined, seen: Chain | undefined): Difference {
  if (seen === undefined) return { kind: 'gone' };
  if (believed === undefined) return { kind: 'foreign' };
  const count = (of: Chain, notIn: Chain) => {
    const texts = new Set(notIn.map(({ text }) => text));
    return of.filter(({ text }) => !texts.has(text)).length;
  };
  return { kind: 'rules', gone: count(believed, seen), added: count(seen, believed) };
}

/** A chain that another program changed. */
export function chainDrift(family: Family, key: ChainKey, difference: Difference): Drift {
  const { table, chain } = splitChainKey(key);
  return { family, kind: 'chain', table, name: chain, target: '', difference };
}

/** A jump into a chain of ours that another program made, or removed: `seen` is undefined then. */
export function jumpDrift(family: Family, { table, chain, target }: Jump, seen: Jump | undefined): Drift {
  return {
    family,
    kind: 'jump',
    ...{ table, name: chain, target, difference: { kind: seen === undefined ? 'gone' : 'foreign' } },
  };
}
