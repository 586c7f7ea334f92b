/**
 * The families that a mode can serve on this node. A tool of iptables may fail for a moment only, where memory is short or a module is
 * still to be loaded: a family is tried again while the agent runs.
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
  /** The iptables tools that work on this node. */
  readonly tools: readonly IptablesTools[];
  /** Those of other families of this node. */
  readonly broken: readonly BrokenTools[];
}

/** Tools of iptables that do not work. */
export interface BrokenTools {
  readonly tools: IptablesTools;
  readonly problem: string;
  /** They are not installed. */
  readonly isMissing: boolean;
}

/** What the agent does not do because tools do not work. */
export interface Unserved {
  /** For the log. */
  readonly text: string;
  /** Whether health has a note of it. */
  readonly isNoted: boolean;
  /** The family that is not served, or by rules of a former proxy too; undefined: all are. */
  readonly family?: Family;
}

/** A chain that every kernel has whose nat table can be used. */
const ALWAYS_THERE = { table: 'nat', chain: 'POSTROUTING', wait: 1 } as const;

/** The chain of all proxies whose rules are of iptables, kube-proxy's too. */
const OF_PROXIES: readonly ChainQuery[] = [{ table: 'nat', chain: 'KUBE-SERVICES' }];

/** The families that the mode can serve, with tools that were tried. Throws CannotRun when there is none, and FactUnknown. */
export async function usableFamilies(config: Config, signal: AbortSignal, platform: Platform): Promise<Usable> {
  const { families, tools, broken } = await openTools(config, signal, platform);
  // This mode uses no iptables, but takes over from proxies that did.
  if (MODES[config.mode].rulesBy === 'nftables') return { families, tools, broken };
  if (tools.length > 0) return { families: tools.map(({ family }) => family), tools, broken };
  const problems = broken.map(({ problem }) => problem).join('; ');
  throw new CannotRun(`iptables does not work on this node: ${problems}`);
}

/**
 * A node that runs nftables mode without iptables is in order: health has no note of that. But rules of a former proxy that stand still
 * choose endpoints, and older ones: their family counts as not served. The legacy variant does not tell whose rules it has.
 */
export async function unservedOf(
  broken: readonly BrokenTools[],
  mode: Config['mode'],
  { kernel }: Pick<Platform, 'kernel'>,
): Promise<readonly Unserved[]> {
  return await Promise.all(
    broken.map(async ({ problem, isMissing, tools: { family } }): Promise<Unserved> => {
      if (MODES[mode].rulesBy === 'iptables')
        return { text: `one family is not served: ${problem}`, isNoted: true, family };
      const text = `iptables rules of a former proxy can be neither read nor removed: ${problem}`;
      const stands = await mayHoldChains(kernel.openRules, family, OF_PROXIES);
      return { text, isNoted: !isMissing, ...(stands ? { family } : {}) };
    }),
  );
}

/** The families of this node, the iptables tools that work, and others. Throws CannotRun without NET_ADMIN, and FactUnknown. */
export async function openTools(
  { iptablesBackend }: Config,
  signal: AbortSignal,
  { machine, commands, kernel }: Platform = realPlatform,
): Promise<Usable> {
  if (!(await machine.mayChangeNetwork())) {
    throw new CannotRun('slicewire needs the capability NET_ADMIN to read and write rules: run it as root');
  }
  const families = await machine.families();
  const ofKubelet = OF_KUBELET.map((chain) => ({ table: 'mangle', chain }));
  const mayUse = { nft: () => mayHoldChains(kernel.openRules, 'IPv4', ofKubelet), legacy: machine.hasLegacyTables };
  const found = iptablesBackend === 'auto' ? await backendOfKubelet(commands, mayUse, signal) : undefined;
  const tried = await Promise.all(
    families.map(async (family) => {
      const tools = new IptablesTools(commands, family, found ?? iptablesBackend);
      return { tools, problem: await problemOf(tools, signal) };
    }),
  );
  return {
    families,
    tools: tried.filter(({ problem }) => problem === undefined).map(({ tools }) => tools),
    broken: tried.flatMap(({ tools, problem }) => (problem === undefined ? [] : [{ tools, ...problem }])),
  };
}

/** Whether the kernel has one of these chains in the nft variant, or does not say. Starts no process. */
async function mayHoldChains(open: OpenRules, family: Family, chains: readonly ChainQuery[]): Promise<boolean> {
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

/** undefined: the tools can be used. */
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
    // A held lock will be free again: the sync waits for it, and names its holder.
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

/** The same as at the start, beginning with what fails where a kernel lacks the nat table of the family. */
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
