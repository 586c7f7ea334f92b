/** The settings of conntrack, which are not a mode's: what `run` and `run --init-only` write, and `plan` shows. */
import { cpus } from 'node:os';
import type { Config } from '../config/config.ts';
import { conntrackWrites } from '../host/conntrack-settings.ts';
import { realSysctls, writeSettings } from '../host/sysctls.ts';
import { type SettingWrite, settingKey, settingStep } from '../reconcile/setting.ts';
import type { Step } from '../reconcile/step.ts';
import type { Log } from '../telemetry/log.ts';

/** What `tuneConntrack` would write now, as steps. */
export async function conntrackSteps(config: Config): Promise<Step[]> {
  return (await pending(config)).map((write) => settingStep(settingKey(write.name), write));
}

/**
 * Write them; returns how many could not be written. Services work without: where kube-proxy ends, in a container that may
 * not write them, the agent says so and goes on (k8s#141943).
 */
export async function tuneConntrack(config: Config, log: Log): Promise<number> {
  const writes = await pending(config);
  const failed = await writeSettings(writes, realSysctls);
  for (const { name, from, to } of writes) {
    const failure = failed.find((other) => other.name === name);
    const what = settingKey(name);
    if (failure === undefined) log.info({ setting: name, from, to }, `${what} is ${to} now`);
    else {
      const hint = 'run --init-only with more privileges writes it; a value of 0 in the flags --conntrack-… leaves it';
      log.error({ setting: name, from, to }, `${what} stays ${from ?? 'absent'}, not ${to}: ${failure.cause}; ${hint}`);
    }
  }
  return failed.length;
}

function pending({ conntrack }: Config): Promise<SettingWrite[]> {
  return conntrackWrites(conntrack, { cores: cpus().length, sysctls: realSysctls });
}
