/** Removes the rules of slicewire and kube-proxy in every mode, and nothing else. */
import type { Config } from '../config/config.ts';
import { IpvsUnusable } from '../kernel/ipvs-kernel.ts';
import type { Platform } from './platform.ts';
import {
  hasIpvsTraces,
  ipvsPredecessor,
  PROXY_TABLES,
  type Predecessor,
  rulesPredecessor,
  tablesPredecessor,
} from './predecessors.ts';
import { openTools } from './usable-families.ts';

export interface Removal {
  /** A line for each object that was removed. */
  readonly removed: readonly string[];
  /** Why others could not be removed. */
  readonly problems: readonly string[];
}

/** Throws CannotRun, and the signal's reason. */
export async function removeAll(config: Config, signal: AbortSignal, platform: Platform): Promise<Removal> {
  const { machine, kernel } = platform;
  const { tools, broken } = await openTools(config, signal, platform);
  const input = { config, members: tools.map((tool) => ({ tools: tool })), node: () => undefined, signal, platform };
  const clean = async (leaving: Predecessor | undefined) =>
    leaving === undefined ? [] : await leaving.mode.cleanup(signal).finally(() => leaving.close());
  const ofIpvs = async () => ((await hasIpvsTraces(machine)) ? await clean(await ipvsPredecessor(input)) : []);
  const ofRules = async () => await clean(rulesPredecessor(input));
  const ofNftables = async () => await clean(tablesPredecessor(Object.values(PROXY_TABLES), platform));
  const removed: string[] = [];
  // Rules stay where their tools do not work on this node; all others go.
  const problems = broken.map(({ problem }) => problem);
  // It is about the tables that go: no object by itself.
  const ofRecord = async () => {
    kernel.record.remove();
    return [];
  };
  // A failure in one mode must not keep the rules of the others.
  for (const part of [ofIpvs, ofRules, kernel.removeLeftTraces, ofNftables, ofRecord]) {
    try {
      removed.push(...(await part()));
    } catch (error) {
      if (signal.aborted) throw error;
      const isNothing = error instanceof IpvsUnusable && !(await machine.hasServiceDevice());
      if (!isNothing) problems.push((error as Error).message);
    }
  }
  return { removed, problems };
}
