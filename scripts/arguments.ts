/**
 * The command lines of the programs that package.json starts: `--help` prints the options and ends with 0; anything wrong prints one line and
 * ends with 2, before the program does anything.
 */
import { parseArgs } from 'node:util';

interface StringOption {
  readonly type: 'string';
  /** The word for the value in the help: `N`, `FILE`. */
  readonly value: string;
  readonly help: string;
  readonly default?: string;
  /** The value must be a number above or at this. */
  readonly least?: number;
}

interface BooleanOption {
  readonly type: 'boolean';
  readonly help: string;
}

type Options = Readonly<Record<string, StringOption | BooleanOption>>;

/** The words that are no options. */
interface Words {
  /** In the help: `PART`. */
  readonly name: string;
  readonly known: readonly string[];
}

export interface CommandLine<O extends Options> {
  /** As it is typed: `npm run sim`. */
  readonly command: string;
  /** A sentence or more. */
  readonly about: string;
  readonly options?: O;
  /** Without it the program takes no words. */
  readonly words?: Words;
}

export type Values<O extends Options> = {
  readonly [Name in keyof O]: O[Name] extends BooleanOption
    ? boolean
    : O[Name] extends { readonly default: string }
      ? string
      : string | undefined;
};

const WIDTH = 100;

/** Reads the arguments of this process; ends the process when they ask for help, or are wrong. */
export function commandLine<const O extends Options>(
  line: CommandLine<O>,
  args = process.argv.slice(2),
): { readonly values: Values<O>; readonly words: readonly string[] } {
  const options: Options = line.options ?? {};
  const parsed = parseArgs({
    args: [...args],
    options: { ...(options as Record<string, { type: 'string' | 'boolean' }>), help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  if (parsed.values.help === true) {
    process.stdout.write(helpOf(line));
    process.exit(0);
  }
  const problem = parsed.tokens.map((token) => problemOf(token, line)).find((one) => one !== undefined);
  if (problem !== undefined) {
    // npm takes options before `--` for its own.
    process.stderr.write(`${line.command}: ${problem}; "${line.command} -- --help" says what it takes\n`);
    process.exit(2);
  }
  // scripts/start.sh asks before it installs anything.
  if (process.env.SLICEWIRE_CHECK_ARGUMENTS !== undefined) process.exit(0);
  const unset = Object.entries(options).map(([name, { type }]) => [name, type === 'boolean' ? false : undefined]);
  return { values: { ...Object.fromEntries(unset), ...parsed.values }, words: parsed.positionals };
}

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number];

/** The problem of an argument, if any. */
function problemOf(token: Token, { options = {} as never, words }: CommandLine<Options>): string | undefined {
  if (token.kind === 'option-terminator') return undefined;
  if (token.kind === 'positional') {
    if (words?.known.includes(token.value)) return undefined;
    const known = words === undefined ? 'it takes options alone' : `it takes ${words.known.join(', ')}`;
    return `${token.value} means nothing: ${known}`;
  }
  const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
  if (option === undefined) return `there is no option ${token.rawName}`;
  if (option.type === 'boolean') return token.value === undefined ? undefined : `${token.rawName} takes no value`;
  if (token.value === undefined) return `${token.rawName} needs a value: ${option.value}`;
  const { least } = option;
  const isFit = least === undefined || (token.value.trim() !== '' && Number(token.value) >= least);
  return isFit ? undefined : `${token.rawName} ${token.value}: must be a number from ${least} on`;
}

export function helpOf({ command, about, options = {} as never, words }: CommandLine<Options>): string {
  const rows = Object.entries(options).map(([name, option]) => {
    const standard = option.type === 'string' && option.default !== undefined ? ` (default: ${option.default})` : '';
    return [option.type === 'string' ? `--${name} ${option.value}` : `--${name}`, `${option.help}${standard}`] as const;
  });
  const named = [...rows, ['--help', 'prints this'] as const];
  const column = Math.max(...named.map(([head]) => head.length)) + 4;
  const usage = `usage: ${command} -- [OPTION…]${words === undefined ? '' : ` [${words.name}…]`}`;
  const parts = words === undefined ? [] : ['', ...wrapped(`${words.name}: ${words.known.join(', ')}`, 0)];
  const lines = named.flatMap(([head, help]) => {
    const [first = '', ...more] = wrapped(help, column);
    return [`  ${head}`.padEnd(column) + first.trimStart(), ...more];
  });
  return `${[usage, '', ...wrapped(about, 0), ...parts, '', ...lines].join('\n')}\n`;
}

/** Lines of words, each after so many spaces. */
function wrapped(text: string, indent: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && indent + longer.length > WIDTH) {
      lines.push(' '.repeat(indent) + line);
      line = word;
    } else line = longer;
  }
  return [...lines, ' '.repeat(indent) + line];
}
