/** docs/reference/upstream.md: the cases of Kubernetes' own tests, and what holds each of them here. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { UpstreamCase } from './cases.ts';
import { type Held, heldBy, UPSTREAM } from './index.ts';

export const UPSTREAM_PAGE = join(fileURLToPath(new URL('../..', import.meta.url)), 'docs/reference/upstream.md');
/** A cell of docs/reference/conformance.md names no more cases than these. */
const NAMED = 6;
const WORDS: Readonly<Record<Held, string>> = { story: 'stories', test: 'tests', partly: 'in part', not: 'not' };

/** The whole page. */
export function upstreamPage(): string {
  const all = UPSTREAM.flatMap(({ cases }) => cases);
  return [
    '# Kubernetes’ own tests',
    '',
    '`npm run conformance` writes this page; do not edit it.',
    'It lists the cases of Kubernetes’ own tests that are about a service proxy, by their file, and what holds each of them here:',
    'a story (quoted; [conformance.md](conformance.md) has them all) or a test.',
    'A case that nothing holds has the reason.',
    'The column "otherwise" also says what slicewire does otherwise on purpose.',
    'The titles are those of Kubernetes 1.36, with those of newer files; the stories and tests are slicewire’s own.',
    'The restated end-to-end tests run in nftables mode; a third of them, those that differ most by mode, also in iptables mode, and none in',
    'IPVS mode, whose traffic the stories and `test/vm` have.',
    '`node test/upstream/compare.ts PATH` compares the lists with a checkout of Kubernetes.',
    '',
    `${all.length} cases: ${countsOf(all)}.`,
    '',
    '| file | cases | stories | tests | in part | not | otherwise on purpose |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...UPSTREAM.map(({ path, cases }) => row(`[${path}](#${anchorOf(path)})`, ...figures(cases))),
    '',
    ...UPSTREAM.flatMap(({ path, cases }) => [
      `## ${path}`,
      '',
      row('case', 'held by', 'otherwise'),
      row('---', '---', '---'),
      ...grouped(cases).map(({ titles, held, otherwise }) => row(titles, held, otherwise)),
      '',
    ]),
  ].join('\n');
}

function countsOf(cases: readonly UpstreamCase[]): string {
  const by = (held: Held) => cases.filter((one) => heldBy(one) === held).length;
  const differ = cases.filter(({ differs }) => differs !== undefined).length;
  return [
    `${by('story')} are held by ${WORDS.story}`,
    `${by('test')} by ${WORDS.test} alone`,
    `${by('partly')} ${WORDS.partly}`,
    `${by('not')} are ${WORDS.not} held here, each with its reason`,
    `of all of them slicewire does ${differ} otherwise on purpose`,
  ].join('; ');
}

function figures(cases: readonly UpstreamCase[]): string[] {
  const by = (held: Held) => String(cases.filter((one) => heldBy(one) === held).length);
  const differ = cases.filter(({ differs }) => differs !== undefined).length;
  return [String(cases.length), by('story'), by('test'), by('partly'), by('not'), String(differ)];
}

interface Line {
  readonly titles: string;
  readonly held: string;
  readonly otherwise: string;
}

/** Rows of one function that follow each other and are held alike are one line. */
function grouped(cases: readonly UpstreamCase[]): Line[] {
  const lines: Line[] = [];
  for (const one of cases) {
    const [name = '', ...rest] = one.title.split('/');
    const line = { titles: one.title, held: holders(one).join('; '), otherwise: otherwise(one) };
    const last = lines.at(-1);
    const isAlike = last?.held === line.held && last.otherwise === line.otherwise && rest.length > 0;
    if (last === undefined || !isAlike || !last.titles.startsWith(`${name}/`)) lines.push(line);
    else lines[lines.length - 1] = { ...line, titles: `${last.titles}; ${rest.join('/')}` };
  }
  return lines;
}

function holders({ title, stories = [], tests = {} }: UpstreamCase): string[] {
  const quoted = (titles: readonly string[]) => titles.map((one) => `"${one}"`).join(', ');
  const isSame = (titles: readonly string[]) => titles.every((one) => title.endsWith(one.replace(/^.* > /, '')));
  return [
    ...stories.map((story) => `"${story}"`),
    ...Object.entries(tests).map(
      ([file, titles]) => `\`${file}\`: ${isSame(titles) ? 'the test of the same name' : quoted(titles)}`,
    ),
  ];
}

function otherwise({ not, differs }: UpstreamCase): string {
  return [
    ...(not === undefined ? [] : [`not here: ${not}`]),
    ...(differs === undefined ? [] : [`differs: ${differs}`]),
  ].join('; ');
}

/** As GitHub makes the anchor of a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-');

const row = (...cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;

/** The cases that a story restates, in short: test functions with the proxiers that have them, and tests of end to end. */
export function upstreamOf(story: string): string {
  const where = new Map<string, Set<string>>();
  for (const { path, cases } of UPSTREAM) {
    for (const { title, stories = [] } of cases) {
      if (!stories.includes(story)) continue;
      const name = path.startsWith('test/e2e') ? `"${title}"` : (title.split('/')[0] ?? title);
      where.set(name, (where.get(name) ?? new Set()).add(placeOf(path)));
    }
  }
  const names = [...where].map(([name, places]) => `${name} (${[...places].join(', ')})`);
  const rest = names.length - NAMED;
  return rest <= 0 ? names.join(', ') : `${names.slice(0, NAMED).join(', ')} and [${rest} more](upstream.md)`;
}

/** The proxier, or the file without its ending. */
function placeOf(path: string): string {
  if (path.startsWith('test/e2e')) return 'e2e';
  const proxier = /^pkg\/proxy\/(\w+)\/proxier_test\.go$/.exec(path)?.[1];
  return proxier ?? path.replace(/^.*\//, '').replace(/_test\.go$/, '');
}
