/** The chains and jumps of one family: what should be there, what is, and the writes between. What the modes share. */

import type { ChainProbe } from '../../host/chain-probe.ts';
import type { IptablesTools } from '../../host/iptables-tools.ts';
import type { ApplyReport } from '../../reconcile/step.ts';
import { Tracker } from '../../reconcile/tracker.ts';
import type { RuleCount, SetAside } from '../mode.ts';
import { applyTables } from './apply.ts';
import { type Jump, jumpKey } from './jumps.ts';
import { CANARY, type ChainKey } from './names.ts';
import { type IsOurs, observeTables, type SeenTables } from './observe.ts';
import { planTables, stepKey, type TablesPlan, type TablesTrackers } from './plan.ts';
import { PORTION_LINES } from './portions.ts';
import { RuleTotals } from './rule-totals.ts';
import { type Chain, sameChain } from './rules.ts';
import { differenceOf, EntryCount, OwnWrites, Standing } from './standing.ts';

export interface TablesOptions {
  readonly tools: IptablesTools;
  /** Who tells whether the canaries stand, instead of the tools, and whether anything was written since the last read. */
  readonly probe?: ChainProbe | undefined;
  readonly isOurs: IsOurs;
  /** Chains to read beside ours: shared with others, and never removed. */
  readonly shared?: ReadonlySet<ChainKey>;
  readonly jumps: readonly Jump[];
  /** Shared by the families of a mode. */
  readonly own?: OwnWrites;
}

export class FamilyTables {
  readonly options: TablesOptions;
  readonly standing: Standing;
  readonly #chains = new Tracker<ChainKey, Chain>(sameChain);
  readonly #jumps = new Tracker<string, Jump>((a, b) => a.text === b.text);
  readonly #totals: RuleTotals;
  /** Of the ruleset when it was read last. A write of ours makes it another. */
  #generation: number | undefined;

  constructor(options: TablesOptions) {
    this.options = options;
    this.standing = new Standing(options.probe, options.own ?? new OwnWrites());
    this.#totals = new RuleTotals(options.tools.family);
    for (const entry of options.jumps) this.#jumps.desire(jumpKey(entry), entry);
  }

  /** False until the kernel was read, and after a write whose outcome is not known. */
  get isKnown(): boolean {
    return this.#chains.applied !== undefined;
  }

  /** Whether none of our chains is there, but for those shared with others. Only when they were read. */
  get isEmpty(): boolean {
    const { shared = new Set() } = this.options;
    const { applied } = this.#chains;
    return applied?.keys().every((key) => shared.has(key)) ?? false;
  }

  /** Chains and jumps that were compared for plans. */
  get compared(): number {
    return this.#chains.compared + this.#jumps.compared;
  }

  desire(key: ChainKey, chain: Chain | undefined): void {
    this.#chains.desire(key, chain);
  }

  desireJump(entry: Jump, isWanted: boolean): void {
    this.#jumps.desire(jumpKey(entry), isWanted ? entry : undefined);
  }

  /** Read them; returns the chains, and the keys of those that another program changed. Throws when the read fails; then nothing is known. */
  async observe(
    signal: AbortSignal,
  ): Promise<{ readonly chains: ReadonlyMap<ChainKey, Chain>; readonly drift: string[] }> {
    const { probe } = this.options;
    try {
      // Taken before the read: what changes in between is read the next time.
      const [generation, state] = [await probe?.generation?.(), await this.standing.read()];
      const { applied } = this.#chains;
      const isSame = generation !== undefined && generation === this.#generation;
      if (isSame && applied !== undefined) {
        this.standing.isAsBelieved(state);
        return { chains: applied, drift: [] };
      }
      const seen = await readTables(this.options, this.#jumps, signal);
      const drift = this.#drift(seen);
      this.#chains.observe(seen.chains);
      this.#jumps.observe(seen.jumps);
      this.#generation = generation;
      this.standing.isAsBelieved(state);
      return { chains: seen.chains, drift };
    } catch (error) {
      this.#chains.forget();
      throw error;
    }
  }

  /** What another program changed, and how. */
  #drift({ chains, jumps }: SeenTables): string[] {
    const { family } = this.options.tools;
    const ofChains = this.#chains.driftFrom(chains).map((key) => {
      return `${stepKey(family, key)} (${differenceOf(this.#chains.applied?.get(key), chains.get(key))})`;
    });
    const ofJumps = this.#jumps.driftFrom(jumps).map((key) => {
      const seen = jumps.get(key);
      const { table, chain, target } = seen ?? this.#jumps.applied?.get(key) ?? { table: '', chain: '', target: '' };
      return `${stepKey(family, `${table} ${chain}`)} to ${target} (${seen === undefined ? 'gone' : 'nobody of us wrote it'})`;
    });
    return [...ofChains, ...ofJumps];
  }

  /** Read them and compare; nothing else is believed than before. Undefined: a write of ours went on meanwhile. Throws when the read fails. */
  async differs(signal: AbortSignal): Promise<boolean | undefined> {
    const { tools } = this.options;
    const { writes } = tools;
    const state = await this.standing.read();
    const seen = await readTables(this.options, this.#jumps, signal);
    // What was read while a write of ours went on says nothing.
    if (tools.writes !== writes || !this.isKnown) return undefined;
    if (this.#drift(seen).length > 0) return true;
    this.standing.isAsBelieved(state);
    return false;
  }

  /** What to write; `only` these chains and the jumps into them, where that is said. Throws when nothing is known. */
  plan(setAside: SetAside, only?: ReadonlySet<ChainKey>): TablesPlan {
    const { family, variant } = this.options.tools;
    // The legacy tool reads and replaces the whole table at each restore: it is to do that once.
    const portionLines = variant === 'legacy' ? Number.POSITIVE_INFINITY : PORTION_LINES;
    const pending = { family, portionLines, chains: this.#chains.delta(), jumps: this.#jumps.delta() };
    return planTables(pending, setAside, only);
  }

  /** Walks all chains: some milliseconds for ten thousand. */
  ruleCounts(): readonly RuleCount[] {
    return this.#totals.counts(this.#chains.applied);
  }

  async apply(plan: TablesPlan, signal: AbortSignal): Promise<ApplyReport> {
    const trackers = { chains: this.#chains, jumps: this.#jumps };
    const write = () => applyTables(plan, trackers, this.options.tools, signal);
    if (plan.steps.length === 0) return await write();
    this.#totals.writing(plan.chains);
    return await this.standing.during(entriesOf(plan, trackers), write);
  }

  /** Whether the chains stand that a program removes which flushes all. */
  async hasCanaries(signal: AbortSignal): Promise<boolean> {
    const { tools, probe = tools } = this.options;
    for (const table of ['mangle', 'nat', 'filter']) {
      if (!(await probe.hasChain({ table, chain: CANARY }, signal))) return false;
    }
    return true;
  }
}

function readTables(
  { tools, isOurs, shared = new Set() }: TablesOptions,
  jumps: Tracker<string, Jump>,
  signal: AbortSignal,
): Promise<SeenTables> {
  return observeTables(tools, { isOurs, shared, wantedJumps: jumps.desired }, signal);
}

/** How many entries more each table will have. */
function entriesOf({ chains, jumps }: TablesPlan, trackers: TablesTrackers): ReadonlyMap<string, number> {
  const count = new EntryCount();
  for (const [key, chain] of chains) count.chain(key, trackers.chains.applied?.get(key), chain);
  for (const [key, entry] of jumps) {
    const before = trackers.jumps.applied?.get(key);
    if (entry !== undefined && before === undefined) count.add(entry.table, 1);
    if (entry === undefined && before !== undefined) count.add(before.table, -1);
  }
  return count.entries;
}
