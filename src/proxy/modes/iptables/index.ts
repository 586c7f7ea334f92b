/** iptables mode: the chains of each family, written by `iptables-restore`. */

import { breath } from '../../../base/clock.ts';
import type { ChainProbe } from '../../../kernel/chain-probe.ts';
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { Sysctls } from '../../../kernel/sysctls.ts';
import { mergeReports } from '../../reconcile/step.ts';
import { type FamilyPlan, type FamilyReport, familiesMode, type PortChanges, type SeenFamily } from '../families.ts';
import type { FamilyInspection } from '../inspection.ts';
import { KernelSettings, type SettingsPlan } from '../kernel-settings.ts';
import type { LimitedPort, Mode, PacketCount, SetAside } from '../mode.ts';
import { serviceChains } from '../netfilter/balancer.ts';
import { OwnWrites } from '../netfilter/change-detection.ts';
import { FamilyRules, type TablesOptions } from '../netfilter/family-rules.ts';
import { rulesInspection } from '../netfilter/inspect.ts';
import { chainKey, FIREWALL, isOurs } from '../netfilter/names.ts';
import type { TablesPlan } from '../netfilter/plan.ts';
import { CHAINS_AT_ONCE, savedCounters } from '../netfilter/rule-connections.ts';
import { RulesFamily } from '../netfilter/rules-family.ts';
import { type ChainChanges, IptablesDesired } from './desire.ts';
import {
  type CountedRule,
  countedIn,
  FIREWALL_JUMPS,
  type IptablesSettings,
  JUMPS,
  ROUTE_LOCALNET,
} from './static-chains.ts';

/** One for each family that the node has. */
interface IptablesFamilyOptions extends Pick<TablesOptions, 'tools' | 'probe' | 'own' | 'keepsCounts'> {
  readonly settings: IptablesSettings;
  readonly sysctls: Sysctls;
}

export function iptablesMode(families: readonly IptablesFamilyOptions[]): Mode {
  const own = new OwnWrites();
  return familiesMode({
    name: 'iptables',
    readsApart: true,
    families: families.map((family) => new IptablesFamily({ own, ...family })),
  });
}

class IptablesFamily extends RulesFamily {
  readonly inspection: FamilyInspection;
  readonly #desired: IptablesDesired;
  readonly #settings: KernelSettings;
  readonly #counted: readonly CountedRule[];
  #rendered = 0;

  constructor({ tools, probe, own, keepsCounts, sysctls, settings }: IptablesFamilyOptions) {
    const { family, localhostNodePorts } = settings;
    super(
      new FamilyRules({
        tools,
        probe,
        own,
        keepsCounts,
        isOurs,
        // The kubelet's chain is read only if we need it.
        shared: new Set(localhostNodePorts ? [chainKey('filter', FIREWALL)] : []),
        jumps: [...JUMPS, ...(localhostNodePorts ? FIREWALL_JUMPS : [])],
      }),
    );
    this.#counted = countedIn(settings);
    this.#desired = new IptablesDesired(settings);
    this.#settings = new KernelSettings({
      sysctls,
      family,
      wanted: new Map(localhostNodePorts ? [[ROUTE_LOCALNET, '1']] : []),
      hint: 'to do without it, set --iptables-localhost-nodeports=false',
    });
    this.inspection = rulesInspection(this.tables, this.#settings);
  }

  override get rendered(): number {
    return this.#rendered;
  }

  override get compared(): number {
    return super.compared + this.#settings.compared;
  }

  override desire(changes: PortChanges): void {
    this.#desireAll(this.#desired.update(changes));
  }

  settle(): void {
    this.#desireAll(this.#desired.shared());
  }

  override async observe(signal: AbortSignal): Promise<SeenFamily> {
    // Read before the rules: if this fails, the rules stay unknown, and no plan is made for an unread family.
    await this.#settings.observe();
    return await super.observe(signal);
  }

  override plan(setAside: SetAside): FamilyPlan {
    const [tables, settings] = [this.tables.plan(setAside), this.#settings.plan()];
    return {
      steps: [...tables.steps, ...settings.steps],
      apply: (signal) => this.#apply(tables, settings, signal),
    };
  }

  async packetCounts(signal: AbortSignal): Promise<readonly PacketCount[]> {
    return await readCounts(this.#counted, this.tables.options, signal);
  }

  async limitCounts(
    ports: readonly LimitedPort[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<LimitedPort, readonly number[]>> {
    const { applied } = this.tables.trackers.chains;
    const chains = new Map(ports.map((port) => [serviceChains(port.id, port.protocol)('LIM'), port]));
    const written = [...chains].filter(([chain]) => applied?.has(chainKey('nat', chain)) === true);
    if (written.length === 0) return new Map();
    const { tools, probe } = this.tables.options;
    const counts = new Map<LimitedPort, readonly number[]>();
    for (const [chain, port] of written) {
      const counters = await probe?.kernelCounters?.({ table: 'nat', chain }, signal);
      // The legacy variant cannot read one chain: one process reads all.
      if (counters === undefined) {
        const all = await savedCounters(tools, signal);
        return new Map(written.map(([name, of]) => [of, all.get(name) ?? []]));
      }
      counts.set(port, counters);
      if (counts.size % CHAINS_AT_ONCE === 0) await breath();
    }
    return counts;
  }

  async #apply(tables: TablesPlan, settings: SettingsPlan, signal: AbortSignal): Promise<FamilyReport> {
    const report = await this.tables.apply(tables, signal);
    const written = { ...report, skipped: [...report.skipped, ...tables.waiting] };
    // route_localnet opens a door (CVE-2020-8558). Its guard must be installed first, so the setting comes last.
    if (written.outcome !== 'complete' || settings.writes.length === 0) return written;
    return mergeReports([written, await this.#settings.apply(settings)]);
  }

  #desireAll(chains: ChainChanges): void {
    for (const [key, chain] of chains) this.tables.desire(key, chain);
    this.#rendered += chains.size;
  }
}

/** The counters of rules whose packets are reported: from the probe, or from the tools where it has no answer. Throws when neither has one. */
export async function readCounts(
  rules: readonly CountedRule[],
  { tools, probe }: { readonly tools: IptablesTools; readonly probe?: ChainProbe | undefined },
  signal: AbortSignal,
): Promise<PacketCount[]> {
  const counts: PacketCount[] = [];
  for (const { what, table, chain, index, of } of rules) {
    const query = { table, chain, wait: 1 };
    const counters = await (probe?.counters?.(query, signal) ?? tools.counters(query, signal));
    const packets = counters.length === of ? counters[index] : undefined;
    if (packets !== undefined) counts.push({ what, family: tools.family, packets });
  }
  return counts;
}
