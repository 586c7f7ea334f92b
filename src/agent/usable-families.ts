/**
 * Finds the families that a mode can serve on this node. A tool of iptables may fail for a moment only, while memory is short or a module is
 * not loaded yet, so a family is tried again while the agent runs.
 */

import type { Family } from '../base/address.ts';
import type { Config } from '../config/config.ts';
import type { OpenRules } from '../kernel/chain-probe.ts';
import { CommandNotStarted } from '../kernel/commands.ts';
import {
  backendOfKubelet,
  type ChainQuery,
  IptablesError,
  IptablesTools,
  OF_KUBELET,
} from '../kernel/iptables-tools.ts';
import { MODES } from '../proxy/model/modes.ts';
import { CannotRun } from './cannot-run.ts';
import type { ChangedFact } from './mode-settings.ts';
import { type Platform, realPlatform } from './platform.ts';

export interface Usable {
  /** Families that the mode can serve. */
  readonly families: readonly Family[];
  /** The iptables tools that work on this node, as far as they were tried. */
  readonly tools: readonly IptablesTools[];
  /** The iptables tools of other families, which do not work. */
  readonly broken: readonly BrokenTools[];
}

/** Tools of iptables that do not work. */
export interface BrokenTools {
  readonly tools: IptablesTools;
  readonly problem: string;
  /** True when they are not installed. */
  readonly isMissing: boolean;
}

/** Work that the agent cannot do because tools do not work. */
export interface Unserved {
  /** Text for the log. */
  readonly text: string;
  /** True when health shows a note of it. */
  readonly isNoted: boolean;
  /** The family that is not served, or that rules of a former proxy serve as well; undefined when all are in order. */
  readonly family?: Family;
}

/** A chain that every kernel has whose nat table can be used. */
const ALWAYS_THERE = { table: 'nat', chain: 'POSTROUTING', wait: 1 } as const;

/** The chain that all proxies with iptables rules have, kube-proxy included. */
const OF_PROXIES: readonly ChainQuery[] = [{ table: 'nat', chain: 'KUBE-SERVICES' }];

/**
 * The families that the mode can serve, with tools that were tried if something `needsTools`: that starts four processes. Throws CannotRun when
 * there is none, and FactUnknown.
 */
export async function usableFamilies(
  config: Config,
  { needsTools, signal, platform }: { needsTools: boolean; signal: AbortSignal; platform: Platform },
): Promise<Usable> {
  if (!needsTools) {
    const families = await familiesOf(platform);
    const untried = (family: Family) => new IptablesTools(platform.commands, family, config.iptablesBackend);
    return { families, tools: families.map((family) => untried(family).assume('nft')), broken: [] };
  }
  const { families, tools, broken } = await openTools(config, signal, platform);
  // nftables mode does not need the tools, except to remove rules of former proxies.
  if (MODES[config.mode].rulesBy === 'nftables') return { families, tools, broken };
  if (tools.length > 0) return { families: tools.map(({ family }) => family), tools, broken };
  const problems = broken.map(({ problem }) => problem).join('; ');
  throw new CannotRun(`iptables does not work on this node: ${problems}`);
}

/**
 * The work that broken tools prevent. A node that runs nftables mode without iptables is in order, and health has no note. But leftover rules of
 * a former proxy still choose endpoints, and outdated ones, so their family counts as not served. In the legacy variant only its tools see
 * rules: where they are installed but fail, its tables may hold some.
 */
export async function unservedOf(
  broken: readonly BrokenTools[],
  mode: Config['mode'],
  { kernel, machine }: Pick<Platform, 'kernel' | 'machine'>,
): Promise<readonly Unserved[]> {
  const hasLegacyNat = (family: Family) =>
    machine.legacyTables(family).then(
      (tables) => tables.includes('nat'),
      () => true,
    );
  return await Promise.all(
    broken.map(async ({ problem, isMissing, tools: { family } }): Promise<Unserved> => {
      if (MODES[mode].rulesBy === 'iptables')
        return { text: `one family is not served: ${problem}`, isNoted: true, family };
      const text = `iptables rules of a former proxy can be neither read nor removed: ${problem}`;
      const hasRules =
        (await mayHoldChains(kernel.openRules, family, OF_PROXIES)) || (!isMissing && (await hasLegacyNat(family)));
      return { text, isNoted: !isMissing, ...(hasRules ? { family } : {}) };
    }),
  );
}

/** The families of this node. Throws CannotRun without NET_ADMIN, and FactUnknown. */
async function familiesOf({ machine }: Platform): Promise<readonly Family[]> {
  if (!(await machine.mayChangeNetwork())) {
    throw new CannotRun('slicewire needs the capability NET_ADMIN to read and write rules: run it as root');
  }
  return await machine.families();
}

/** The families of this node, with the iptables tools that work and those that do not. Throws CannotRun without NET_ADMIN, and FactUnknown. */
export async function openTools(
  { iptablesBackend }: Config,
  signal: AbortSignal,
  platform: Platform = realPlatform,
): Promise<Usable> {
  const families = await familiesOf(platform);
  const { machine, commands, kernel } = platform;
  const ofKubelet = OF_KUBELET.map((chain) => ({ table: 'mangle', chain }));
  const mayUse = {
    nft: () => mayHoldChains(kernel.openRules, 'IPv4', ofKubelet),
    legacy: async () => (await machine.legacyTables('IPv4')).includes('mangle'),
  };
  const found = iptablesBackend === 'auto' ? await backendOfKubelet(commands, mayUse, signal) : undefined;
  // One after another: the start of two processes at once would hold the event loop for twice as long.
  const tried = await Array.fromAsync(families, async (family) => {
    const tools = new IptablesTools(commands, family, found ?? iptablesBackend);
    return { tools, problem: await problemOf(tools, signal) };
  });
  return {
    families,
    tools: tried.filter(({ problem }) => problem === undefined).map(({ tools }) => tools),
    broken: tried.flatMap(({ tools, problem }) => (problem === undefined ? [] : [{ tools, ...problem }])),
  };
}

/** True when the kernel has one of these chains in the nft variant, or gives no answer. Starts no process. */
export async function mayHoldChains(open: OpenRules, family: Family, chains: readonly ChainQuery[]): Promise<boolean> {
  try {
    const socket = await open('nft', family);
    try {
      const answers = chains.map((chain) => socket.chain(chain));
      return answers.some((answer) => answer.kind !== 'known' || answer.exists);
    } finally {
      socket.close();
    }
  } catch {
    return true;
  }
}

/** The problem of the tools; undefined when they work. */
async function problemOf(
  tools: IptablesTools,
  signal: AbortSignal,
): Promise<Pick<BrokenTools, 'problem' | 'isMissing'> | undefined> {
  try {
    await tools.version(signal);
    if (await tools.hasChain(ALWAYS_THERE, signal)) return undefined;
    const problem = `${tools.family}: iptables cannot use the nat table (try: iptables -t nat -S POSTROUTING)`;
    return { problem, isMissing: false };
  } catch (error) {
    if (error instanceof CommandNotStarted) {
      const { message, isMissing } = error;
      return { problem: isMissing ? `${message}; install the package iptables` : message, isMissing };
    }
    if (!(error instanceof IptablesError)) throw error;
    // A held lock is no problem of the tools. The sync waits for it, and names its holder.
    return error.isRefusal ? { problem: error.message, isMissing: false } : undefined;
  }
}

/** Tools that were broken and work now. Starts one process for each family whose tools are still broken. */
export async function repairedTools(broken: readonly BrokenTools[], signal: AbortSignal): Promise<ChangedFact[]> {
  const repaired: ChangedFact[] = [];
  for (const { tools, problem } of broken)
    if (await work(tools, signal)) repaired.push({ family: tools.family, fact: 'tools', from: problem, to: 'usable' });
  return repaired;
}

/** The same test as at the start, but first the one that fails where a kernel lacks the nat table, because it costs one process. */
async function work(tools: IptablesTools, signal: AbortSignal): Promise<boolean> {
  try {
    if (!(await tools.hasChain(ALWAYS_THERE, signal))) return false;
    await tools.version(signal);
    return true;
  } catch (error) {
    if (error instanceof CommandNotStarted || error instanceof IptablesError) return false;
    throw error;
  }
}
