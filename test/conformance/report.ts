/**
 * Writes docs/reference/conformance.md (every story, in every mode, and which tests hold regressions) and docs/reference/upstream.md.
 * `npm run conformance` writes both; tests keep them true.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { FAMILIES } from '../../src/base/address.ts';
import { semanticsAnchors } from '../helpers/docs/semantics.ts';
import { UPSTREAM_PAGE, upstreamOf, upstreamPage } from '../upstream/page.ts';
import { REGRESSIONS, ROWS } from './coverage.ts';
import { ENHANCEMENTS } from './enhancements.ts';
import { IPTABLES } from './iptables.ts';
import { IPVS } from './ipvs.ts';
import { NFTABLES } from './nftables.ts';
import { AREAS, STORIES } from './stories/index.ts';
import { otherEnd, type Story } from './story.ts';
import { isTestedIn, type ModeUnderTest, tellStory } from './suite.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const REPORT = join(ROOT, 'docs/reference/conformance.md');
const MODES: readonly ModeUnderTest[] = [IPTABLES, IPVS, NFTABLES];
const ANCHORS = semanticsAnchors();
/** Line of the number of stories. */
const COUNT_AT = 15;
const STORY_FOLDER = 'test/conformance/stories';

/** Stories that cover a row or an issue. */
export function storiesFor(id: string): Story[] {
  return STORIES.filter((story) => story.covers.includes(id));
}

/** Test files, but for stories, that name an issue. */
export function testsFor(issue: string): string[] {
  const files = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' }).map((file) =>
    join('test', file),
  );
  // In a title: a comment may outlive its test.
  const named = new RegExp(`(?:it|test|describe)\\((?:'|"|\`)[^\\n]*${issue}(?!\\d)`);
  const isTest = (file: string) => file.endsWith('.test.ts') && !file.startsWith(STORY_FOLDER);
  return files.filter((file) => isTest(file) && named.test(readFileSync(join(ROOT, file), 'utf8'))).sort();
}

/** The whole document. */
export async function conformanceReport(): Promise<string> {
  const lines = [
    '# Conformance',
    '',
    '`npm run conformance` writes this page; do not edit it.',
    'A story has objects, a node, packets, and the expected fate of each packet.',
    'Every mode must agree with every story, in IPv4 and IPv6: a test interprets the rules instead of comparing their text.',
    'Where the column "real" says yes, the same packets also pass a kernel, and must meet the same fate:',
    'in `test/netns` with both variants of iptables and with nftables, in `test/vm` with IPVS, and about 20 of them with nftables on an older kernel.',
    'In the same run the agent reads that kernel, and the engine of `slicewire explain` walks the same packets through what was read: it must tell the same fates.',
    'The column "follows" has the rules of [semantics.md](../semantics.md), KEPs and issues that a story holds.',
    'The column "upstream" has the tests of Kubernetes that a story restates; [upstream.md](upstream.md) lists them all, case by case,',
    'with the reason for each case that nothing here holds.',
    'Where a mode differs from kube-proxy on purpose, its column says so.',
    'A packet to a port that a Service does not have meets another fate in each mode',
    '([6.16](../semantics.md#616-ports-that-the-service-does-not-have)).',
    '',
  ];
  let failed = 0;
  for (const [area, stories] of Object.entries(AREAS)) {
    lines.push(`## ${area}`, '', ...header());
    for (const story of stories) {
      const results = await Promise.all(MODES.map((mode) => resultOf(mode, story)));
      failed += results.filter((result) => result.startsWith('FAILS')).length;
      const real = story.onlyInterpreted ?? 'yes';
      const follows = story.covers.map(linked).join(', ');
      lines.push(row(story.title, `\`${story.field}\``, follows, upstreamOf(story.id), ...results, real));
    }
    lines.push('');
  }
  lines.push('## What the stories cover', '', ...rowTable(), '', '## Regressions', '', ...regressionTable(), '');
  lines.push('## Enhancements of Kubernetes', '', ENHANCEMENTS_SAY, '', ...enhancementTable(), '');
  lines.splice(COUNT_AT, 0, `${STORIES.length} stories; ${failed === 0 ? 'none fails' : `${failed} FAIL`}.`, '');
  return lines.join('\n');
}

/** The number of a rule with its link; a KEP or an issue as it is. */
function linked(id: string): string {
  const anchor = ANCHORS.get(id);
  return anchor === undefined ? id : `[${id}](../semantics.md#${anchor})`;
}

function header(): string[] {
  const modes = MODES.map(({ mode }) => mode);
  return [
    row('story', 'field', 'follows', 'upstream', ...modes, 'real'),
    row(...['', '', '', '', ...modes, ''].map(() => '---')),
  ];
}

function row(...cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`;
}

async function resultOf(mode: ModeUnderTest, story: Story): Promise<string> {
  const reason = mode.differs[story.id];
  if (reason !== undefined) return reason;
  for (const family of FAMILIES.filter((candidate) => isTestedIn(story, candidate))) {
    try {
      await tellStory(mode, story, family);
    } catch (error) {
      return `FAILS in ${family}: ${(error as Error).message.split('\n')[0]}`;
    }
  }
  const families = story.families === undefined ? [] : [`${story.families.join(', ')} alone`];
  const other = otherEnd(story, mode.mode);
  const otherwise = other === undefined ? [] : [`kube-proxy ${other.does}`];
  const notes = [...families, ...otherwise];
  return notes.length === 0 ? 'pass' : `pass (${notes.join('; ')})`;
}

function rowTable(): string[] {
  const rows = Object.entries(ROWS).map(([id, says]) => row(linked(id), says, String(storiesFor(id).length)));
  return [row('rule', 'in short', 'stories'), row('---', '---', '---'), ...rows];
}

const ENHANCEMENTS_SAY =
  'The enhancements (KEPs) that a service proxy or the controllers of slices meet, their stage in Kubernetes 1.37, and where each stands here.';

/** Stories and tests that name an issue or a KEP, and other tests that show it. */
export function heldBy(id: string, shown: readonly string[] = []): string[] {
  const files = [...new Set([...testsFor(id), ...shown])];
  return [...storiesFor(id).map(({ title }) => `"${title}"`), ...files.map((file) => `\`${file}\``)];
}

function enhancementTable(): string[] {
  const rows = Object.entries(ENHANCEMENTS).map(([id, { says, upstream, here, shown }]) =>
    row(id, says, upstream, here, heldBy(id, shown).join('; ')),
  );
  return [
    row('KEP', 'about', 'in Kubernetes', 'here', 'held by'),
    row(...['', '', '', '', ''].map(() => '---')),
    ...rows,
  ];
}

function regressionTable(): string[] {
  const rows = Object.entries(REGRESSIONS).map(([issue, says]) => row(issue, says, heldBy(issue).join('; ')));
  return [row('issue', 'what happened', 'held by'), row('---', '---', '---'), ...rows];
}

if (import.meta.main) {
  commandLine({
    command: 'npm run conformance',
    about: 'Runs the stories in every mode, and writes docs/reference/conformance.md and docs/reference/upstream.md.',
  });
  writeFileSync(REPORT, await conformanceReport());
  writeFileSync(UPSTREAM_PAGE, upstreamPage());
}
