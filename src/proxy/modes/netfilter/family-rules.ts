/** The chains and jumps of one family: desired and believed state, and the writes between them. Shared by the modes. */
import type { Family } from '../../../base/address.ts';
import type { ChainProbe } from '../../../kernel/chain-probe.ts';
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import { type Commit, tableKey, touchedIn } from '../../../kernel/ruleset-notices.ts';
import type { Drift } from '../../model/drift.ts';
import type { ApplyReport } from '../../reconcile/step.ts';
import { Tracker } from '../../reconcile/tracker.ts';
import type { RuleCount, SetAside } from '../mode.ts';
import { applyTables } from './apply.ts';
import { ChangeDetector, chainDrift, differenceOf, EntryCount, jumpDrift, OwnWrites } from './change-detection.ts';
import { isIn, type Jump, jumpKey, misplacedJumps, type WantedJumps } from './jumps.ts';
import { BUILT_IN, CANARY, type ChainKey, chainKey, splitChainKey } from './names.ts';
import { type IsOurs, type ObservedTables, observeTables, TABLES } from './observe.ts';
import { planTables, type TablesPlan, type TablesTrackers } from './plan.ts';
import { PORTION_LINES } from './restore-text.ts';
import { NO_PACKETS, RuleConnections } from './rule-connections.ts';
import { type Chain, sameChain, type Table } from './rules.ts';

export interface TablesOptions {
  readonly tools: IptablesTools;
  /** Checks the canaries in the place of the tools, and detects writes of other programs. */
  readonly probe?: ChainProbe | undefined;
  readonly isOurs: IsOurs;
  /** Chains to read as well: shared with others, never removed. */
  readonly shared?: ReadonlySet<ChainKey>;
  readonly jumps: readonly Jump[];
  /** Shared by the families of a mode, and with its predecessor in a takeover. */
  readonly own?: OwnWrites | undefined;
  /** Rules that are written anew keep the counters of their frontends. */
  readonly keepsCounts?: boolean | undefined;
}

/** Believed state of the kernel beside chains and jumps. */
interface Besides {
  /** Policies of built-in chains; see `ObservedTables`. */
  readonly policies: ReadonlyMap<string, string>;
  /** Keys of the jumps, in the kernel's order within each chain. */
  readonly order: readonly string[];
}

export class FamilyRules {
  readonly options: TablesOptions;
  readonly changeDetector: ChangeDetector;
  readonly trackers = {
    chains: new Tracker<ChainKey, Chain>(sameChain),
    jumps: new Tracker<string, Jump>((a, b) => a.text === b.text),
  };
  readonly connections: RuleConnections;
  #besides: Besides = { policies: new Map(), order: [] };
  /** The number of rules that the last write wrote, by table; a metric of kube-proxy's. */
  #lastWrite: ReadonlyMap<string, number> = new Map();
  /** Generation of the ruleset at the last reading. Our own writes change it too. */
  #generation: number | undefined;

  constructor(options: TablesOptions) {
    this.options = options;
    const { isOurs, shared = new Set(), tools } = options;
    this.changeDetector = new ChangeDetector(options.probe, options.own ?? new OwnWrites(), (commits) =>
      touchedChains(commits, { family: tools.family, isOurs, shared }),
    );
    this.connections = new RuleConnections(options);
    for (const entry of options.jumps) this.trackers.jumps.desire(jumpKey(entry), entry);
  }

  /** False until the kernel is read, and after a write whose outcome is unknown. */
  get isKnown(): boolean {
    return this.trackers.chains.applied !== undefined;
  }

  /** Whether none of our chains exists, except those shared with others. False while unknown. */
  get isEmpty(): boolean {
    const { shared = new Set() } = this.options;
    const { applied } = this.trackers.chains;
    return applied?.keys().every((key) => shared.has(key)) ?? false;
  }

  get besides(): Besides {
    return this.#besides;
  }

  /** Number of chains and jumps compared for plans. */
  get compared(): number {
    return this.trackers.chains.compared + this.trackers.jumps.compared;
  }

  desire(key: ChainKey, chain: Chain | undefined): void {
    this.trackers.chains.desire(key, chain);
  }

  desireJump(entry: Jump, isWanted: boolean): void {
    this.trackers.jumps.desire(jumpKey(entry), isWanted ? entry : undefined);
  }

  /** Read them; returns the chains and the drift. When the read fails it throws, and nothing is known. */
  async observe(
    signal: AbortSignal,
  ): Promise<{ readonly chains: ReadonlyMap<ChainKey, Chain>; readonly drift: Drift[] }> {
    const { probe } = this.options;
    try {
      // Taken before the reading: a change in between is found the next time.
      const [state, generation] = [await this.changeDetector.read(), await probe?.generation?.()];
      const { applied } = this.trackers.chains;
      const isSame = generation !== undefined && generation === this.#generation;
      if (isSame && applied !== undefined) {
        this.changeDetector.recordBelieved(state);
        return { chains: applied, drift: [] };
      }
      const seen = await readRules(this, signal);
      const drift = this.#drift(seen);
      this.trackers.chains.observe(seen.chains);
      this.trackers.jumps.observe(seen.jumps);
      this.#besides = { policies: seen.policies, order: [...seen.jumps.keys()] };
      this.#generation = generation;
      this.changeDetector.recordBelieved(state);
      return { chains: seen.chains, drift };
    } catch (error) {
      this.trackers.chains.forget();
      throw error;
    }
  }

  /** The changes of other programs. */
  #drift({ chains, jumps }: ObservedTables): Drift[] {
    const { family } = this.options.tools;
    const ofChains = this.trackers.chains.driftFrom(chains).map((key) => {
      return chainDrift(family, key, differenceOf(this.trackers.chains.applied?.get(key), chains.get(key)));
    });
    const ofJumps = this.trackers.jumps.driftFrom(jumps).flatMap((key) => {
      const seen = jumps.get(key);
      const jump = seen ?? this.trackers.jumps.applied?.get(key);
      return jump === undefined ? [] : [jumpDrift(family, jump, seen)];
    });
    return [...ofChains, ...ofJumps, ...orderDrift(this, jumps.keys())];
  }

  /** The jumps that one built-in chain has now, by their keys in the kernel's order. Returns what another program changed in that order. */
  sawOrder({ table, chain }: Pick<Jump, 'table' | 'chain'>, keys: readonly string[]): Drift[] {
    const { applied } = this.trackers.jumps;
    const isElsewhere = (key: string) => {
      const jump = applied?.get(key);
      return jump !== undefined && !isIn(jump, table, chain);
    };
    const order = [...this.#besides.order.filter(isElsewhere), ...keys];
    const drift = orderDrift(this, order);
    this.#besides = { ...this.#besides, order };
    return drift;
  }

  /** See `KernelProbe.differs`. Throws when the read fails. */
  async differs(signal: AbortSignal): Promise<boolean | undefined> {
    const { tools } = this.options;
    const { writes } = tools;
    const state = await this.changeDetector.read();
    const seen = await readRules(this, signal);
    // A reading during our own write proves nothing.
    if (tools.writes !== writes || !this.isKnown) return undefined;
    if (this.#drift(seen).length > 0) return true;
    this.changeDetector.recordBelieved(state);
    return false;
  }

  /** Whether all is in the kernel but these chains. Throws when nothing is known. */
  isWrittenBut(isLeft: (key: ChainKey) => boolean): boolean {
    const [chains, jumps] = [this.trackers.chains.delta(), this.trackers.jumps.delta()];
    const keys = [...chains.create.keys(), ...chains.update.keys(), ...chains.remove.keys()];
    return keys.every(isLeft) && jumps.create.size + jumps.update.size + jumps.remove.size === 0;
  }

  /** The writes that are needed; with `only`, what is added to these chains (`planTables`). Throws when nothing is known. */
  plan(setAside: SetAside, only?: (key: ChainKey) => boolean): TablesPlan {
    const { family, variant } = this.options.tools;
    // The legacy tool reads and replaces the whole table at each restore, so there is only one restore.
    const portionLines = variant === 'legacy' ? Number.POSITIVE_INFINITY : PORTION_LINES;
    const { chains, jumps } = this.trackers;
    const deltas = { chains: chains.delta(), jumps: jumps.delta() };
    const { order } = this.#besides;
    const pending = {
      family,
      portionLines,
      ...deltas,
      wantedJumps: wantedJumps(this),
      order,
      desired: () => chains.desired,
    };
    return planTables(pending, setAside, only);
  }

  /** Walks all chains: a few milliseconds for ten thousand. */
  ruleCounts(): readonly RuleCount[] {
    const { family } = this.options.tools;
    return [...rulesByTable(this.trackers.chains.applied ?? [])].map(([table, total]) => {
      return { family, table, total, last: this.#lastWrite.get(table) ?? 0 };
    });
  }

  async apply(plan: TablesPlan, signal: AbortSignal): Promise<ApplyReport> {
    const { trackers } = this;
    const { tools, keepsCounts = false } = this.options;
    const applied = trackers.chains.applied;
    const packets = keepsCounts ? await this.connections.before(plan.chains.keys(), applied, signal) : NO_PACKETS;
    const run = () => applyTables(plan, trackers, { tools, packets }, signal);
    if (plan.steps.length === 0) return await run();
    this.#lastWrite = rulesByTable(plan.chains);
    const [entries, chains] = [entriesOf(plan, trackers), chainsOf(plan, trackers)];
    const report = await this.changeDetector.write({ entries, chains, run });
    if (report.outcome === 'complete') this.#besides = { ...this.#besides, order: plan.order };
    if (report.outcome === 'complete') this.connections.wrote(plan.chains, packets);
    return report;
  }
}

/** Whether the canaries exist. A program that flushes all tables removes them. */
export async function hasCanaries({ options }: FamilyRules, signal: AbortSignal): Promise<boolean> {
  const { tools, probe = tools } = options;
  for (const table of ['mangle', 'nat', 'filter']) {
    if (!(await probe.hasChain({ table, chain: CANARY }, signal))) return false;
  }
  return true;
}

/** Read the chains and jumps of a family; the believed state stays the same. Throws when the read fails. */
export async function readRules({ options, trackers }: FamilyRules, signal: AbortSignal): Promise<ObservedTables> {
  const { tools, isOurs, shared = new Set() } = options;
  return await observeTables(tools, { isOurs, shared, wantedJumps: trackers.jumps.desired }, signal);
}

/** The built-in chains in which another program changed the order of our jumps. */
function orderDrift(rules: FamilyRules, seen: Iterable<string>): Drift[] {
  const { trackers, options, besides } = rules;
  if (trackers.jumps.applied === undefined) return [];
  const keyOf = ({ table, chain }: { table: Table; chain: string }) => `${table} ${chain}`;
  const believed = new Set(misplacedJumps(wantedJumps(rules), besides.order).map(keyOf));
  const changed = misplacedJumps(wantedJumps(rules), seen).filter((each) => !believed.has(keyOf(each)));
  const { family } = options.tools;
  return changed.map(({ table, chain }) => {
    return { family, kind: 'order', table, name: chain, target: '', difference: { kind: 'changed' } };
  });
}

/** The desired jumps, to compare their order. */
export function wantedJumps({ options, trackers }: FamilyRules): WantedJumps {
  return { desired: trackers.jumps.desired, shared: options.shared ?? new Set() };
}

/** The number of entries that the plan adds to each table. */
function entriesOf({ chains, jumps }: TablesPlan, trackers: TablesTrackers): ReadonlyMap<string, number> {
  const count = new EntryCount();
  for (const [key, chain] of chains) count.chain(key, trackers.chains.applied?.get(key), chain);
  for (const [key, entry] of jumps) {
    const before = trackers.jumps.applied?.get(key);
    if (entry !== undefined && before === undefined) count.add(entry.table, 1);
    if (entry === undefined && before !== undefined) count.add(before.table, -(before.copies ?? 1));
  }
  return count.entries;
}

/** The chains that the plan writes or removes, and the built-in ones in which it has jumps to write. */
function chainsOf({ chains, jumps }: TablesPlan, trackers: TablesTrackers): ReadonlySet<ChainKey> {
  const keys = new Set(chains.keys());
  for (const [key, entry] of jumps) {
    const jump = entry ?? trackers.jumps.applied?.get(key);
    if (jump !== undefined) keys.add(chainKey(jump.table, jump.chain));
  }
  return keys;
}

interface WhoseChains {
  readonly family: Family;
  readonly isOurs: IsOurs;
  /** See `TablesOptions`. */
  readonly shared: ReadonlySet<ChainKey>;
}

/** Our chains and built-in chains that transactions of nftables touched; undefined when unknown or too many to name. */
function touchedChains(
  commits: readonly Commit[],
  { family, isOurs, shared }: WhoseChains,
): readonly ChainKey[] | undefined {
  const keys: ChainKey[] = [];
  for (const table of TABLES) {
    const touched = touchedIn(commits, tableKey(family, table));
    if (touched === undefined || touched.isWhole) return undefined;
    for (const chain of touched.chains) {
      const key = chainKey(table, chain);
      if (BUILT_IN.has(chain) || isOurs(table, chain) || shared.has(key)) keys.push(key);
    }
  }
  return keys;
}

/** The number of rules in each table. */
function rulesByTable(chains: Iterable<readonly [ChainKey, Chain | undefined]>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const [key, chain] of chains) {
    const { table } = splitChainKey(key);
    counts.set(table, (counts.get(table) ?? 0) + (chain?.length ?? 0));
  }
  return counts;
}
