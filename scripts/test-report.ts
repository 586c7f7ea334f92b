/** What a run of tests prints at its end: a table, the slowest files, skipped tests with their reasons, failures in full. */
import type { FileResult } from './test-files.ts';

export interface PartResult {
  readonly tier: string;
  readonly part: string;
  readonly seconds: number;
  readonly files: readonly FileResult[];
  /** Why the part did not run. */
  readonly leftOut?: string;
}

/** Line that the summary begins with; .ci/run looks for it. */
export const SUMMARY = '═══ Summary:';
const SLOWEST = 10;

export interface Totals {
  readonly tests: number;
  readonly suites: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export function totals(files: readonly FileResult[]): Totals {
  const sum = (of: (file: FileResult) => number) => files.reduce((total, file) => total + of(file), 0);
  const [tests, passed, skipped] = [sum((f) => f.tests), sum((f) => f.passed), sum((f) => f.skipped.length)];
  return { tests, passed, skipped, failed: tests - passed - skipped, suites: sum((file) => file.suites) };
}

export function progress(part: string, { file, seconds, hasFailed }: Ended): string {
  return `${hasFailed ? 'FAIL' : 'ok  '} ${seconds.toFixed(1).padStart(6)} s  ${part.padEnd(12)} ${file}`;
}

export interface Ended {
  readonly file: string;
  readonly seconds: number;
  readonly hasFailed: boolean;
}

export interface SummaryInput {
  readonly title: string;
  readonly parts: readonly PartResult[];
  /** Reasons to fail that are no test. */
  readonly problems: readonly string[];
  /** Remarks for people: nothing failed. */
  readonly notes: readonly string[];
  readonly seconds: number;
}

/** Ends with the lines that `node --test` ends with. */
export function summary({ title, parts, problems, notes, seconds }: SummaryInput): string[] {
  const files = parts.flatMap((part) => part.files);
  const all = totals(files);
  return [
    `${SUMMARY} ${title}`,
    '',
    ...table(parts),
    '',
    'slowest files:',
    ...[...files]
      .sort((a, b) => b.seconds - a.seconds)
      .slice(0, SLOWEST)
      .map((file) => `  ${file.seconds.toFixed(1).padStart(6)} s  ${file.file}`),
    ...skippedLines(files),
    ...parts.flatMap(({ part, leftOut }) => (leftOut === undefined ? [] : ['', `left out: ${part}. ${leftOut}`])),
    ...files.flatMap(({ failures }) => failures).flatMap(failureLines),
    ...notes.flatMap((note) => ['', `⚠ ${note}`]),
    ...problems.flatMap((problem) => ['', `✖ ${problem}`]),
    '',
    `ℹ tests ${all.tests}`,
    `ℹ suites ${all.suites}`,
    `ℹ pass ${all.passed}`,
    `ℹ fail ${all.failed}`,
    'ℹ cancelled 0',
    `ℹ skipped ${all.skipped}`,
    'ℹ todo 0',
    `ℹ duration_ms ${Math.round(seconds * 1000)}`,
  ];
}

function table(parts: readonly PartResult[]): string[] {
  const header = ['tier', 'part', 'files', 'tests', 'passed', 'failed', 'skipped', 'seconds'];
  const rows = parts.map(({ tier, part, files, seconds, leftOut }) => {
    if (leftOut !== undefined) return [tier, part, 'left out', '', '', '', '', ''];
    const { tests, passed, failed, skipped } = totals(files);
    const numbers = [files.length, tests, passed, failed, skipped].map(String);
    return [tier, part, ...numbers, seconds.toFixed(0)];
  });
  const widths = header.map((name, i) => Math.max(...[header, ...rows].map((row) => (row[i] ?? name).length)));
  return [header, ...rows].map((row) =>
    row.map((cell, i) => (i < 2 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('  '),
  );
}

function skippedLines(files: readonly FileResult[]): string[] {
  const reasons = Map.groupBy(
    files.flatMap(({ file, skipped }) => skipped.map((reason) => `${file}: ${reason}`)),
    (line) => line,
  );
  if (reasons.size === 0) return [];
  return ['', 'skipped:', ...[...reasons].map(([line, { length }]) => `  ${String(length).padStart(3)} × ${line}`)];
}

function failureLines({ file, name, error }: FileResult['failures'][number]): string[] {
  return ['', `✖ ${file}: ${name}`, ...error.split('\n').map((line) => `    ${line}`)];
}
