/** Runs the command of the command line, and prints its errors. */
import { CommanderError } from 'commander';
import { CannotRun } from '../agent/cannot-run.ts';
import { KubeconfigUnusable } from '../cluster/api/credentials.ts';
import { singleFiles } from '../cluster/documents/files.ts';
import { ManifestsUnusable } from '../cluster/source/manifests/source.ts';
import { ConfigError } from '../config/flags.ts';
import { isWrongQuestion, NoAnswer } from '../inspect/wire/envelope.ts';
import { IptablesError } from '../kernel/iptables-tools.ts';
import { IpvsUnusable } from '../kernel/ipvs-kernel.ts';
import { NftUnusable } from '../kernel/nftables-kernel.ts';
import type { Hangups } from '../kernel/process.ts';
import { CleanupIncomplete } from '../proxy/modes/mode.ts';
import { KernelNotRead } from '../proxy/sync/loop.ts';
import { ACTIONS } from './actions.ts';
import { goArguments, pluginArguments, programOf } from './command-line.ts';
import { COMMANDS } from './commands/command-table.ts';

/** Errors that print one line, because their text says what to do. Others are bugs, and print a stack. */
const PLAIN = [
  ConfigError,
  CannotRun,
  ManifestsUnusable,
  KernelNotRead,
  KubeconfigUnusable,
  IptablesError,
  IpvsUnusable,
  NftUnusable,
  CleanupIncomplete,
  NoAnswer,
];

/** Parses, runs, and resolves with the exit status. */
export async function main(args: readonly string[], signal: AbortSignal, hangups: Hangups): Promise<number> {
  let status = 0;
  // Words after -- are no flags of this command.
  const own = args.slice(0, args.includes('--') ? args.indexOf('--') : args.length);
  if (own.some((arg) => /^--?(?:kube)?config(?:=|$)/.test(arg))) singleFiles.start();
  // A reader that closed its end, as in `plan | head`, is no error; the rest of the command goes on.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'ERR_STREAM_DESTROYED') throw error;
  });
  const program = programOf(async ({ command, words, flags }) => {
    status = await ACTIONS[command.name]({ words, flags, signal, print }, hangups);
  });
  const plugin = pluginArguments(process.argv0, args);
  try {
    if (plugin !== undefined) return await (await import('./kubectl/plugin.ts')).runPlugin(plugin, { signal, print });
    mustBeCommand(args);
    await program.parseAsync(goArguments(args), { from: 'user' });
    return status;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 1;
    // A signal ended the command early. An agent that follows changes resolves instead, and logs that it stopped.
    if (signal.aborted) {
      process.stderr.write(
        `slicewire: ${signal.reason instanceof Error ? signal.reason.message : 'stopped'}; the command did not finish\n`,
      );
      return 1;
    }
    const isPlain = isWrongQuestion(error) || PLAIN.some((kind) => error instanceof kind);
    process.stderr.write(`slicewire: ${isPlain ? (error as Error).message : errorText(error)}\n`);
    return 1;
  }
}

const print = (text: string) => process.stdout.write(`${text}\n`);

/** Commander takes an unknown command for an argument of the default one, and its `help` for that of the program. This names the commands. */
function mustBeCommand([first = '', second = '']: readonly string[]): void {
  const word = first === 'help' ? second : first;
  const isKnown = word === 'help' || COMMANDS.some(({ name }) => name === word);
  if (word === '' || word.startsWith('-') || isKnown) return;
  const names = COMMANDS.filter(({ isHidden }) => !isHidden).map(({ name }) => name);
  throw new ConfigError(`unknown command ${word}; the commands are ${names.join(', ')}, kubectl and help`);
}

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
