/** Builds the configuration and the log from the command line and the file that --config names, and warns of flags and fields without effect. */

import { causeOf } from '../base/cause.ts';
import { type OneFile, readOneFile } from '../cluster/documents/files.ts';
import { DEPRECATED_FLAGS, IDLE_FLAGS } from '../config/agent-flags.ts';
import { AUTO, type Config } from '../config/config.ts';
import { flagsFromFile } from '../config/config-file.ts';
import { EFFECTIVE_GATES, type FeatureGates, idleGates } from '../config/feature-gates.ts';
import { ConfigError, camel, type Flags } from '../config/flags.ts';
import { type ConfigOrigins, configsFromFlags } from '../config/from-flags.ts';
import { relayProblems } from '../config/relay-settings.ts';
import { listText } from '../inspect/wire/format.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import type { Files } from './platform.ts';

/** Chooses one of the configurations of several modes. `why` is a clause for the log. */
export type ChooseMode = (
  ofModes: readonly Config[],
) => Promise<{ readonly mode: Config['mode']; readonly why: string }>;

export interface Prepared {
  readonly config: Config;
  /** See `LoadedConfig.others`. */
  readonly others: readonly Config[];
  readonly log: Log;
  /** Digest of the file that --config names. */
  readonly configDigest: string | undefined;
}

interface Note {
  readonly facts: object;
  readonly text: string;
}

export interface LoadedConfig {
  /** Digest of the file that --config names, equal for equal text; undefined without --config. */
  readonly digest: string | undefined;
  readonly config: Config;
  /** The same configuration in the other possible modes, while the mode is auto and not chosen yet. */
  readonly others: readonly Config[];
  /** Warnings for the log: flags and fields without effect, deprecated flags, and unknown fields. */
  readonly notes: readonly Note[];
}

/** The file that --config names cannot be read: its text is unknown. */
export class ConfigUnreadable extends ConfigError {}

/** Flags of checks that an API server makes itself, so that they only matter for manifests. */
const OF_MANIFESTS = ['service-node-port-range', 'allow-node-address-ports'];

/** Commands that need a mode pass `choose`. `over` has flags that no file replaces. Throws ConfigError, and as `choose`. */
export async function prepare(commandLine: Flags, choose?: ChooseMode, over: Flags = {}): Promise<Prepared> {
  const loaded = await loadConfig(commandLine, readOneFile, choose, over);
  const { config, others, digest } = loaded;
  const log = await createLog(config.log);
  logNotes(loaded, log);
  return { config, others, log, configDigest: digest };
}

/**
 * The configuration of the command line and of its file as it is now. Without `choose` the mode `auto` stays open. Throws ConfigError, and
 * as `choose`.
 */
export async function loadConfig(
  commandLine: Flags,
  readFile: Files['readOne'] = readOneFile,
  choose?: ChooseMode,
  over: Flags = {},
): Promise<LoadedConfig> {
  const notes = flagNotes(commandLine);
  if (typeof commandLine.config !== 'string') {
    const { writeConfigTo } = commandLine;
    const origins = typeof writeConfigTo === 'string' ? { file: writeConfigTo } : {};
    const configs = await inOneMode({ ...commandLine, ...over }, origins, choose);
    notes.push(...gateNotes('--feature-gates', configs.config.featureGates));
    notes.push(...relayNotes('--nodeport-addresses', configs.config));
    return { ...configs, notes, digest: undefined };
  }
  const content = await readConfig(commandLine.config, readFile);
  const file = flagsFromFile(content, commandLine);
  const origins = { origins: file.origins, file: commandLine.config, given: file.given };
  const configs = await inOneMode({ ...file.flags, ...over }, origins, choose);
  for (const fault of file.lenient) {
    notes.push({ facts: { fault }, text: `--config: ${fault}; the file is used anyway, as kube-proxy does` });
  }
  for (const { path, idle = '' } of file.idle) {
    notes.push({ facts: { field: path }, text: `--config: ${path} has no effect: ${idle}` });
  }
  notes.push(...gateNotes('--config: featureGates', configs.config.featureGates));
  notes.push(...relayNotes('--config: nodePortAddresses', configs.config));
  // A security switch must not be ignored without a warning.
  if (commandLine[camel('feature-gates')] !== undefined) {
    const text = '--feature-gates has no effect with --config: use featureGates in the file';
    notes.push({ facts: { flag: 'feature-gates' }, text });
  }
  return { ...configs, notes, digest: content.digest };
}

async function inOneMode(
  flags: Flags,
  origins: ConfigOrigins,
  choose: ChooseMode | undefined,
): Promise<Pick<LoadedConfig, 'config' | 'others'>> {
  const [first, ...others] = configsFromFlags(flags, origins);
  if (choose === undefined || first.modeChoice.by !== AUTO) return { config: first, others };
  const { mode, why } = await choose([first, ...others]);
  const chosen = others.find((one) => one.mode === mode) ?? first;
  const config: Config = { ...chosen, modeChoice: { by: AUTO, why } };
  return { config: Object.freeze(config), others: [] };
}

/** Warnings about the flags of the command line. */
function flagNotes(commandLine: Flags): Note[] {
  const notes: Note[] = [];
  for (const { name, why } of IDLE_FLAGS) {
    if (commandLine[camel(name)] === undefined) continue;
    notes.push({ facts: { flag: name }, text: `--${name} has no effect: ${why}` });
  }
  for (const { name, instead } of DEPRECATED_FLAGS) {
    if (commandLine[camel(name)] === undefined) continue;
    const text = `--${name} is deprecated, and Kubernetes will remove it: give --${instead} instead`;
    notes.push({ facts: { flag: name }, text });
  }
  for (const name of OF_MANIFESTS) {
    if (commandLine[camel(name)] === undefined || commandLine.manifests !== undefined) continue;
    notes.push({
      facts: { flag: name },
      text: `--${name} has no effect without --manifests: an API server checks its objects itself`,
    });
  }
  if (commandLine[camel('record-size')] !== undefined && commandLine[camel('record-dir')] === undefined) {
    notes.push({ facts: { flag: 'record-size' }, text: '--record-size has no effect without --record-dir' });
  }
  return notes;
}

function gateNotes(from: string, gates: FeatureGates): Note[] {
  const idle = idleGates(gates);
  if (idle.length === 0) return [];
  const text = `${from}: ${idle.join(', ')} ${idle.length === 1 ? 'has' : 'have'} no effect: slicewire has only the gates ${listText(EFFECTIVE_GATES)}`;
  return [{ facts: { gates: idle }, text }];
}

function relayNotes(from: string, config: Config): Note[] {
  return relayProblems(config).map((problem) => ({ facts: {}, text: `${from}: ${problem}` }));
}

export function logNotes({ notes }: LoadedConfig, log: Log): void {
  for (const { facts, text } of notes) log.warn(facts, text);
}

async function readConfig(path: string, readFile: Files['readOne']): Promise<OneFile> {
  try {
    return await readFile(path);
  } catch (error) {
    throw new ConfigUnreadable(`--config ${path}: cannot be read: ${causeOf(error)}`);
  }
}
