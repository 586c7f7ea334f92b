/** `slicewire cleanup`: removes the rules of slicewire and kube-proxy in every mode, and nothing else. */

import { openTools } from '../agent/agent.ts';
import {
  hasIpvsTraces,
  ipvsPredecessor,
  PROXY_TABLES,
  type Predecessor,
  rulesPredecessor,
  tablesPredecessor,
} from '../agent/predecessors.ts';
import type { Config } from '../config/config.ts';
import { hasServiceDevice } from '../host/devices.ts';
import { IpvsUnusable } from '../host/ipvs-kernel.ts';
import { removeLeftTraces } from '../host/trace-table.ts';
import { CleanupIncomplete } from '../modes/mode.ts';

export interface CleanupOptions {
  readonly config: Config;
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

/** Resolves with the exit status 0. Throws CleanupIncomplete when something could not be removed, after the rest was. */
export async function cleanupCommand({ config, signal, print }: CleanupOptions): Promise<number> {
  const { tools, problems: unusable } = await openTools(config, signal);
  const input = { config, members: tools.map((tool) => ({ tools: tool })), node: () => undefined, signal };
  const clean = async (leaving: Predecessor | undefined) =>
    leaving === undefined ? [] : await leaving.mode.cleanup(signal).finally(() => leaving.close());
  const ofIpvs = async () => ((await hasIpvsTraces()) ? await clean(await ipvsPredecessor(input)) : []);
  const ofRules = async () => await clean(rulesPredecessor(input));
  const ofNftables = async () => await clean(tablesPredecessor(Object.values(PROXY_TABLES)));
  const removed: string[] = [];
  // Rules stay where their tools do not work on this node; all others go.
  const problems: string[] = [...unusable];
  // A failure in one mode must not keep the rules of the others.
  for (const part of [ofIpvs, ofRules, removeLeftTraces, ofNftables]) {
    try {
      removed.push(...(await part()));
    } catch (error) {
      if (signal.aborted) throw error;
      const isNothing = error instanceof IpvsUnusable && !(await hasServiceDevice());
      if (!isNothing) problems.push((error as Error).message);
    }
  }
  for (const line of removed) print(`- ${line}`);
  if (problems.length > 0) throw new CleanupIncomplete(problems.join('; '));
  print(
    removed.length === 0
      ? 'nothing to remove'
      : `${removed.length} ${removed.length === 1 ? 'object' : 'objects'} removed`,
  );
  return 0;
}
