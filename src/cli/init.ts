/** `slicewire run --init-only`: writes the kernel settings that need more than NET_ADMIN. Afterwards the agent can run with NET_ADMIN alone. */
import { release } from 'node:os';
import { tuneConntrack } from '../agent/conntrack-tuning.ts';
import { ipvsKernelSettings, readSettings } from '../agent/mode-settings.ts';
import { realPlatform } from '../agent/platform.ts';
import type { Config } from '../config/config.ts';
import { realCommands } from '../kernel/commands.ts';
import { openIpvsKernel } from '../kernel/ipvs-open.ts';
import type { SettingWrite } from '../kernel/sysctls.ts';
import { realSysctls, writeSettings } from '../kernel/sysctls.ts';
import { ROUTE_LOCALNET } from '../proxy/modes/iptables/static-chains.ts';
import type { Log } from '../telemetry/log.ts';

export interface InitOptions {
  readonly config: Config;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Exit status 0, or 1 when a setting could not be written. */
export async function initCommand({ config, log, signal }: InitOptions): Promise<number> {
  const wanted = await settingsOfMode(config, signal);
  const writes: SettingWrite[] = [];
  for (const [name, to] of wanted) {
    const from = await realSysctls.read(name);
    if (from !== to) writes.push({ name, from, to });
  }
  const problems = await writeSettings(writes, realSysctls);
  for (const { name, to } of writes) {
    const problem = problems.find((one) => one.name === name);
    if (problem === undefined) log.info(`set ${name} to ${to}`);
    else log.error(`cannot write ${to} to /proc/sys/${name}: ${problem.cause}`);
  }
  const failed = problems.length + (await tuneConntrack(config, log, { level: 'error' }));
  if (failed > 0) return 1;
  log.info('all kernel settings are written');
  return 0;
}

/** The settings of the mode, by name. */
async function settingsOfMode(config: Config, signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
  switch (config.mode) {
    case 'ipvs':
      // The settings exist once the module is loaded.
      await openIpvsKernel(realCommands, signal);
      return ipvsKernelSettings(config.ipvs, release());
    case 'nftables':
      return new Map();
    case 'iptables': {
      const settings = await readSettings({ config, node: undefined, family: 'IPv4', platform: realPlatform });
      return new Map(settings.localhostNodePorts ? [[ROUTE_LOCALNET, '1']] : []);
    }
  }
}
