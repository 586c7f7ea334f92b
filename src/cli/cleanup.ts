/** `slicewire cleanup`: remove all that is ours, of every mode, and nothing else. */
import type { Config } from '../config/config.ts';
import { hasServiceDevice } from '../host/devices.ts';
import { IpvsUnusable } from '../host/ipvs-kernel.ts';
import { realSysctls } from '../host/sysctls.ts';
import { type IptablesFamilies, iptablesMode } from '../modes/iptables/index.ts';
import { CleanupIncomplete } from '../modes/mode.ts';
import { usableFamilies } from './agent.ts';
import { hasIpvsTraces, leavingIpvs } from './modes.ts';
import { settingsHere } from './settings.ts';

export interface CleanupOptions {
  readonly config: Config;
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

/** Exit status 0; what cannot be removed is an error. */
export async function cleanupCommand({ config, signal, print }: CleanupOptions): Promise<number> {
  const tools = await usableFamilies(config, signal);
  const families: IptablesFamilies[number][] = [];
  for (const tool of tools) {
    const settings = await settingsHere({ config, node: undefined, family: tool.family });
    families.push({ settings, tools: tool, sysctls: realSysctls });
  }
  const ofIpvs = async () => {
    if (!(await hasIpvsTraces())) return [];
    const { mode, close } = await leavingIpvs({
      config,
      members: tools.map((tool) => ({ tools: tool })),
      node: () => undefined,
      signal,
    });
    return await mode.cleanup(signal).finally(close);
  };
  const removed: string[] = [];
  const problems: string[] = [];
  // One mode's trouble must not keep the other's rules.
  for (const part of [ofIpvs, () => iptablesMode(families).cleanup(signal)]) {
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
  print(removed.length === 0 ? 'nothing of ours was there' : `${removed.length} removed`);
  return 0;
}
