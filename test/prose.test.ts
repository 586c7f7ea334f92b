/**
 * No code reads a sentence that other code wrote for people: whoever rewords a text would break a function that cannot be seen from there.
 * A pattern is compared with all texts that a person meets; words that stand in both are a finding.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sourceFiles } from '../scripts/imports.ts';
import { textsOf } from '../scripts/texts.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Files that read what others wrote, with words that also stand in a text of ours. */
const READS_OTHERS: Readonly<Record<string, string>> = {
  'src/kernel/iptables-tools.ts': 'errors of iptables',
  'src/kernel/recent-lists.ts': '/proc/net/xt_recent',
};

const STRINGS =
  /\.(?:startsWith|endsWith|includes|indexOf|lastIndexOf|split|search|replace|replaceAll)\(\s*(?:(['"`])((?:\\.|(?!\1).)*)\1|([A-Z][A-Z_]+)\b)/g;
const REGEXES = /(?<=[(,=:[!&|?{};+]\s*)\/(?![/*])((?:\\.|\[(?:\\.|[^\]\n])*\]|[^/\n])+)\/[dgimsuvy]*/g;

/** The beginning of `shop/web: File exists`. */
const NAME_AND_CAUSE = /\$\{[^}]*\}: $/;

interface Pattern {
  readonly pattern: string;
  /** Runs of words that must be in the text. */
  readonly runs: readonly string[];
}

/** The patterns of a source that are compared with a text. */
function patternsOf(source: string): Pattern[] {
  const code = source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
  const constant = (name: string) =>
    new RegExp(`const ${name} =\\s*(['"\`])((?:\\\\.|(?!\\1).)*)\\1;`).exec(code)?.[2] ?? '';
  const strings = [...code.matchAll(STRINGS)].map(([, , text, name]) => text ?? constant(name ?? ''));
  const bare = code.replace(/<\/?\w[^<>]*>/g, '').replace(/(['"`])(?:\\.|(?!\1).)*\1/g, "''");
  const regexes = [...bare.matchAll(REGEXES)].map(([, text = '']) => text.replace(/\\[a-zA-Z]|\[[^\]]*\]/g, '|'));
  return [
    ...strings.map((pattern) => ({ pattern, runs: pattern.split(/\$\{[^}]*\}/) })),
    ...regexes.map((pattern) => ({ pattern, runs: pattern.split(/[\\()[\]{}.*+?|^$]+/) })),
  ];
}

function wordsOf(text: string): string[] {
  return text.match(/[A-Za-z]{2,}/g) ?? [];
}

/** Groups of words that follow each other: three, or two where there are no more. */
function groupsOf(run: string): string[] {
  const words = wordsOf(run);
  const size = Math.min(words.length, 3);
  return size < 2 ? [] : words.slice(size - 1).map((_, i) => words.slice(i, i + size).join(' '));
}

/** The groups of words that a source compares with and that stand in one of the texts. */
function readers(source: string, texts: readonly string[]): string[] {
  const known = texts.map((text) => ` ${wordsOf(text).join(' ')} `);
  const patterns = patternsOf(source);
  const groups = patterns.flatMap(({ runs }) => runs.flatMap(groupsOf));
  const found = groups.filter((group) => known.some((text) => text.includes(` ${group} `)));
  return [...found, ...patterns.filter(({ pattern }) => NAME_AND_CAUSE.test(pattern)).map(({ pattern }) => pattern)];
}

describe('no code reads a sentence that slicewire wrote:', () => {
  const files = sourceFiles('src').map((file) => ({ file, source: readFileSync(join(ROOT, file), 'utf8') }));

  it('no pattern of src has the words of a text for people', () => {
    const texts = files.flatMap(({ file, source }) => textsOf(file, source).map(({ text }) => text));
    assert.ok(texts.length > 1000, `${texts.length} texts`);
    const patterns = files.flatMap(({ source }) => patternsOf(source));
    assert.ok(patterns.length > 300, `${patterns.length} patterns`);
    const found = files.flatMap(({ file, source }) => readers(source, texts).map((words) => ({ file, words })));
    assert.deepEqual(
      found.filter(({ file }) => READS_OTHERS[file] === undefined),
      [],
    );
    assert.deepEqual([...new Set(found.map(({ file }) => file))].sort(), Object.keys(READS_OTHERS));
  });

  for (const [what, source, text] of [
    [
      'a regular expression',
      'if (/^not followed since (\\S+): (.*)$/s.test(failure)) return;',
      'not followed since 12: no',
    ],
    ['an end', "fault.problem.endsWith(' already belongs to Service a/b')", '8 already belongs to Service a/b'],
    ['a beginning', "uses.some((why) => why.startsWith('its hint is for node'))", 'its hint is for zone b'],
    ['a name before a cause', 'text.startsWith(`$'.concat('{object}: `)'), ''],
    ['a constant', "const LAST = '; last change ';\nconst at = sentence.indexOf(LAST);", 'last change 4 s ago'],
  ] as const) {
    it(`the test finds ${what}`, () => {
      assert.notDeepEqual(readers(source, [text]), []);
      if (text !== '') assert.deepEqual(readers(source, ['another text of the agent']), []);
    });
  }
});
