/** Writes the settings of conntrack for `run` and `run --init-only`, and shows them for `plan`. They are the same in every mode. */
import { causeOf } from '../base/cause.ts';
import type { Config } from '../config/config.ts';
import {
  type BarredWrite,
  barredText,
  CONNTRACK_COUNT,
  type ConntrackWrite,
  conntrackWrites,
  sortWrites,
} from '../kernel/conntrack-settings.ts';
import { settingKey, writeSettings } from '../kernel/sysctls.ts';
import { settingStep } from '../proxy/modes/kernel-settings.ts';
import type { Step, StepName } from '../proxy/reconcile/step.ts';
import type { Log } from '../telemetry/log.ts';
import { type Platform, realPlatform } from './platform.ts';

/** The writes of `tuneConntrack` as steps, and those that are impossible on this node. */
export async function conntrackSteps(
  config: Config,
  platform: Platform = realPlatform,
): Promise<{ readonly steps: readonly Step[]; readonly barred: readonly BarredWrite[] }> {
  const writes = await pending(config, platform);
  // Without conntrack there is none of its settings. `tuneConntrack` has it loaded first.
  if ((await platform.kernel.settings.read(CONNTRACK_COUNT)) === undefined)
    return { steps: writes.map((write) => settingStep(nameOf(write), write)), barred: [] };
  const { possible, barred } = await sortWrites(writes, platform.kernel.settings);
  return { steps: possible.map((write) => settingStep(nameOf(write), write)), barred };
}

/**
 * Write the settings; resolves with the number of those that could not be written. Services work without them: in a container that
 * may not write them, kube-proxy exits, and the agent logs it and goes on (k8s#141943).
 */
export async function tuneConntrack(
  config: Config,
  log: Log,
  { level = 'warn', platform = realPlatform }: { readonly level?: 'warn' | 'error'; readonly platform?: Platform } = {},
): Promise<number> {
  let writes = await pending(config, platform);
  if (writes.some(({ from }) => from === undefined)) {
    const cause = await loadConntrack(platform);
    if (cause !== undefined) log[level](`the kernel has not loaded conntrack, and does not when it is asked: ${cause}`);
    writes = await pending(config, platform);
  }
  const { possible, barred } = await sortWrites(writes, platform.kernel.settings);
  const failed = await writeSettings(possible, platform.kernel.settings);
  const stays = [...barred];
  for (const write of possible) {
    const { name, from, to } = write;
    const failure = failed.find((other) => other.name === name);
    if (failure !== undefined) stays.push({ ...write, cause: failure.cause });
    else log.info({ setting: name, from, to }, `set ${settingKey(name)} to ${to}`);
  }
  for (const write of stays) log[level]({ setting: write.name, from: write.from, to: write.to }, barredText(write));
  return stays.length;
}

/**
 * The settings come with the kernel's module of conntrack, which the first rules would load: too late, and without a second try. The kernel
 * loads it for a question about connections as well (nfnetlink.c, nfnetlink_rcv_msg). Resolves with the cause where that fails.
 */
async function loadConntrack({ kernel }: Platform): Promise<string | undefined> {
  try {
    const table = await kernel.openFlowTable();
    try {
      table.udpFlows('IPv4').next();
    } finally {
      table.close();
    }
    return undefined;
  } catch (error) {
    return causeOf(error);
  }
}

function pending({ conntrack }: Config, { machine, kernel }: Platform): Promise<ConntrackWrite[]> {
  return conntrackWrites(conntrack, { cores: machine.cores, sysctls: kernel.settings });
}

function nameOf({ name }: ConntrackWrite): StepName {
  return { key: settingKey(name), family: undefined, kind: 'setting' };
}
