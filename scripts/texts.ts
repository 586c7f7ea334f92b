/**
 * `npm run texts`: the texts of logs, errors, faults and help that a person meets, by file and line, to be read in one go.
 *
 *   node scripts/texts.ts                  all of them, as FILE:LINE KIND TEXT
 *   node scripts/texts.ts log error        only these kinds: log, error, fault, help, text (other sentences)
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine } from './arguments.ts';
import { sourceFiles } from './imports.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

export interface Text {
  readonly file: string;
  /** From 1 on. */
  readonly line: number;
  readonly kind: Kind;
  /** As in the source, without quotes; a template keeps its `${…}`. */
  readonly text: string;
}

const KINDS = ['log', 'error', 'fault', 'help', 'text'] as const;
export type Kind = (typeof KINDS)[number];

/** The kind of a text by the call that it is an argument of. */
const BY_CALL: readonly (readonly [Kind, RegExp])[] = [
  ['log', /\blog(?:\.\w+|\[[^\]]*\])$|(?:^|\.)(?:warn|onProblem|stdout\.write|stderr\.write|print)$/],
  ['error', /^new \w*(?:Error|Unusable|Refused|Unreadable|Incomplete|Required)$|^super$/],
  ['fault', /(?:^|\.)#?(?:fault|setAside|leaveOut|useDefault|noEffect|refuse)$/],
  [
    'help',
    /(?:^|\.)(?:description|option|argument|showHelpAfterError|counter|gauge|histogram)$|^new (?:Option|Counter|Gauge|Histogram)/,
  ],
];

/** The kind of a text by the name of the property that it is the value of. */
const BY_PROPERTY: Readonly<Record<string, Kind>> = {
  help: 'help',
  problem: 'fault',
  cause: 'error',
  message: 'error',
};

/** A slash after one of these begins a regular expression; after anything else it divides. */
const BEFORE_REGEX = /(?:^|[(,=:[!&|?{};+*%<>~^-]|\b(?:return|typeof|case|of|in))\s*$/;
const CALLEE = /(?:new\s+)?[\w.#?]+(?:\[[^\]]*\])?(?:<[\w, |]+>)?$/;
/** How far back a callee or a property can begin. */
const BACK = 120;

/** The texts of one file, in its order. `errors`: names of classes of errors. */
export function textsOf(file: string, source: string, errors: ReadonlySet<string> = new Set()): Text[] {
  const found: Text[] = [];
  /** The callees of the brackets that are open. */
  const open: string[] = [];
  const kindOfCall = (callee: string): Kind | undefined => {
    if (errors.has(callee.replace(/^new /, ''))) return 'error';
    return BY_CALL.find(([, pattern]) => pattern.test(callee))?.[0];
  };
  for (let at = 0; at < source.length; ) {
    const before = source.slice(Math.max(0, at - BACK), at);
    const end = tokenEnd(source, at, before);
    const char = source[at] ?? '';
    if ('([{'.includes(char)) open.push(char === '(' ? (CALLEE.exec(before)?.[0] ?? '').replace(/\s+/g, ' ') : '');
    if (')]}'.includes(char)) open.pop();
    if ('\'"`'.includes(char)) {
      const property = /(\w+):\s*$/.exec(before)?.[1] ?? '';
      const calls = open.toReversed().map(kindOfCall);
      const kind = isMetric(before) ? 'help' : (BY_PROPERTY[property] ?? calls.find((one) => one !== undefined));
      const text = source.slice(at + 1, end - 1);
      const line = source.slice(0, at).split('\n').length;
      const isKey = kind === 'log' && property !== '' && !text.includes(' ');
      if (!isKey && isSentence(text, kind) && !isModule(before)) found.push({ file, line, kind: kind ?? 'text', text });
    }
    at = end;
  }
  return found;
}

/** The tables of metrics: `['counter', 'what it counts', …labels]`. */
const isMetric = (before: string) => /\[\s*'(?:counter|gauge|histogram)',\s*$/.test(before);

const isModule = (before: string) => /(?:from|import)\s*\(?$/.test(before.trimEnd());

/** Flags, rules and keys are none. A text that no call gives a kind has two words beside its expressions at least. */
function isSentence(text: string, kind: Kind | undefined): boolean {
  if (text.startsWith('-') || !/[a-z]{2}/.test(text)) return false;
  if (kind === 'log') return true;
  return kind === undefined ? TWO_WORDS.test(text.replace(/\$\{[^}]*\}/g, '0')) : text.includes(' ');
}

const TWO_WORDS = /[A-Za-z]{2,}[,;:]? [a-z]{2,}/;

/** Where the comment, literal or single character that begins at `at` ends. */
function tokenEnd(source: string, at: number, before: string): number {
  const to = (text: string) => {
    const found = source.indexOf(text, at + 2);
    return found === -1 ? source.length : found + text.length;
  };
  const char = source[at] ?? '';
  if (source.startsWith('//', at)) return to('\n');
  if (source.startsWith('/*', at)) return to('*/');
  if (char === '`') return templateEnd(source, at);
  if (char === "'" || char === '"') return literalEnd(source, at, (one) => one === char);
  if (char !== '/' || !BEFORE_REGEX.test(before)) return at + 1;
  let isClass = false;
  return literalEnd(source, at, (one) => {
    if (one === '[') isClass = true;
    if (one === ']') isClass = false;
    return one === '/' && !isClass;
  });
}

function literalEnd(source: string, at: number, isEnd: (char: string) => boolean): number {
  for (let i = at + 1; i < source.length; i++) {
    if (source[i] === '\\') i++;
    else if (isEnd(source[i] ?? '')) return i + 1;
  }
  return source.length;
}

/** A template may hold expressions, and these other templates. */
function templateEnd(source: string, at: number): number {
  for (let i = at + 1; i < source.length; i++) {
    if (source[i] === '\\') i++;
    else if (source[i] === '`') return i + 1;
    else if (source.startsWith('${', i)) i = expressionEnd(source, i + 2) - 1;
  }
  return source.length;
}

/** After the brace that closes the expression. */
function expressionEnd(source: string, at: number): number {
  for (let i = at, depth = 1; i < source.length; ) {
    if (source[i] === '{') depth++;
    if (source[i] === '}' && --depth === 0) return i + 1;
    i = tokenEnd(source, i, source.slice(Math.max(0, i - BACK), i));
  }
  return source.length;
}

/** The texts of the whole program. Not those between the elements of the page (.tsx), where words have no quotes. */
export function allTexts(): Text[] {
  const files = sourceFiles('src', 'native').filter((file) => file.endsWith('.ts'));
  const sources = files.map((file) => [file, readFileSync(join(ROOT, file), 'utf8')] as const);
  const classes = sources.flatMap(([, source]) => [...source.matchAll(/class (\w+) extends \w*Error\b/g)]);
  const errors = new Set(classes.map(([, name = '']) => name));
  return sources.flatMap(([file, source]) => textsOf(file, source, errors));
}

if (import.meta.main) {
  const { words: kinds } = commandLine({
    command: 'npm run texts',
    about:
      'Prints the texts that a person meets, as FILE:LINE KIND TEXT, to be read in one go. With kinds it prints these alone; `text` are other sentences.',
    words: { name: 'KIND', known: KINDS },
  });
  const isAsked = ({ kind }: Text) => kinds.length === 0 || kinds.includes(kind);
  const lines = allTexts()
    .filter(isAsked)
    .map(({ file, line, kind, text }) => `${file}:${line} ${kind} ${text}\n`);
  process.stdout.write(lines.join(''));
}
