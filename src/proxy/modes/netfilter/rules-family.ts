/** The rules of one family, for modes that write through iptables. The base class desires nothing, so all our rules are removed. */
import type { Family } from '../../../base/address.ts';
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { Drift } from '../../model/drift.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import { type FamilyMode, type FamilyPlan, familiesMode, type PortChanges, type SeenFamily } from '../families.ts';
import type { CleanupPart, ConnectionCount, CounterReading, Heard, Mode, RuleCount, SetAside } from '../mode.ts';
import { chainDrift, differenceOf, jumpDrift } from './change-detection.ts';
import { FamilyRules, hasCanaries, type TablesOptions } from './family-rules.ts';
import { isIn, type Jump, jumpKey, targetOf } from './jumps.ts';
import { BUILT_IN, type ChainKey, isBuiltIn, isOurs, splitChainKey } from './names.ts';
import { addJump, type IsOurs, jumpsIn, readChain, readTables, TABLES } from './observe.ts';
import { isEmptyBlock, restoreTexts, type SavedTable, type TableBlock } from './restore-text.ts';
import type { Chain, Table } from './rules.ts';
import { udpFrontendsIn } from './rules-view.ts';

export class RulesFamily implements FamilyMode {
  readonly tables: FamilyRules;
  readonly #notices: NoticeFollower;

  constructor(tables: FamilyRules) {
    this.tables = tables;
    this.#notices = new NoticeFollower(tables);
  }

  get family(): Family {
    return this.tables.options.tools.family;
  }

  get isKnown(): boolean {
    return this.tables.isKnown;
  }

  get isEmpty(): boolean {
    return this.tables.isEmpty;
  }

  get rendered(): number {
    return 0;
  }

  get compared(): number {
    return this.tables.compared;
  }

  desire(_changes: PortChanges, _before: ReadonlyMap<ServicePortKey, ServicePort>): void {}

  async observe(signal: AbortSignal): Promise<SeenFamily> {
    const part = await this.#notices.observe(signal).catch((error) => {
      if (signal.aborted) throw error;
      // All is read then: where that fails too, nothing is known of the family any more, and it does not count as synced.
      return undefined;
    });
    // The frontends were reported after the last reading.
    if (part !== undefined) return { drift: part, udpFrontends: [] };
    const { drift, chains } = await this.tables.observe(signal);
    return { drift, udpFrontends: udpFrontendsIn(this.family, chains) };
  }

  plan(setAside: SetAside): FamilyPlan {
    const plan = this.tables.plan(setAside);
    return { steps: plan.steps, apply: (signal) => this.tables.apply(plan, signal) };
  }

  async isInstalled(signal: AbortSignal): Promise<boolean> {
    return await hasCanaries(this.tables, signal);
  }

  async heard(): Promise<Heard> {
    return await this.#notices.heard();
  }

  async mayDiffer(): Promise<boolean> {
    return await this.tables.changeDetector.mayDiffer();
  }

  async differs(signal: AbortSignal): Promise<boolean | undefined> {
    return await this.tables.differs(signal);
  }

  ruleCounts(): readonly RuleCount[] {
    return this.tables.ruleCounts();
  }

  async connectionCounts(look: CounterReading): Promise<readonly ConnectionCount[]> {
    const { options, connections, trackers } = this.tables;
    return options.keepsCounts === true ? await connections.counts(() => trackers.chains.applied, look) : [];
  }

  removal(signal: AbortSignal): CleanupPart {
    const { tools, isOurs } = this.tables.options;
    return { name: tools.family, remove: () => cleanupTables(tools, isOurs, signal) };
  }
}

/** The rules of a predecessor that wrote through iptables, ours or kube-proxy's. It desires nothing: all of them are removed. */
export function rulesPredecessor(families: readonly Pick<TablesOptions, 'tools' | 'probe'>[]): Mode {
  return familiesMode({
    name: 'iptables',
    readsApart: true,
    families: families.map(({ tools, probe }) => new RulesFamily(new FamilyRules({ tools, probe, isOurs, jumps: [] }))),
  });
}

// Removal at once: every chain and jump of a service proxy, ours in every mode, and kube-proxy's.

/** Returns a line for each removed object. KUBE-FIREWALL stays: the kubelet uses it too. Throws when a read or write fails. */
export async function cleanupTables(tools: IptablesTools, isOurs: IsOurs, signal: AbortSignal): Promise<string[]> {
  const { tables } = await readTables(tools, signal);
  const blocks = TABLES.map((table) => cleanupBlock(table, tables.get(table) ?? new Map(), isOurs)).filter(
    (block) => !isEmptyBlock(block),
  );
  if (blocks.length === 0) return [];
  await tools.restore(() => restoreTexts(blocks), signal);
  return blocks.flatMap(({ table, deletes, drops }) => [
    ...deletes.map(({ chain, text }) => `${tools.family} ${table} ${chain} to ${targetOf(text)}`),
    ...drops.map((chain) => `${tools.family} ${table} ${chain}`),
  ]);
}

/** Our chains, and every rule of a built-in chain that leads to one of them, with its duplicates. */
function cleanupBlock(table: Table, saved: SavedTable, isOurs: IsOurs): TableBlock {
  const names = [...saved.keys()].filter((name) => isOurs(table, name));
  const going = new Set(names);
  const deletes: { chain: string; text: string }[] = [];
  for (const [chain, rules] of saved) {
    if (!BUILT_IN.has(chain)) continue;
    for (const text of rules) if (going.has(targetOf(text))) deletes.push({ chain, text });
  }
  return { table, chains: names.map((name) => ({ name, rules: [] })), inserts: [], deletes, drops: names };
}

// Follows the kernel's notices of other programs' changes to the rules of one family, and reads only the chains that they touched.

/** Limit of chains that are read one by one, with a process for each. If more were touched, one reading of all is cheaper. */
const MAX_CHAINS_READ = 16;

class NoticeFollower {
  readonly #tables: FamilyRules;
  #isTouched = false;

  constructor(tables: FamilyRules) {
    this.#tables = tables;
  }

  /** See `KernelProbe.heard`. */
  async heard(): Promise<Heard> {
    const { isKnown, changeDetector: standing } = this.#tables;
    if (!isKnown || !(await standing.mayDiffer())) return { kind: 'nothing' };
    const found = await standing.foreignWrites();
    if (found === undefined) return { kind: 'unknown', by: standing.suspect };
    if (found.touched.length === 0) return { kind: 'nothing', by: found.by };
    this.#isTouched = true;
    return { kind: 'something', by: found.by };
  }

  /** Read the touched chains. Returns the changes of other programs, or undefined when all must be read. Throws when a read fails. */
  async observe(signal: AbortSignal): Promise<readonly Drift[] | undefined> {
    const { isKnown, changeDetector: standing, trackers } = this.#tables;
    if (!this.#isTouched || !isKnown) return undefined;
    this.#isTouched = false;
    const found = await standing.foreignWrites();
    if (found === undefined) return undefined;
    const builtIn = found.touched.filter(isBuiltIn);
    const ours = found.touched.filter((key) => !builtIn.includes(key));
    if (found.touched.length > MAX_CHAINS_READ) return undefined;
    // A chain that is not desired is judged by a reading of all.
    if (ours.some((key) => !trackers.chains.desired.has(key))) return undefined;
    const drift: Drift[] = [];
    for (const key of builtIn) drift.push(...(await this.#readJumps(key, signal)));
    for (const key of ours) drift.push(...this.#correctChain(key, await this.#read(key, signal)));
    standing.recordBelieved(found.state);
    return drift;
  }

  async #read(key: ChainKey, signal: AbortSignal): Promise<Chain | undefined> {
    const rules = await this.#tables.options.tools.rules(splitChainKey(key), signal);
    return rules && readChain(rules);
  }

  #correctChain(key: ChainKey, seen: Chain | undefined): Drift[] {
    const { options, trackers } = this.#tables;
    const drift = trackers.chains.correct(new Map([[key, seen]]));
    return [...drift].map(([, former]) => chainDrift(options.tools.family, key, differenceOf(former, seen)));
  }

  async #readJumps(key: ChainKey, signal: AbortSignal): Promise<Drift[]> {
    const { options, trackers } = this.#tables;
    const { table, chain } = splitChainKey(key);
    const rules = (await options.tools.rules({ table, chain }, signal)) ?? [];
    const seen = new Map<string, Jump | undefined>();
    for (const [of, believed] of trackers.jumps.applied ?? [])
      if (isIn(believed, table, chain)) seen.set(of, undefined);
    const spec = { isOurs: options.isOurs, wantedJumps: trackers.jumps.desired };
    const order: string[] = [];
    for (const entry of jumpsIn(table, chain, rules, spec)) {
      order.push(jumpKey(entry));
      addJump(seen, entry);
    }
    const drift = trackers.jumps.correct(seen);
    const ofJumps = [...drift].flatMap(([of, former]) => {
      const now = seen.get(of);
      const jump = now ?? former;
      return jump === undefined ? [] : [jumpDrift(options.tools.family, jump, now)];
    });
    return [...ofJumps, ...this.#tables.sawOrder({ table, chain }, order)];
  }
}
