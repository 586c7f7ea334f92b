/** `slicewire fleet`: follows the agents of all nodes, and answers whether an endpoint is drained. */
import { componentInfo } from '../agent/component-info.ts';
import { readPageFile } from '../agent/page-files.ts';
import type { Flags } from '../config/flags.ts';
import { FLEET_FLAGS, fleetConfig } from '../config/fleet-config.ts';
import { runFleet } from '../fleet/fleet-process.ts';
import { growSparingly } from '../kernel/memory.ts';
import type { Hangups } from '../kernel/process.ts';
import { createLog } from '../telemetry/log.ts';

/** Resolves with the exit status after the signal aborted and the questions that wait ended. */
export async function fleetCommand(flags: Flags, signal: AbortSignal, hangups: Hangups): Promise<number> {
  const config = fleetConfig(flags);
  growSparingly();
  const log = await createLog(config.log);
  hangups.listen(() => log.info('SIGHUP: nothing to reload: the fleet has no configuration file'));
  await runFleet(config, log, signal, { component: componentInfo(flags, FLEET_FLAGS), readPage: readPageFile });
  return 0;
}
