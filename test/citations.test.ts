/** Every citation leads somewhere: links in Markdown, documents that comments name, rules and invariants that they number. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { anchorsIn, semanticsAnchors } from './helpers/docs/semantics.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const CODE = ['src', 'native', 'test', 'scripts', 'deploy', 'systemd'].flatMap((folder) => filesIn(folder));
const MARKDOWN = [...readdirSync(ROOT), ...filesIn('docs'), ...CODE].filter((file) => file.endsWith('.md'));
/** Not this file, which writes them as patterns. */
const SOURCES = CODE.filter(
  (file) => /\.(?:ts|c|h|sh|ya?ml|conf|service)$/.test(file) && !file.endsWith('citations.test.ts'),
);

/** Files of Kubernetes and of V8, which comments and lists name as the source of a fact. */
const OF_OTHERS = [
  'test/featuregates_linter',
  'test/compatibility_lifecycle',
  'test/e2e',
  'test/integration',
  'src/extensions/',
];

function filesIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => join(folder, file))
    .filter((file) => statSync(join(ROOT, file)).isFile());
}

function textOf(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

/** `file:line: citation` of every match that is wrong. */
function wrong(
  files: readonly string[],
  pattern: RegExp,
  isWrong: (match: RegExpExecArray, file: string) => boolean,
): string[] {
  return files.flatMap((file) => {
    const text = textOf(file);
    return [...text.matchAll(pattern)]
      .filter((match) => isWrong(match, file))
      .map((match) => `${file}:${text.slice(0, match.index).split('\n').length}: ${match[0]}`);
  });
}

function leadsNowhere(link: string, file: string): boolean {
  if (/^(?:https?|mailto):/.test(link)) return false;
  const [path = '', anchor] = link.split('#');
  const target = path === '' ? file : relative(ROOT, resolve(ROOT, dirname(file), path));
  if (target.startsWith('..') || !existsSync(join(ROOT, target))) return true;
  return anchor !== undefined && target.endsWith('.md') && !anchorsIn(textOf(target)).has(anchor);
}

/** Values in the lines that docs/troubleshoot.md quotes, where the program has a variable. */
const VALUES =
  /IPv4(?=: )|the manifests(?= cannot)|30 s|control-plane\.example|sysctl net\.netfilter\.nf_conntrack_max|NODE_|[()]/g;

/** The fixed parts of the log lines and reasons that the tables of a chapter quote in their first column. */
function quotedIn(markdown: string, chapter: string): string[] {
  const [, text = ''] = new RegExp(`^## ${chapter}\\n(.*?)^## `, 'ms').exec(markdown) ?? [];
  const quotes = [...text.matchAll(/^\| (`.*?) \| /gm)].flatMap(([, cell = '']) => [...cell.matchAll(/`([^`]+)`/g)]);
  return quotes
    .flatMap(([, quote = '']) => quote.replace(VALUES, '…').split(/…|: /))
    .map((part) => part.replace(/^[ :;,]+|[ :;,]+$/g, ''))
    .filter((part) => part.length > 5);
}

describe('citations', () => {
  it('link to files and headings that exist, in every Markdown document', () => {
    const links = /\]\(<?([^)\s>]+)>?\)|(?:src|href)="([^"]+)"/g;
    assert.deepEqual(
      wrong(MARKDOWN, links, ([, link, attribute], file) => leadsNowhere(link ?? attribute ?? '', file)),
      [],
    );
  });

  it('name documents that exist', () => {
    const documents = /(?<![\w./-])docs\/(?:[\w-]+\/)*[\w-]+\.(?:md|svg|json)/g;
    assert.deepEqual(
      wrong([...SOURCES, ...MARKDOWN], documents, ([path]) => !existsSync(join(ROOT, path))),
      [],
    );
  });

  it('name files of the repository that exist, in documents also without src/', () => {
    // Not the beginning of a pattern, such as test/*.ts.
    const paths = /(?<![\w./@:-])(?:src|test|native|scripts|deploy|systemd)\/[\w./-]*\w(?![\w/*{\\-])/g;
    const isGone = ([path]: RegExpExecArray, file: string) =>
      !existsSync(join(ROOT, path)) &&
      !OF_OTHERS.some((other) => path.startsWith(other)) &&
      !file.endsWith('ci.test.ts');
    assert.deepEqual(wrong([...SOURCES, ...MARKDOWN], paths, isGone), []);
    const quoted = /`((?:[\w-]+\/)+[\w-]+\.ts)`/g;
    const isNowhere = ([, path = '']: RegExpExecArray) =>
      !existsSync(join(ROOT, path)) && !existsSync(join(ROOT, 'src', path));
    assert.deepEqual(wrong(MARKDOWN, quoted, isNowhere), []);
  });

  it('number rules that docs/semantics.md has', () => {
    const numbers = semanticsAnchors();
    const rules = /semantics\.md ((?:\d+(?:\.\d+)*(?:, | and | to )?)+)/g;
    const isUnknown = ([, list = '']: RegExpExecArray) =>
      [...list.matchAll(/\d+(?:\.\d+)*/g)].some(([number]) => !numbers.has(number));
    assert.deepEqual(wrong([...SOURCES, ...MARKDOWN], rules, isUnknown), []);
    assert.ok(numbers.size > 50, `${numbers.size} rules were found`);
  });

  it('number the rules one after another', () => {
    const numbers = [...semanticsAnchors().keys()].map((number) => number.split('.').map(Number));
    const follows = (at: readonly number[], before: readonly number[]) => {
      const depth = at.length - 1;
      const isFirst = at[depth] === 1 && at.slice(0, depth).join() === before.join();
      const isNext =
        at[depth] === (before[depth] ?? 0) + 1 && at.slice(0, depth).join() === before.slice(0, depth).join();
      return isFirst || isNext;
    };
    assert.deepEqual(
      numbers.filter((number, i) => !follows(number, numbers[i - 1] ?? [])).map((number) => number.join('.')),
      [],
    );
  });

  it('number invariants that docs/architecture.md has', () => {
    const [, invariants = ''] = /^## Invariants\n(.*?)^## /ms.exec(textOf('docs/architecture.md')) ?? [];
    const numbers = new Set([...invariants.matchAll(/^(\d+)\. /gm)].map(([, number]) => number));
    assert.deepEqual(
      wrong(SOURCES, /\binvariants? (\d+)/g, ([, number]) => !numbers.has(number)),
      [],
    );
  });

  it('name no document that is not here', () => {
    const elsewhere = /\b(?:reference|design),? (?:section )?\d+(?:\.\d+)?/gi;
    assert.deepEqual(
      wrong([...SOURCES, ...MARKDOWN], elsewhere, () => true),
      [],
    );
  });

  it('quote log lines and reasons that the program has, in docs/troubleshoot.md', () => {
    const program = SOURCES.filter((file) => file.startsWith('src') && file.endsWith('.ts'))
      .map(textOf)
      .join('\n');
    const manual = textOf('docs/troubleshoot.md');
    const quoted = ['Reasons of the health answers', 'Errors and what to do'].flatMap((chapter) =>
      quotedIn(manual, chapter),
    );
    assert.deepEqual(
      quoted.filter((part) => !program.includes(part)),
      [],
    );
    assert.ok(quoted.length > 40, `${quoted.length} were found`);
  });
});
