/**
 * The address families that this node can serve, and the iptables tools that work.
 *
 * What is found here holds as long as the process: a family that is left out is not served, and rules of a former proxy that cannot be
 * read stay. So a failure that may pass, such as a lack of memory or a module that is being loaded, is tried again before it counts.
 */
import type { Config } from '../config/config.ts';
import { type Clock, realClock, sleep } from '../host/clock.ts';
import { CommandNotStarted } from '../host/commands.ts';
import { backendOfKubelet, IptablesError, IptablesTools } from '../host/iptables-tools.ts';
import type { Family } from '../model/address.ts';
import { CannotRun } from './cannot-run.ts';
import { type Outside, realOutside } from './outside.ts';

export interface Usable {
  /** Families that the mode can serve. */
  readonly families: readonly Family[];
  /** The iptables tools that work on this node. */
  readonly tools: readonly IptablesTools[];
}

/** Milliseconds before each further attempt. */
const PAUSES = [200, 1000];

/** The families that the mode can serve, with tools that were tried. `onProblem` gets why others cannot be served. Throws CannotRun when none can. */
export async function usableFamilies(
  config: Config,
  signal: AbortSignal,
  { outside, onProblem }: { readonly outside: Outside; readonly onProblem: (text: string) => void },
): Promise<Usable> {
  const { families, tools, problems } = await openTools(config, signal, outside);
  if (config.mode === 'nftables') {
    // This mode uses no iptables, but takes over from proxies that did.
    for (const problem of problems)
      onProblem(`iptables rules of a former proxy can be neither read nor removed: ${problem}`);
    return { families, tools };
  }
  if (tools.length === 0) throw new CannotRun(`iptables does not work on this node: ${problems.join('; ')}`);
  for (const problem of problems) onProblem(`one family is not served: ${problem}`);
  return { families: tools.map(({ family }) => family), tools };
}

/** The families of this node, the iptables tools that work, and why others do not. Throws CannotRun without NET_ADMIN. */
export async function openTools(
  { iptablesBackend }: Pick<Config, 'iptablesBackend'>,
  signal: AbortSignal,
  { machine, commands }: Pick<Outside, 'machine' | 'commands'> = realOutside,
  clock: Clock = realClock,
): Promise<Usable & { readonly problems: readonly string[] }> {
  const retries = { clock, signal };
  if (!(await retried(machine.mayChangeNetwork, retries))) {
    throw new CannotRun('slicewire needs the capability NET_ADMIN to read and write rules: run it as root');
  }
  const families = await retried(machine.families, retries);
  const ofKubelet = () => backendOfKubelet(commands, machine.hasLegacyTables, signal);
  const found = iptablesBackend === 'auto' ? await retried(ofKubelet, retries) : undefined;
  const usable: IptablesTools[] = [];
  const problems: string[] = [];
  for (const family of families) {
    const tools = new IptablesTools(commands, family, found ?? iptablesBackend);
    try {
      await retried(() => tryTools(tools, signal), retries);
      usable.push(tools);
    } catch (error) {
      if (error instanceof CommandNotStarted)
        problems.push(error.isMissing ? `${error.message}; install the package iptables` : error.message);
      else if (error instanceof IptablesError && !error.isRefusal) usable.push(tools);
      else if (error instanceof IptablesError) problems.push(error.message);
      else throw error;
    }
  }
  return { families, tools: usable, problems };
}

/** Throws IptablesError and CommandNotStarted when the tools do not work. */
async function tryTools(tools: IptablesTools, signal: AbortSignal): Promise<void> {
  await tools.version(signal);
  try {
    if (await tools.hasChain({ table: 'nat', chain: 'POSTROUTING', wait: 1 }, signal)) return;
  } catch (error) {
    // A held lock will be free again: the sync waits for it, and names its holder.
    if (error instanceof IptablesError && !error.isRefusal) return;
    throw error;
  }
  const text = `${tools.family}: iptables cannot use the nat table (try: iptables -t nat -S POSTROUTING)`;
  throw new IptablesError(text, { isRefusal: true });
}

/** Tries again after a failure, unless it is a program that is not there. Throws the error of the last attempt, and the signal's reason. */
async function retried<T>(
  attempt: () => Promise<T>,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<T> {
  for (const pause of PAUSES) {
    try {
      return await attempt();
    } catch (error) {
      if (signal.aborted || (error instanceof CommandNotStarted && error.isMissing)) throw error;
      await sleep(clock, pause, signal);
    }
  }
  return await attempt();
}
