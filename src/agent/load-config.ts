/** From the command line, and the file that --config names, to a configuration and a log; with warnings about flags and fields without effect. */
import type { Config } from '../config/config.ts';
import { flagsFromFile } from '../config/config-file.ts';
import { EXTERNAL_IPS_GATE, type FeatureGates, idleGates } from '../config/feature-gates.ts';
import { ConfigError, camel, type Flags } from '../config/flags.ts';
import { configFromFlags } from '../config/from-flags.ts';
import { IDLE_FLAGS } from '../config/kube-proxy-flags.ts';
import { type OneFile, readOneFile } from '../documents/one-file.ts';
import { causeOf } from '../model/cause.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import type { Files } from './outside.ts';

export interface Prepared {
  readonly config: Config;
  readonly log: Log;
  /** Digest of the file that --config names. */
  readonly configDigest: string | undefined;
}

interface Note {
  readonly facts: object;
  readonly text: string;
}

export interface Loaded {
  /** Digest of the file that --config names: equal for equal text. */
  readonly digest: string | undefined;
  readonly config: Config;
  /** Warnings for the log: flags and fields without effect, and unknown fields. */
  readonly notes: readonly Note[];
}

/** The file that --config names cannot be read: its text is unknown. */
export class ConfigUnreadable extends ConfigError {}

/** Flags for checks of objects that an API server makes itself. */
const OF_MANIFESTS = ['service-node-port-range', 'allow-node-address-ports'];

/** Throws ConfigError. */
export async function prepare(commandLine: Flags): Promise<Prepared> {
  const loaded = await loadConfig(commandLine);
  const log = await createLog(loaded.config.log);
  logNotes(loaded, log);
  return { config: loaded.config, log, configDigest: loaded.digest };
}

/** The configuration of the command line and of its file as it is now. Throws ConfigError. */
export async function loadConfig(commandLine: Flags, readFile: Files['readOne'] = readOneFile): Promise<Loaded> {
  const notes: Note[] = [];
  for (const { name, why } of IDLE_FLAGS) {
    if (commandLine[camel(name)] === undefined) continue;
    notes.push({ facts: { flag: name }, text: `--${name} has no effect: ${why}` });
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
  if (typeof commandLine.config !== 'string') {
    const { writeConfigTo } = commandLine;
    const origins = typeof writeConfigTo === 'string' ? { file: writeConfigTo } : {};
    const config = configFromFlags(commandLine, origins);
    return { config, notes: [...notes, ...gateNotes('--feature-gates', config.featureGates)], digest: undefined };
  }
  const content = await readConfig(commandLine.config, readFile);
  const file = flagsFromFile(content, commandLine);
  const config = configFromFlags(file.flags, {
    origins: file.origins,
    file: commandLine.config,
    given: file.given,
  });
  for (const fault of file.lenient) {
    notes.push({ facts: { fault }, text: `--config: ${fault}; the file is used anyway, as kube-proxy does` });
  }
  for (const { path, idle = '' } of file.idle) {
    notes.push({ facts: { field: path }, text: `--config: ${path} has no effect: ${idle}` });
  }
  notes.push(...gateNotes('--config: featureGates', config.featureGates));
  // A security switch must not be ignored without a warning.
  if (commandLine[camel('feature-gates')] !== undefined) {
    const text = '--feature-gates has no effect with --config: use featureGates in the file';
    notes.push({ facts: { flag: 'feature-gates' }, text });
  }
  return { config, notes, digest: content.digest };
}

function gateNotes(from: string, gates: FeatureGates): Note[] {
  const idle = idleGates(gates);
  if (idle.length === 0) return [];
  const text = `${from}: ${idle.join(', ')} ${idle.length === 1 ? 'has' : 'have'} no effect: slicewire has only the gate ${EXTERNAL_IPS_GATE}`;
  return [{ facts: { gates: idle }, text }];
}

export function logNotes({ notes }: Loaded, log: Log): void {
  for (const { facts, text } of notes) log.warn(facts, text);
}

async function readConfig(path: string, readFile: Files['readOne']): Promise<OneFile> {
  try {
    return await readFile(path);
  } catch (error) {
    throw new ConfigUnreadable(`--config ${path}: cannot be read: ${causeOf(error)}`);
  }
}
