/** `slicewire cleanup`: remove all that is ours, of every mode, and nothing else. */
import type { Config } from '../config/config.ts';
import { realSysctls } from '../host/sysctls.ts';
import { iptablesMode } from '../modes/iptables/index.ts';
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
  const families = [];
  for (const tool of tools) {
    const settings = await settingsHere({ config, node: undefined, family: tool.family });
    families.push({ settings, tools: tool, sysctls: realSysctls });
  }
  const removed: string[] = [];
  if (await hasIpvsTraces()) {
    removed.push(...(await (await leavingIpvs({ config, tools, node: undefined, signal })).cleanup(signal)));
  }
  removed.push(...(await iptablesMode(families).cleanup(signal)));
  for (const line of removed) print(`- ${line}`);
  print(removed.length === 0 ? 'nothing of ours was there' : `${removed.length} removed`);
  return 0;
}
