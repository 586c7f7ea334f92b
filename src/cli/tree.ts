/** The table of commands as commander's commands. */
import { Command, Option } from 'commander';
import { type FlagEntry, type Flags, helpOf } from '../config/flags.ts';
import { ABOUT, type CommandEntry, groupsOf, helpLines, WITHOUT_COMMAND } from './commands/command.ts';
import { COMMANDS, type NamedCommand } from './commands/command-table.ts';

/** A command as it was typed. */
export interface Typed {
  readonly command: NamedCommand;
  readonly words: readonly string[];
  readonly flags: Flags;
}

/** `run`: called with the command of the arguments that the program parses. */
export function programOf(run: (typed: Typed) => Promise<void>): Command {
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
  // `help` is in the group of the last one.
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

/** Gives a command the flags of an entry of the table. */
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
