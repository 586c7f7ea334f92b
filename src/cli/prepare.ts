/** From the command line to a configuration and a log: reads the file that --config names, and says what has no effect. */
import { type Command, Option } from 'commander';
import { type Config, ConfigError, camel, configFromFlags, type Flags } from '../config/config.ts';
import { flagsFromFile } from '../config/config-file.ts';
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

/** Throws ConfigError. */
export async function prepare(commandLine: Flags): Promise<Prepared> {
  const loaded = await loadConfig(commandLine);
  const log = await createLog(loaded.config.log);
  tellNotes(loaded, log);
  return { config: loaded.config, log, configDigest: loaded.digest };
}

/** The configuration as the command line, and the file that it names, say now. Throws ConfigError. */
export async function loadConfig(commandLine: Flags): Promise<Loaded> {
  const notes: Note[] = [];
  for (const { name, why } of IDLE_FLAGS) {
    if (commandLine[camel(name)] === undefined) continue;
    notes.push({ facts: { flag: name }, text: `--${name} has no effect: ${why}` });
  }
  if (typeof commandLine.config !== 'string') {
    const { writeConfigTo } = commandLine;
    const origins = typeof writeConfigTo === 'string' ? { file: writeConfigTo } : {};
    return { config: configFromFlags(commandLine, origins), notes, digest: undefined };
  }
  const content = await readConfig(commandLine.config);
  const file = flagsFromFile(content, commandLine);
  const config = configFromFlags(file.flags, {
    origins: file.origins,
    file: commandLine.config,
    given: file.given,
  });
  for (const fault of file.lenient) {
    notes.push({ facts: { fault }, text: `--config: read leniently, since a strict reading refuses it: ${fault}` });
  }
  for (const { path, idle = '' } of file.idle) {
    notes.push({ facts: { field: path }, text: `--config: ${path} has no effect: ${idle}` });
  }
  return { config, notes, digest: content.digest };
}

export function tellNotes({ notes }: Loaded, log: Log): void {
  for (const { facts, text } of notes) log.warn(facts, text);
}

/** Accept the flags of kube-proxy on which nothing follows; the help does not show them. */
export function withIdleFlags(command: Command): Command {
  for (const { name } of IDLE_FLAGS) command.addOption(new Option(`--${name} [value]`).hideHelp());
  return command;
}

async function readConfig(path: string): Promise<OneFile> {
  try {
    return await readOneFile(path);
  } catch (error) {
    throw new ConfigError(`--config ${path}: cannot be read: ${causeOf(error)}`);
  }
}
