/** The configuration file: flags from it, the configuration that they make, and the file that this means. */

import { CONTENT_TYPES, type Config, FAILOVERS } from '../../../src/config/config.ts';
import { fileText, flagsFromFile } from '../../../src/config/config-file.ts';
import { ConfigError } from '../../../src/config/flags.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import { MODE_NAMES } from '../../../src/proxy/model/modes.ts';
import { corpusFiles } from '../corpus/read.ts';
import { mutateText } from '../mutate/text.ts';
import {
  soundAddress,
  soundBoolean,
  soundChoice,
  soundCidr,
  soundList,
  soundNumber,
  soundPrototypes,
} from '../sound/text.ts';
import { shown, sure, type Target } from '../target.ts';
import { partsOf } from './yaml.ts';

/** Milliseconds of the longest time: 292 years, as a Go duration has. */
const MAX_TIME = 9.3e15;

function soundTimeSpan(value: unknown, at: string): void {
  const is = typeof value === 'number' && value >= 0 && value <= MAX_TIME;
  sure(is, () => `${at}: ${String(value)} is no time in milliseconds`);
}

export function soundConfig(config: Config): void {
  soundChoice(config.mode, 'mode', MODE_NAMES);
  soundChoice(config.failover, 'failover', FAILOVERS);
  soundNumber(config.masqueradeBit, 'masqueradeBit', 0, 31);
  soundNumber(config.oomScoreAdj, 'oomScoreAdj', -1000, 1000);
  for (const key of [
    'once',
    'isNodeNamed',
    'masqueradeAll',
    'localhostNodePorts',
    'countsConnections',
    'serviceMetrics',
  ] as const)
    soundBoolean(config[key], key);
  for (const key of ['syncPeriod', 'minSyncPeriod', 'configSyncPeriod'] as const) soundTimeSpan(config[key], key);
  for (const key of ['tcpTimeout', 'tcpFinTimeout', 'udpTimeout'] as const)
    soundNumber(config.ipvs[key], `ipvs.${key}`, 0, 2 ** 32);
  soundList(config.ipvs.excludeCidrs, 'excludeCidrs', soundCidr);
  soundList(config.nodePortAddresses.cidrs, 'nodePortAddresses', soundCidr);
  if (config.bindAddress !== undefined) soundAddress(config.bindAddress, 'bindAddress');
  if (config.detectLocal.kind === 'cluster-cidr') soundList(config.detectLocal.cidrs, 'clusterCIDR', soundCidr);
  else if (config.detectLocal.kind === 'interface') {
    const { name } = config.detectLocal;
    // It goes into a rule without quotes (`-i NAME`), and a device's name has at most 15 bytes (IFNAMSIZ).
    sure(/^[A-Za-z0-9_.-]{1,15}\+?$/.test(name), () => `the interface has the name ${shown(name)}`);
  }
  if (config.source.kind === 'kubernetes') soundChoice(config.source.contentType, 'contentType', CONTENT_TYPES);
  sure(/^[a-z0-9]{1,15}$/.test(config.ipvs.scheduler), () => `scheduler: ${shown(config.ipvs.scheduler)}`);
}

export const config: Target = {
  name: 'config',
  declared: [ConfigError],
  seeds: corpusFiles('config'),
  mutate: mutateText,
  run(input) {
    const file = flagsFromFile(partsOf(input.toString(), true), {});
    const read = configFromFlags(file.flags, { origins: file.origins, file: 'config.yaml', given: file.given });
    soundConfig(read);
    fileText(read);
    soundPrototypes();
  },
};
