/** `slicewire run --init-only`: the kernel settings, which a container with NET_ADMIN alone cannot write. Afterwards it can run with no more than that. */
import type { Config } from '../config/config.ts';
import { realSysctls } from '../host/sysctls.ts';
import { ROUTE_LOCALNET } from '../modes/iptables/index.ts';
import type { Log } from '../telemetry/log.ts';
import { settingsHere } from './settings.ts';
import { tuneConntrack } from './tune.ts';

/** Exit status 0, or 1 when a setting of conntrack could not be written; for others that is an error. */
export async function initCommand({ config, log }: { config: Config; log: Log }): Promise<number> {
  const settings = await settingsHere({ config, node: undefined, family: 'IPv4' });
  if (settings.localhostNodePorts && (await realSysctls.read(ROUTE_LOCALNET)) !== '1') {
    await realSysctls.write(ROUTE_LOCALNET, '1');
    log.info(`${ROUTE_LOCALNET} is 1 now`);
  }
  const failed = await tuneConntrack(config, log);
  if (failed > 0) return 1;
  log.info('the kernel settings are right');
  return 0;
}
