/** The settings of conntrack, which are not a mode's: what `run` and `run --init-only` write, and `plan` shows. */
import { cpus } from 'node:os';
import type { Config } from '../config/config.ts';
import {
  type BarredWrite,
  barredText,
  type ConntrackWrite,
  conntrackWrites,
  sortWrites,
} from '../host/conntrack-settings.ts';
import { realSysctls, writeSettings } from '../host/sysctls.ts';
import { settingKey, settingStep } from '../reconcile/setting.ts';
import type { Step, StepName } from '../reconcile/step.ts';
import type { Log } from '../telemetry/log.ts';

/** What `tuneConntrack` would write now, as steps; and what it could not. */
export async function conntrackSteps(
  config: Config,
): Promise<{ readonly steps: readonly Step[]; readonly barred: readonly BarredWrite[] }> {
  const { possible, barred } = await sortWrites(await pending(config));
  return { steps: possible.map((write) => settingStep(nameOf(write), write)), barred };
}

/**
 * Write them; returns how many could not be written. Services work without: where kube-proxy ends, in a container that may
 * not write them, the agent says so and goes on (k8s#141943).
 */
export async function tuneConntrack(config: Config, log: Log, level: 'warn' | 'error' = 'warn'): Promise<number> {
  const { possible, barred } = await sortWrites(await pending(config));
  const failed = await writeSettings(possible, realSysctls);
  const stays = [...barred];
  for (const write of possible) {
    const { name, from, to } = write;
    const failure = failed.find((other) => other.name === name);
    if (failure !== undefined) stays.push({ ...write, cause: failure.cause });
    else log.info({ setting: name, from, to }, `${settingKey(name)} is ${to} now`);
  }
  for (const write of stays) log[level]({ setting: write.name, from: write.from, to: write.to }, barredText(write));
  return stays.length;
}

function pending({ conntrack }: Config): Promise<ConntrackWrite[]> {
  return conntrackWrites(conntrack, { cores: cpus().length, sysctls: realSysctls });
}

function nameOf({ name }: ConntrackWrite): StepName {
  return { key: settingKey(name), family: undefined, kind: 'setting' };
}
