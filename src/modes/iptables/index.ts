/** iptables mode: one set of chains per family, written by `iptables-restore`. */

import type { ChainProbe } from '../../host/chain-probe.ts';
import type { IptablesTools } from '../../host/iptables-tools.ts';
import type { Sysctls } from '../../host/sysctls.ts';
import type { Family } from '../../model/address.ts';
import { causeOf } from '../../model/cause.ts';
import { familyOfPort, type ServicePort, type ServicePortKey } from '../../model/service-port.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { Observed } from '../../reconcile/observed.ts';
import { type ApplyReport, failedReport, mergeReports, type Plan } from '../../reconcile/step.ts';
import type { ModeWork } from '../../reconcile/work.ts';
import { cleanUp } from '../cleanup.ts';
import { KernelSettings, type SettingsPlan } from '../kernel-settings.ts';
import { type Mode, NOBODY, type ObserveReport, type PacketCount, type RuleCount, type SetAside } from '../mode.ts';
import { chainKey, FIREWALL, isOurs } from '../netfilter/names.ts';
import type { TablesPlan } from '../netfilter/plan.ts';
import { anyDiffers, OwnWrites } from '../netfilter/standing.ts';
import { FamilyTables } from '../netfilter/tables.ts';
import { udpFrontendsIn } from '../netfilter/udp-frontends.ts';
import { cleanupFamily } from './cleanup.ts';
import { type ChainChanges, IptablesDesired } from './desire.ts';
import { FIREWALL_JUMPS, JUMPS } from './jumps.ts';
import type { IptablesSettings } from './settings.ts';
import { type CountedRule, countedRules } from './static-chains.ts';

interface FamilyState {
  readonly family: Family;
  readonly tools: IptablesTools;
  /** undefined: nothing is wanted. */
  readonly desired: IptablesDesired | undefined;
  readonly tables: FamilyTables;
  readonly kernelSettings: KernelSettings;
  /** Rules whose packets are told. */
  readonly counted: readonly CountedRule[];
  readonly look: ChainProbe | undefined;
  /** Why the last read failed, if it did. */
  unread: string | undefined;
}

interface FamilyPlan {
  readonly family: Family;
  readonly tables: TablesPlan;
  /** After the rules, whose guard must stand first. */
  readonly settings: SettingsPlan;
}

export interface IptablesPlan extends Plan {
  readonly families: readonly FamilyPlan[];
}

/** Packets with a loopback address may be routed: what node ports on 127.0.0.1 need. */
export const ROUTE_LOCALNET = 'net/ipv4/conf/all/route_localnet';

/** One entry for each family that the node has. */
export type IptablesFamilies = readonly {
  readonly settings: IptablesSettings;
  readonly tools: IptablesTools;
  /** Who tells whether the canaries stand, instead of the tools, and whether anything was written since the last read. */
  readonly look?: ChainProbe | undefined;
  readonly sysctls: Sysctls;
}[];

export interface IptablesOptions {
  /** Another mode without such rules has taken over: none of them is wanted any more, ours or kube-proxy's. */
  readonly isPredecessor?: boolean;
}

export function iptablesMode(
  families: IptablesFamilies,
  { isPredecessor = false }: IptablesOptions = {},
): Mode<IptablesPlan> {
  const own = new OwnWrites();
  return new IptablesMode(
    families.map((family) => (isPredecessor ? predecessorFamily(family) : newFamily(family, own))),
  );
}

function predecessorFamily({ settings: { family }, tools, look, sysctls }: IptablesFamilies[number]): FamilyState {
  return {
    family,
    tools,
    desired: undefined,
    counted: [],
    look,
    tables: new FamilyTables({ tools, look, isOurs, jumps: [] }),
    kernelSettings: new KernelSettings({ sysctls, prefix: family, wanted: new Map(), hint: '' }),
    unread: undefined,
  };
}

function newFamily({ settings, tools, look, sysctls }: IptablesFamilies[number], own: OwnWrites): FamilyState {
  const { family, localhostNodePorts } = settings;
  return {
    family,
    tools,
    desired: new IptablesDesired(settings),
    counted: countedRules(settings),
    look,
    tables: new FamilyTables({
      tools,
      look,
      own,
      isOurs,
      // The kubelet's, unless we need it.
      shared: new Set(localhostNodePorts ? [chainKey('filter', FIREWALL)] : []),
      jumps: [...JUMPS, ...(localhostNodePorts ? FIREWALL_JUMPS : [])],
    }),
    kernelSettings: new KernelSettings({
      sysctls,
      prefix: family,
      wanted: new Map(localhostNodePorts ? [[ROUTE_LOCALNET, '1']] : []),
      hint: '--iptables-localhost-nodeports=false does without it',
    }),
    unread: undefined,
  };
}

class IptablesMode implements Mode<IptablesPlan> {
  readonly name = 'iptables';
  readonly readsApart = true;
  readonly #families: readonly FamilyState[];
  #rendered = 0;
  #steps = 0;

  constructor(families: readonly FamilyState[]) {
    this.#families = families;
  }

  get isObserved(): boolean {
    return this.#families.every(({ tables }) => tables.isKnown);
  }

  get isWaiting(): boolean {
    return false;
  }

  get work(): ModeWork {
    let compared = 0;
    for (const { tables, kernelSettings } of this.#families) compared += tables.compared + kernelSettings.compared;
    return { rendered: this.#rendered, compared, steps: this.#steps };
  }

  desire(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    for (const { family, desired, tables } of this.#families) {
      if (desired === undefined) continue;
      const mine = [...changes].filter(([key]) => familyOfPort(key) === family);
      this.#rendered += desireAll(tables, desired.update(mine));
    }
  }

  settle(): void {
    for (const { desired, tables } of this.#families) {
      if (desired !== undefined) this.#rendered += desireAll(tables, desired.shared());
    }
  }

  async observe(signal: AbortSignal): Promise<Observed<ObserveReport>> {
    const drift: string[] = [];
    const udpFrontends: UdpFrontend[] = [];
    for (const state of this.#families) {
      state.unread = undefined;
      try {
        // Before the rules: when it fails, those are not known, and nothing is planned of what was not read.
        await state.kernelSettings.observe();
        const seen = await state.tables.observe(signal);
        drift.push(...seen.drift);
        udpFrontends.push(...udpFrontendsIn(state.family, seen.chains));
      } catch (error) {
        if (signal.aborted) throw error;
        state.unread = causeOf(error);
      }
    }
    const causes = this.#families.map((state) => state.unread).filter((cause) => cause !== undefined);
    if (causes.length === this.#families.length) return { kind: 'unknown', cause: causes.join('; ') };
    const isBare = causes.length === 0 && this.#families.every(({ tables }) => tables.isEmpty);
    return { kind: 'known', value: { isBare, drift, unread: causes, udpFrontends } };
  }

  /** Rules change by nobody's hand but a program's. */
  refresh(): Promise<void> {
    return Promise.resolve();
  }

  plan(setAside: SetAside = NOBODY): IptablesPlan {
    this.settle();
    const families = this.#families
      .filter(({ tables }) => tables.isKnown)
      .map(({ family, tables, kernelSettings }): FamilyPlan => {
        return { family, tables: tables.plan(setAside), settings: kernelSettings.plan() };
      });
    const steps = families.flatMap(({ tables, settings }) => [...tables.steps, ...settings.steps]);
    this.#steps += steps.length;
    return { steps, families };
  }

  async apply(plan: IptablesPlan, signal: AbortSignal): Promise<ApplyReport> {
    const reports: ApplyReport[] = [];
    for (const state of this.#families) {
      const part = plan.families.find((candidate) => candidate.family === state.family);
      if (part === undefined) {
        reports.push(unreadFamily(state));
        continue;
      }
      const written = await state.tables.apply(part.tables, signal);
      reports.push(written);
      // route_localnet opens a door (CVE-2020-8558): its guard must stand first, and so the setting comes last.
      if (written.outcome === 'complete' && part.settings.writes.length > 0) {
        reports.push(await state.kernelSettings.apply(part.settings));
      }
    }
    return mergeReports(reports);
  }

  async probe(signal: AbortSignal): Promise<boolean> {
    for (const { tables } of this.#families) if (!(await tables.hasCanaries(signal))) return false;
    return true;
  }

  async mayDiffer(): Promise<boolean> {
    for (const { tables } of this.#families) if (await tables.mayDiffer()) return true;
    return false;
  }

  async differs(signal: AbortSignal): Promise<boolean | undefined> {
    return anyDiffers(await Promise.all(this.#families.map(({ tables }) => tables.differs(signal))));
  }

  ruleCounts(): readonly RuleCount[] {
    return this.#families.flatMap(({ tables }) => tables.ruleCounts());
  }

  async packetCounts(signal: AbortSignal): Promise<readonly PacketCount[]> {
    const counts: PacketCount[] = [];
    for (const { family, counted, look, tools } of this.#families) {
      for (const { what, table, chain, index, of } of counted) {
        const query = { table, chain, wait: 1 };
        const counters = await (look?.counters?.(query, signal) ?? tools.counters(query, signal));
        const packets = counters.length === of ? counters[index] : undefined;
        if (packets !== undefined) counts.push({ what, family, packets });
      }
    }
    return counts;
  }

  cleanup(signal: AbortSignal): Promise<readonly string[]> {
    const parts = this.#families.map(({ family, tools }) => ({
      name: family,
      remove: () => cleanupFamily(tools, signal),
    }));
    return cleanUp(parts, signal);
  }
}

/** Returns how many. */
function desireAll(tables: FamilyTables, chains: ChainChanges): number {
  for (const [key, chain] of chains) tables.desire(key, chain);
  return chains.size;
}

function unreadFamily({ family, unread }: FamilyState): ApplyReport {
  return failedReport(`${family} read`, unread ?? 'not read yet');
}
