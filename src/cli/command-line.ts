/** The command line: commander's commands from the table of commands, Go's forms of flags, and the name of the plugin. */
import { basename } from 'node:path';
import { Command, Option } from 'commander';
import { argumentOf, ConfigError, type FlagEntry, type Flags, helpOf } from '../config/flags.ts';
import { parseBool } from '../config/readers.ts';
import {
  ABOUT,
  COMMANDS,
  type CommandEntry,
  flagsOf,
  groupsOf,
  helpLines,
  type NamedCommand,
  WITHOUT_COMMAND,
} from './commands/command-table.ts';

interface ParsedCommand {
  readonly command: NamedCommand;
  readonly words: readonly string[];
  readonly flags: Flags;
}

/** `run` is called with the parsed command. */
export function programOf(run: (typed: ParsedCommand) => Promise<void>): Command {
  const program = new Command('slicewire')
    .description(ABOUT)
    .exitOverride()
    .configureHelp({ optionDescription: ({ description }) => description })
    .helpOption('-h, --help', 'show this help')
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'slicewire: ')) })
    .showHelpAfterError('(slicewire --help lists the commands, slicewire run --help the flags)');
  for (const entry of COMMANDS) {
    const { isDefault = false, isHidden = false } = entry;
    const command = program.command([entry.name, ...entry.words].join(' '), { isDefault, hidden: isHidden });
    describe(command, entry).action(async () => {
      await run({ command: entry, words: command.args, flags: command.opts<Flags>() });
    });
  }
  program.addHelpText('after', `\n${WITHOUT_COMMAND}`);
  // `help` joins the group of the last command.
  return program
    .commandsGroup(`${COMMANDS.at(-1)?.subject}:`)
    .helpCommand('help [command]', 'show the help of a command');
}

function describe(command: Command, entry: CommandEntry): Command {
  const { name, summary, details, subject, example } = entry;
  command.summary(summary).helpGroup(`${subject}:`);
  command.description(details === undefined ? summary : `${summary}\n${details}`);
  withFlags(command, entry);
  const after = helpLines(entry);
  if (after.length > 0) command.addHelpText('after', `\n${after.join('\n')}`);
  if (example !== undefined)
    command.showHelpAfterError(`(for example: slicewire ${example}; slicewire ${name} --help has the rest)`);
  return command;
}

/** Adds the flags of an entry of the table to a command. */
export function withFlags(command: Command, entry: CommandEntry): Command {
  for (const { title, flags, isElsewhere = false } of groupsOf(entry)) {
    for (const flag of flags) command.addOption(optionOf(flag, isElsewhere).helpGroup(`${title}:`));
  }
  return command.optionsGroup('Help:').helpOption('-h, --help', 'show this help');
}

function optionOf(flag: FlagEntry, isElsewhere: boolean): Option {
  const option = new Option(flag.usage, helpOf(flag)).hideHelp(flag.isHidden || isElsewhere);
  if (flag.isStrict) option.choices([...(flag.values ?? [])]);
  if (flag.isJoined)
    option.argParser((text: string, before: string | undefined) => (before === undefined ? text : `${before},${text}`));
  return option;
}

const FLAGS_WITHOUT_VALUE: ReadonlySet<string> = new Set(
  COMMANDS.flatMap(flagsOf)
    .filter((flag) => argumentOf(flag) === undefined)
    .map(({ name }) => `--${name}`),
);

/**
 * Turns Go's forms of flags, which command lines of kube-proxy have, into those of commander: `-v=4`, `--cleanup=true`. Words after `--`
 * stay as they are.
 */
export function goArguments(args: readonly string[]): string[] {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  return [...args.slice(0, end).flatMap(commanderForm), ...args.slice(end)];
}

function commanderForm(arg: string): string[] {
  const [name = '', value] = splitAt(arg, '=');
  if (value === undefined) return [arg];
  if (name === '-v') return ['-v', value];
  if (!FLAGS_WITHOUT_VALUE.has(name)) return [arg];
  // kube-proxy has two forms of its version; here both are one.
  const isOn = name === '--version' && value === 'raw' ? true : parseBool(value);
  if (isOn === undefined) throw new ConfigError(`${arg}: must be true or false`);
  return isOn ? [name] : [];
}

function splitAt(text: string, separator: string): readonly [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** kubectl runs the file of this name for `kubectl slicewire` (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/). */
const PLUGIN = 'kubectl-slicewire';

/**
 * The words after `kubectl slicewire`; undefined unless the program was started as the plugin. `startedAs`: the name of the process
 * (argv[0]). `slicewire kubectl` does the same under any name.
 */
export function pluginArguments(startedAs: string, args: readonly string[]): readonly string[] | undefined {
  if (basename(startedAs) === PLUGIN) return args;
  const [word, ...rest] = args;
  if (word === 'help' && rest[0] === 'kubectl') return [word, ...rest.slice(1)];
  return word === 'kubectl' ? rest : undefined;
}
