/** docs/reference/upstream.md: the cases of Kubernetes' own tests, and what holds each of them here. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { STORIES } from '../conformance/stories/index.ts';
import { isFile, isWithin, type UpstreamCase } from './cases.ts';
import { type Held, heldBy, UPSTREAM } from './index.ts';

export const UPSTREAM_PAGE = join(fileURLToPath(new URL('../..', import.meta.url)), 'docs/reference/upstream.md');
/** A cell of docs/reference/conformance.md names no more cases than these. */
const NAMED = 6;
const TITLES = new Map(STORIES.map(({ id, title }) => [id, title]));
const WORDS: Readonly<Record<Held, string>> = { story: 'stories', test: 'tests', partly: 'in part', not: 'not' };

/** The whole page. */
export function upstreamPage(): string {
  const all = UPSTREAM.flatMap(({ cases }) => cases);
  return [
    '# Kubernetes’ own tests',
    '',
    '`npm run conformance` writes this page; do not edit it.',
    'It lists the cases of Kubernetes’ own tests that are about a service proxy, by their file, and what holds each of them here:',
    'a story (quoted; [conformance.md](conformance.md) has them all) or a test file.',
    'Rows of one test function that are held alike are one line with their number.',
    'A case that nothing holds has the reason.',
    'The column "otherwise" also says what slicewire does otherwise on purpose.',
    'The titles are those of Kubernetes 1.36, with those of newer files; the stories and tests are slicewire’s own.',
    'The restated end-to-end tests run in nftables mode; a third of them, those that differ most by mode, also in iptables mode, and none in',
    'IPVS mode, whose traffic the stories and `test/vm` have.',
    '`node test/upstream/compare.ts PATH` compares the lists with a checkout of Kubernetes.',
    '',
    `${number(all)} cases: ${countsOf(all)}.`,
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

/** How many of the cases something is true of; a line that stands for several rows counts as many. */
function number(cases: readonly UpstreamCase[], isMeant: (one: UpstreamCase) => boolean = () => true): number {
  return cases.reduce((sum, one) => sum + (isMeant(one) ? one.rows : 0), 0);
}

const numberHeld = (cases: readonly UpstreamCase[], held: Held) => number(cases, (one) => heldBy(one) === held);
const numberOtherwise = (cases: readonly UpstreamCase[]) => number(cases, ({ differs }) => differs !== undefined);

function countsOf(cases: readonly UpstreamCase[]): string {
  return [
    `${numberHeld(cases, 'story')} are held by ${WORDS.story}`,
    `${numberHeld(cases, 'test')} by ${WORDS.test} alone`,
    `${numberHeld(cases, 'partly')} ${WORDS.partly}`,
    `${numberHeld(cases, 'not')} are ${WORDS.not} held here, each with its reason`,
    `of all of them slicewire does ${numberOtherwise(cases)} otherwise on purpose`,
  ].join('; ');
}

function figures(cases: readonly UpstreamCase[]): string[] {
  const held = (['story', 'test', 'partly', 'not'] as const).map((how) => numberHeld(cases, how));
  return [number(cases), ...held, numberOtherwise(cases)].map(String);
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
    const line = { titles: named(one, cases), held: holders(one), otherwise: otherwise(one) };
    const last = lines.at(-1);
    const isAlike = last?.held === line.held && last.otherwise === line.otherwise && rest.length > 0;
    if (last === undefined || !isAlike || !last.titles.startsWith(`${name}/`)) lines.push(line);
    else lines[lines.length - 1] = { ...line, titles: `${last.titles}; ${rest.join('/')}` };
  }
  return lines;
}

/** A function with the number of its rows: of all, or of those that have no line of their own. */
function named({ title, rows }: UpstreamCase, cases: readonly UpstreamCase[]): string {
  if (rows === 1) return title;
  const hasOthers = cases.some((other) => other.title !== title && isWithin(other.title, title));
  return `${title}: ${rows} ${hasOthers ? 'other ' : ''}rows`;
}

const holders = ({ by }: UpstreamCase) =>
  by.map((holder) => (isFile(holder) ? `\`${holder}\`` : `"${TITLES.get(holder)}"`)).join('; ');

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

/** The cases that the story of an id restates, in short: test functions with the proxiers that have them, and tests of end to end. */
export function upstreamOf(story: string): string {
  const where = new Map<string, Set<string>>();
  for (const { path, cases } of UPSTREAM) {
    for (const { title, by } of cases) {
      if (!by.includes(story)) continue;
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
