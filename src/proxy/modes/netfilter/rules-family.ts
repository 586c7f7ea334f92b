/** The rules of one family, for modes that write through iptables. By itself it desires nothing, so all our rules are removed. */
import type { Family } from '../../../base/address.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import type { CleanupPart } from '../cleanup.ts';
import { type FamilyMode, type FamilyPlan, familiesMode, type PortChanges, type SeenFamily } from '../families.ts';
import type { ConnectionCount, CounterReading, Heard, Mode, RuleCount, SetAside } from '../mode.ts';
import { cleanupTables } from './cleanup.ts';
import { FamilyRules, hasCanaries, type TablesOptions } from './family-rules.ts';
import { HeardRules } from './heard-rules.ts';
import { isOurs } from './names.ts';
import { udpFrontendsIn } from './udp-frontends.ts';

export class RulesFamily implements FamilyMode {
  readonly tables: FamilyRules;
  readonly #heard: HeardRules;

  constructor(tables: FamilyRules) {
    this.tables = tables;
    this.#heard = new HeardRules(tables);
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
    const part = await this.#heard.observe(signal);
    // The frontends were reported after the last reading.
    if (part !== undefined) return { drift: part, udpFrontends: [] };
    const { drift, chains } = await this.tables.observe(signal);
    return { drift, udpFrontends: udpFrontendsIn(this.family, chains) };
  }

  plan(setAside: SetAside): FamilyPlan {
    const plan = this.tables.plan(setAside);
    return { steps: plan.steps, apply: (signal) => this.tables.apply(plan, signal) };
  }

  async stands(signal: AbortSignal): Promise<boolean> {
    return await hasCanaries(this.tables, signal);
  }

  async heard(): Promise<Heard> {
    return await this.#heard.heard();
  }

  async mayDiffer(): Promise<boolean> {
    return await this.tables.standing.mayDiffer();
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
