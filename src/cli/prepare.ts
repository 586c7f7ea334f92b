/** From the command line to a configuration and a log: reads the file that --config names, and says what has no effect. */
import { readFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { type Config, ConfigError, camel, configFromFlags, type Flags } from '../config/config.ts';
import { flagsFromFile } from '../config/config-file.ts';
import { IDLE_FLAGS } from '../config/kube-proxy-flags.ts';
import { createLog, type Log } from '../telemetry/log.ts';

export interface Prepared {
  readonly config: Config;
  readonly log: Log;
  /** The flags that count, after --config. */
  readonly flags: Flags;
}

/** Throws ConfigError. */
export async function prepare(commandLine: Flags): Promise<Prepared> {
  const file = typeof commandLine.config === 'string' ? await readConfig(commandLine.config) : undefined;
  const { flags, idle } = file === undefined ? { flags: commandLine, idle: [] } : flagsFromFile(file, commandLine);
  const config = configFromFlags(flags);
  const { loggingFormat } = flags;
  const format = loggingFormat === 'json' || loggingFormat === 'text' ? loggingFormat : 'auto';
  const log = await createLog({ verbosity: Number(flags.v ?? 0), format });
  for (const { name, why } of IDLE_FLAGS) {
    if (commandLine[camel(name)] !== undefined) log.warn({ flag: name }, `--${name} has no effect: ${why}`);
  }
  if (idle.length > 0) log.warn({ fields: idle }, `--config: these fields have no effect: ${idle.join(', ')}`);
  return { config, log, flags };
}

/** Accept the flags of kube-proxy on which nothing follows; the help does not show them. */
export function withIdleFlags(command: Command): Command {
  for (const { name } of IDLE_FLAGS) command.addOption(new Option(`--${name} [value]`).hideHelp());
  return command;
}

async function readConfig(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`--config ${path}: cannot be read: ${(error as Error).message}`);
  }
}
