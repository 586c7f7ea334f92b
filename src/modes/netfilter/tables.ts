/** The chains and jumps of one family: what should be there, what is, and the writes between. What the modes share. */
import type { IptablesTools } from '../../host/iptables-tools.ts';
import type { ChainLook } from '../../host/rules-look.ts';
import type { ApplyReport } from '../../reconcile/step.ts';
import { Tracker } from '../../reconcile/tracker.ts';
import type { RuleCount, SetAside } from '../mode.ts';
import { applyTables } from './apply.ts';
import { type Jump, jumpKey } from './jumps.ts';
import { CANARY, type ChainKey, splitChainKey } from './names.ts';
import { type IsOurs, observeTables } from './observe.ts';
import { planTables, stepKey, type TablesPlan } from './plan.ts';
import { PORTION_LINES } from './portions.ts';
import { type Chain, sameChain } from './rules.ts';

export interface TablesOptions {
  readonly tools: IptablesTools;
  /** Who tells whether the canaries stand, instead of the tools, and whether anything was written since the last read. */
  readonly look?: ChainLook | undefined;
  readonly isOurs: IsOurs;
  /** Chains to read beside ours: shared with others, and never removed. */
  readonly shared?: ReadonlySet<ChainKey>;
  readonly jumps: readonly Jump[];
}

export class FamilyTables {
  readonly #options: TablesOptions;
  readonly #chains = new Tracker<ChainKey, Chain>(sameChain);
  readonly #jumps = new Tracker<string, Jump>((a, b) => a.text === b.text);

  /** Of the ruleset when it was read last. A write of ours makes it another. */
  #generation: number | undefined;
  /** Rules of the last write, by table. */
  readonly #last = new Map<string, number>();

  constructor(options: TablesOptions) {
    this.#options = options;
    for (const entry of options.jumps) this.#jumps.desire(jumpKey(entry), entry);
  }

  /** False until the kernel was read, and after a write whose outcome is not known. */
  get isKnown(): boolean {
    return this.#chains.applied !== undefined;
  }

  /** Whether none of our chains is there, but for those shared with others. Only when they were read. */
  get isEmpty(): boolean {
    const { shared = new Set() } = this.#options;
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
    const { tools, look, isOurs, shared = new Set() } = this.#options;
    try {
      // Taken before the read: what changes in between is read the next time.
      const generation = await look?.generation?.();
      const { applied } = this.#chains;
      const isSame = generation !== undefined && generation === this.#generation;
      if (isSame && applied !== undefined) return { chains: applied, drift: [] };
      const seen = await observeTables(tools, { isOurs, shared, wantedJumps: this.#jumps.desired }, signal);
      const drift = this.#chains.driftFrom(seen.chains).map((key) => stepKey(tools.family, key));
      this.#chains.observe(seen.chains);
      this.#jumps.observe(seen.jumps);
      this.#generation = generation;
      return { chains: seen.chains, drift };
    } catch (error) {
      this.#chains.forget();
      throw error;
    }
  }

  /** What to write; `only` these chains and the jumps into them, where that is said. Throws when nothing is known. */
  plan(setAside: SetAside, only?: ReadonlySet<ChainKey>): TablesPlan {
    const { family, variant } = this.#options.tools;
    // The legacy tool reads and replaces the whole table at each restore: it is to do that once.
    const portionLines = variant === 'legacy' ? Number.POSITIVE_INFINITY : PORTION_LINES;
    const pending = { family, portionLines, chains: this.#chains.delta(), jumps: this.#jumps.delta() };
    return planTables(pending, setAside, only);
  }

  /** Walks all chains: some milliseconds for ten thousand. */
  ruleCounts(): readonly RuleCount[] {
    const totals = new Map<string, number>();
    for (const [key, chain] of this.#chains.applied ?? []) {
      const { table } = splitChainKey(key);
      totals.set(table, (totals.get(table) ?? 0) + chain.length);
    }
    const { family } = this.#options.tools;
    return [...totals].map(([table, total]) => ({ family, table, total, last: this.#last.get(table) ?? 0 }));
  }

  async apply(plan: TablesPlan, signal: AbortSignal): Promise<ApplyReport> {
    const { tools } = this.#options;
    if (plan.steps.length > 0) {
      this.#last.clear();
      for (const [key, chain] of plan.chains) {
        const { table } = splitChainKey(key);
        this.#last.set(table, (this.#last.get(table) ?? 0) + (chain?.length ?? 0));
      }
    }
    return await applyTables(plan, { chains: this.#chains, jumps: this.#jumps }, tools, signal);
  }

  /** Whether the chains stand that a program removes which flushes all. */
  async hasCanaries(signal: AbortSignal): Promise<boolean> {
    const { tools, look = tools } = this.#options;
    for (const table of ['mangle', 'nat', 'filter']) {
      if (!(await look.hasChain({ table, chain: CANARY }, signal))) return false;
    }
    return true;
  }
}
