/**
 * The manual pages: slicewire(8), and one for each command, such as slicewire-run(8), made from the table of commands.
 * They are man(7) text, in ASCII alone.
 *
 *   node scripts/man-pages.ts [FOLDER]      writes them (dist/man)
 *
 * SOURCE_DATE_EPOCH is their date, in seconds since 1970; without it, today.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  ABOUT,
  COMMANDS,
  type CommandEntry,
  groupsOf,
  helpLines,
  SUBJECTS,
  WITHOUT_COMMAND,
} from '../src/cli/commands/command-table.ts';
import { type FlagEntry, helpOf } from '../src/config/flags.ts';
import { version } from '../src/config/program-version.ts';
import { epochOf } from './release/archive.ts';

const SECTION = 8;
const SITE = 'docs/README.md of the sources of slicewire';

/** The text of each page by the name of its file. `date`: YYYY-MM-DD. */
export function manPages(date: string): ReadonlyMap<string, string> {
  const shown = COMMANDS.filter(({ isHidden }) => !isHidden);
  const commands = shown.map((command): [string, string] => [fileOf(command), commandPage(command, date)]);
  return new Map([[`slicewire.${SECTION}`, mainPage(shown, date)], ...commands]);
}

const fileOf = ({ name }: CommandEntry) => `slicewire-${name}.${SECTION}`;

function mainPage(commands: readonly CommandEntry[], date: string): string {
  const [first = '', ...rest] = ABOUT.split('\n');
  return page([
    title('slicewire', date),
    '.SH NAME',
    `slicewire \\- ${roff('service proxy of a Kubernetes node')}`,
    '.SH SYNOPSIS',
    `.B slicewire\n[\\fICOMMAND\\fR] [\\fIFLAGS\\fR]`,
    '.SH DESCRIPTION',
    roff(first),
    ...rest.map(roff),
    '.PP',
    ...WITHOUT_COMMAND.split('\n').map(roff),
    '.SH COMMANDS',
    ...SUBJECTS.flatMap((subject) => [
      `.SS ${roff(subject)}`,
      ...commands
        .filter((command) => command.subject === subject)
        .flatMap((command) => ['.TP', `.BR ${roff(`slicewire-${command.name}`)} (${SECTION})`, roff(command.summary)]),
    ]),
    '.SH FILES',
    '.TP',
    '.I /run/slicewire',
    roff('Records of what the agent wrote into the kernel. With them, the next start reads less of the kernel.'),
    ...seeAlso(commands.map(({ name }) => `slicewire-${name}`)),
  ]);
}

function commandPage(command: CommandEntry, date: string): string {
  const { name, words, summary, details, example, status, isDefault = false } = command;
  const call = [name, ...words.map((word) => word.replace(/[<>]/g, ''))].join(' ');
  return page([
    title(`slicewire-${name}`, date),
    '.SH NAME',
    `slicewire\\-${roff(name)} \\- ${roff(summary)}`,
    '.SH SYNOPSIS',
    `.B slicewire\n${roff(isDefault ? `[${call}]` : call)} [\\fIFLAGS\\fR]`,
    '.SH DESCRIPTION',
    roff(`${summary[0]?.toUpperCase()}${summary.slice(1)}.`),
    ...(details === undefined ? [] : ['.PP', '.nf', ...details.split('\n').map(roff), '.fi']),
    ...helpLines({ ...command, status: undefined }).flatMap((text) => ['.PP', ...text.split('\n').map(roff)]),
    ...flagSections(command),
    ...(status === undefined ? [] : ['.SH EXIT STATUS', roff(status.replace(/^Exit status: /, ''))]),
    ...(example === undefined ? [] : ['.SH EXAMPLES', '.nf', roff(`slicewire ${example}`), '.fi']),
    ...seeAlso(['slicewire', ...(command.takes === 'agent' && !isDefault ? ['slicewire-run'] : [])]),
  ]);
}

function flagSections(command: CommandEntry): string[] {
  const groups = groupsOf(command)
    .filter(({ isElsewhere = false }) => !isElsewhere)
    .map(({ title: subject, flags }) => ({ subject, flags: flags.filter(({ isHidden = false }) => !isHidden) }))
    .filter(({ flags }) => flags.length > 0);
  const help = ['.SS Help', '.TP', '\\fB\\-h\\fR, \\fB\\-\\-help\\fR', 'show this help'];
  return [
    '.SH OPTIONS',
    ...groups.flatMap(({ subject, flags }) => [`.SS ${roff(subject)}`, ...flags.flatMap(flagLines)]),
    ...help,
  ];
}

function flagLines(flag: FlagEntry): string[] {
  const [, names = '', argument] = /^(\S+(?:, \S+)?)(?: (\S+))?$/.exec(flag.usage) ?? [];
  const shown = names.split(', ').map((name) => `\\fB${roff(name)}\\fR`);
  const value = argument?.replace(/[<>]/g, '').replace(/[\w-]+/, (word) => `\\fI${roff(word)}\\fR`);
  return ['.TP', [shown.join(', '), ...(value === undefined ? [] : [value])].join(' '), roff(helpOf(flag))];
}

function seeAlso(names: readonly string[]): string[] {
  const pages = names.map((name, i) => `.BR ${roff(name)} (${SECTION})${i + 1 < names.length ? ',' : ''}`);
  return ['.SH SEE ALSO', ...pages, '.PP', roff(SITE)];
}

function title(name: string, date: string): string {
  return `.TH ${name.toUpperCase().replaceAll('-', '\\-')} ${SECTION} "${date}" "slicewire ${version()}" "slicewire"`;
}

/** Text that troff reads as it is: no line begins with a request, and what is not ASCII has its name in groff_char(7). */
function roff(text: string): string {
  const escaped = text
    .replaceAll('\u2026', '...')
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll("'", '\\(aq')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti')
    .replace(
      /[\u0080-\u{10ffff}]/gu,
      (char) => `\\[u${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
    );
  return /^[.']/.test(escaped) ? `\\&${escaped}` : escaped;
}

const page = (lines: readonly string[]) => `${lines.join('\n')}\n`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2] ?? fileURLToPath(new URL('../dist/man', import.meta.url));
  if (folder.startsWith('-')) throw new Error(`${folder}: the only argument is a folder`);
  const epoch = epochOf(process.env);
  const date = epoch === undefined ? new Date() : new Date(epoch * 1000);
  mkdirSync(folder, { recursive: true });
  const pages = manPages(date.toISOString().slice(0, 10));
  for (const [file, text] of pages) writeFileSync(join(folder, file), text);
  process.stdout.write(`${pages.size} manual pages in ${folder}\n`);
}
