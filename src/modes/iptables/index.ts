/** iptables mode: one set of chains per family, written by one restore each. */
import type { IptablesTools } from '../../host/iptables-tools.ts';
import type { Sysctls } from '../../host/sysctls.ts';
import type { Family } from '../../model/address.ts';
import type { ServicePort, ServicePortKey } from '../../model/service-port.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import type { Observed } from '../../reconcile/observed.ts';
import { type ApplyReport, type FailedStep, mergeReports, type Plan } from '../../reconcile/step.ts';
import { Tracker } from '../../reconcile/tracker.ts';
import { type Mode, NOBODY, type ObserveReport, type SetAside } from '../mode.ts';
import { type Chain, sameChain } from '../netfilter/rules.ts';
import { applyFamily, applySysctls } from './apply.ts';
import { cleanupFamily } from './cleanup.ts';
import { IptablesDesired } from './desire.ts';
import { FIREWALL_JUMPS, JUMPS, type Jump, jumpKey } from './jumps.ts';
import { CANARY, type ChainKey } from './names.ts';
import { observeFamily } from './observe.ts';
import { type FamilyPlan, type FamilyTrackers, planFamily, stepKey } from './plan.ts';
import type { IptablesSettings } from './settings.ts';

interface FamilyState extends FamilyTrackers {
  readonly desired: IptablesDesired;
  readonly tools: IptablesTools;
  readonly kernelSettings: Sysctls;
  readonly settings: IptablesSettings;
  /** Why the last read failed, if it did. */
  unread: string | undefined;
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
  readonly sysctls: Sysctls;
}[];

export function iptablesMode(families: IptablesFamilies): Mode<IptablesPlan> {
  return new IptablesMode(families.map(newFamily));
}

function newFamily({ settings, tools, sysctls: kernelSettings }: IptablesFamilies[number]): FamilyState {
  const sysctls = new Tracker<string, string>((a, b) => a === b);
  if (settings.localhostNodePorts) sysctls.desire(ROUTE_LOCALNET, '1');
  const jumps = new Tracker<string, Jump>((a, b) => a.text === b.text);
  for (const entry of [...JUMPS, ...(settings.localhostNodePorts ? FIREWALL_JUMPS : [])]) {
    jumps.desire(jumpKey(entry), entry);
  }
  const chains = new Tracker<ChainKey, Chain>(sameChain);
  const desired = new IptablesDesired(settings);
  return {
    family: settings.family,
    settings,
    tools,
    kernelSettings,
    desired,
    chains,
    jumps,
    sysctls,
    unread: undefined,
  };
}

class IptablesMode implements Mode<IptablesPlan> {
  readonly name = 'iptables';
  readonly #families: readonly FamilyState[];

  constructor(families: readonly FamilyState[]) {
    this.#families = families;
  }

  get isObserved(): boolean {
    return this.#families.every((family) => family.chains.applied !== undefined);
  }

  desire(changes: ReadonlyMap<ServicePortKey, ServicePort | undefined>): void {
    for (const { family, desired, chains } of this.#families) {
      const mine = [...changes].filter(([key]) => keyFamily(key) === family);
      for (const [key, chain] of desired.update(mine)) chains.desire(key, chain);
    }
  }

  async observe(signal: AbortSignal): Promise<Observed<ObserveReport>> {
    let objects = 0;
    const drift: string[] = [];
    const udpFrontends: UdpFrontend[] = [];
    for (const state of this.#families) {
      state.unread = undefined;
      try {
        const seen = await observeFamily(state.tools, state.settings.localhostNodePorts, signal);
        drift.push(...driftOf(state, seen.chains));
        state.chains.observe(seen.chains);
        // Only jumps that we want are looked for, so that those of the kubelet are left alone.
        state.jumps.observe(new Map([...seen.jumps].filter(([key]) => state.jumps.desired.has(key))));
        state.sysctls.observe(await readSysctls(state));
        objects += seen.chains.size;
        udpFrontends.push(...seen.udpFrontends);
      } catch (error) {
        if (signal.aborted) throw error;
        state.chains.forget();
        state.unread = error instanceof Error ? error.message : String(error);
      }
    }
    const causes = this.#families.map((state) => state.unread).filter((cause) => cause !== undefined);
    if (causes.length === this.#families.length) return { kind: 'unknown', cause: causes.join('; ') };
    return { kind: 'known', value: { objects, drift, unread: causes, udpFrontends } };
  }

  plan(setAside: SetAside = NOBODY): IptablesPlan {
    const read = this.#families.filter((state) => state.chains.applied !== undefined);
    const families = read.map((state) => planFamily(state, setAside));
    return { steps: families.flatMap((plan) => plan.steps), families };
  }

  async apply(plan: IptablesPlan, signal: AbortSignal): Promise<ApplyReport> {
    const reports: ApplyReport[] = [];
    for (const state of this.#families) {
      const part = plan.families.find((candidate) => candidate.family === state.family);
      if (part === undefined) {
        reports.push(unreadFamily(state));
        continue;
      }
      const written = await applyFamily(part, state, state.tools, signal);
      reports.push(written);
      // route_localnet opens a door (CVE-2020-8558): its guard must stand first, and so the setting comes last.
      if (written.outcome === 'complete' && part.sysctls.size > 0) {
        reports.push(await applySysctls(part, state, state.kernelSettings));
      }
    }
    return mergeReports(reports);
  }

  async probe(signal: AbortSignal): Promise<boolean> {
    for (const { tools } of this.#families) {
      for (const table of ['mangle', 'nat', 'filter']) {
        if (!(await tools.hasChain({ table, chain: CANARY }, signal))) return false;
      }
    }
    return true;
  }

  async cleanup(signal: AbortSignal): Promise<readonly string[]> {
    const removed: string[] = [];
    const problems: string[] = [];
    for (const { family, tools } of this.#families) {
      try {
        removed.push(...(await cleanupFamily(tools, signal)));
      } catch (error) {
        if (signal.aborted) throw error;
        problems.push(`${family}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    if (problems.length > 0) throw new CleanupIncomplete(`not all could be removed: ${problems.join('; ')}`);
    return removed;
  }
}

/** Part of the rules could not be removed; the rest was. */
export class CleanupIncomplete extends Error {
  readonly code = 'CLEANUP_INCOMPLETE';
}

function unreadFamily({ family, unread }: FamilyState): ApplyReport {
  const cause = unread ?? 'not read yet';
  const failed: FailedStep = { key: `${family} read`, owner: undefined, line: undefined, blame: 'environment', cause };
  return { outcome: 'failed', applied: 0, failed: [failed], skipped: [] };
}

async function readSysctls({ sysctls, kernelSettings }: FamilyState): Promise<Map<string, string>> {
  const read = new Map<string, string>();
  for (const name of sysctls.desired.keys()) {
    const value = await kernelSettings.read(name);
    if (value !== undefined) read.set(name, value);
  }
  return read;
}

/** Chains whose rules are not those that were believed to be in the kernel. */
function driftOf(state: FamilyState, seen: ReadonlyMap<ChainKey, Chain>): string[] {
  const believed = state.chains.applied;
  if (believed === undefined) return [];
  const keys = new Set([...believed.keys(), ...seen.keys()]);
  return [...keys]
    .filter((key) => !sameChain(believed.get(key) ?? [], seen.get(key) ?? []) || believed.has(key) !== seen.has(key))
    .map((key) => stepKey(state.family, key));
}

function keyFamily(key: ServicePortKey): Family {
  return key.endsWith('/IPv6') ? 'IPv6' : 'IPv4';
}
