/** What the configuration file of a simulated agent means, for checks. */
import type { Config } from '../../../src/config/config.ts';
import { flagsFromFile } from '../../../src/config/config-file.ts';
import { configsFromFlags } from '../../../src/config/from-flags.ts';
import type { HistoryPlan } from '../history/plan.ts';
import { CONFIG_FILE, flagsOf } from './config-text.ts';

/** `text`: JSON. `mode`: the one that the agent chooses where the file says auto. */
export function configOf(
  text: string,
  plan: Pick<HistoryPlan, 'source' | 'measures' | 'confirms' | 'records'>,
  mode: Config['mode'],
): Config {
  const values = [{ kind: 'value', value: JSON.parse(text) as unknown, line: 1, repeated: [] }] as const;
  const { flags, origins, given } = flagsFromFile({ values, problems: [] }, flagsOf(plan));
  const configs = configsFromFlags(flags, { origins, file: CONFIG_FILE, given });
  return configs.find((config) => config.mode === mode) ?? configs[0];
}
