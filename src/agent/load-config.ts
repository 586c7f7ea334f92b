/** From the command line to a configuration and a log: reads the file that --config names, and says what has no effect. */
import { type Config, ConfigError, camel, configFromFlags, type Flags } from '../config/config.ts';
import { flagsFromFile } from '../config/config-file.ts';
import { EXTERNAL_IPS_GATE, type FeatureGates, idleGates } from '../config/feature-gates.ts';
import { IDLE_FLAGS } from '../config/kube-proxy-flags.ts';
import { type OneFile, readOneFile } from '../documents/one-file.ts';
import { causeOf } from '../model/cause.ts';
import { createLog, type Log } from '../telemetry/log.ts';

export interface Prepared {
  readonly config: Config;
  readonly log: Log;
  /** Of what the file said that --config names. */
  readonly configDigest: string | undefined;
}

interface Note {
  readonly facts: object;
  readonly text: string;
}

export interface Loaded {
  /** Of the file that --config names: the same of the same text. */
  readonly digest: string | undefined;
  readonly config: Config;
  /** What has no effect, and how the file was read: for the log, each a line with its facts. */
  readonly notes: readonly Note[];
}

/** Flags that say what an API server would say of its objects. */
const OF_MANIFESTS = ['service-node-port-range', 'allow-node-address-ports'];

/** Throws ConfigError. */
export async function prepare(commandLine: Flags): Promise<Prepared> {
  const loaded = await loadConfig(commandLine);
  const log = await createLog(loaded.config.log);
  logNotes(loaded, log);
  return { config: loaded.config, log, configDigest: loaded.digest };
}

/** The configuration as the command line, and the file that it names, say now. Throws ConfigError. */
export async function loadConfig(commandLine: Flags): Promise<Loaded> {
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
  if (typeof commandLine.config !== 'string') {
    const { writeConfigTo } = commandLine;
    const origins = typeof writeConfigTo === 'string' ? { file: writeConfigTo } : {};
    const config = configFromFlags(commandLine, origins);
    return { config, notes: [...notes, ...gateNotes('--feature-gates', config.featureGates)], digest: undefined };
  }
  const content = await readConfig(commandLine.config);
  const file = flagsFromFile(content, commandLine);
  const config = configFromFlags(file.flags, {
    origins: file.origins,
    file: commandLine.config,
    given: file.given,
  });
  for (const fault of file.lenient) {
    notes.push({ facts: { fault }, text: `--config: ${fault}; the file is used nevertheless, as kube-proxy does` });
  }
  for (const { path, idle = '' } of file.idle) {
    notes.push({ facts: { field: path }, text: `--config: ${path} has no effect: ${idle}` });
  }
  notes.push(...gateNotes('--config: featureGates', config.featureGates));
  // A switch of security that is silently not taken would be the worst of surprises.
  if (commandLine[camel('feature-gates')] !== undefined) {
    const text = "--feature-gates has no effect beside --config: the file's featureGates count";
    notes.push({ facts: { flag: 'feature-gates' }, text });
  }
  return { config, notes, digest: content.digest };
}

function gateNotes(from: string, gates: FeatureGates): Note[] {
  const idle = idleGates(gates);
  if (idle.length === 0) return [];
  const text = `${from}: ${idle.join(', ')}: no effect: ${EXTERNAL_IPS_GATE} is the only gate that slicewire has`;
  return [{ facts: { gates: idle }, text }];
}

export function logNotes({ notes }: Loaded, log: Log): void {
  for (const { facts, text } of notes) log.warn(facts, text);
}

async function readConfig(path: string): Promise<OneFile> {
  try {
    return await readOneFile(path);
  } catch (error) {
    throw new ConfigError(`--config ${path}: cannot be read: ${causeOf(error)}`);
  }
}
