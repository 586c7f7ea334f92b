/**
 * Runs tiers of tests, one part after another. It prints a line for each file that ends, and a summary: a table, the slowest files, skipped
 * tests with their reasons, failures in full.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { realCommands } from '../src/kernel/commands.ts';
import { type FileResult, runFiles } from './test-files.ts';
import { filesOf, type Part, type Tier } from './test-tiers.ts';

interface RunInput {
  readonly tiers: readonly Tier[];
  /** The folder of the repository. */
  readonly root: string;
  readonly isRoot: boolean;
  /** Leave out what `.ci/run` leaves out. */
  readonly isCI?: boolean;
  readonly print: (line: string) => void;
  /** Milliseconds of a clock that only goes forward. */
  readonly now?: () => number;
}

/** A run that takes this many times its budget prints a note. It does not fail, because a busy machine takes twice as long. */
const MAX_OF_BUDGET = 1.5;
/** A run that takes this many times its budget hangs, and is ended. */
const END_OF_BUDGET = 3;

/** Returns the exit status. */
export async function runTiers(input: RunInput): Promise<number> {
  const { tiers, root, isRoot, isCI = false, print, now = () => performance.now() } = input;
  const parts: PartResult[] = [];
  const problems: string[] = [];
  const notes: string[] = [];
  const begun = now();
  for (const tier of tiers) {
    // All tools at once, so that apt reads its lists once. Users other than root run the parts whose tools are there.
    const inThisRun = tier.parts.filter(({ leftOutOfCI }) => !isCI || leftOutOfCI === undefined);
    const tools = isRoot ? [...new Set(inThisRun.flatMap((part) => part.tools))] : [];
    if (tools.length > 0) print(`${tier.name}: preparing ${tools.join(', ')}`);
    const missing = await prepare(root, tools);
    if (missing !== undefined) {
      problems.push(`${tier.name} did not run: ${missing}`);
      continue;
    }
    const tierBegun = now();
    // A value left in the environment may be that of an old executable.
    delete process.env.SLICEWIRE_PROGRAM;
    const built = tier.isBuilt === true && isRoot ? await build(root) : undefined;
    if (typeof built === 'string') {
      problems.push(`${tier.name} did not run: ${built}`);
      continue;
    }
    const signal = AbortSignal.timeout(Math.round(tier.budget * END_OF_BUDGET * 1000));
    try {
      for (const part of tier.parts) parts.push(await runPart(tier, part, { root, isRoot, isCI, print, signal }));
    } finally {
      await built?.remove();
    }
    const seconds = (now() - tierBegun) / 1000;
    if (seconds > tier.budget * MAX_OF_BUDGET) {
      notes.push(
        `${tier.name} took ${seconds.toFixed(0)} s. Its budget is ${tier.budget} s on a machine that does nothing else (scripts/test-tiers.ts).`,
      );
    }
  }
  const title = tiers.map(({ command }) => command).join(', ');
  for (const line of summary({ title, parts, problems, notes, seconds: (now() - begun) / 1000 })) print(line);
  const isGood = problems.length === 0 && parts.every(({ files }) => files.every(hasPassed));
  return isGood ? 0 : 1;
}

const secondsSince = (begun: number) => (performance.now() - begun) / 1000;
const hasPassed = ({ failures, tests, passed, skipped }: FileResult) =>
  failures.length === 0 && tests === passed + skipped.length;

interface PartInput extends Omit<RunInput, 'tiers' | 'now'> {
  readonly signal: AbortSignal;
}

async function runPart(tier: Tier, part: Part, input: PartInput): Promise<PartResult> {
  const { root, print, signal } = input;
  const base = { tier: tier.name, part: part.name };
  const begun = performance.now();
  const leftOut = await reasonToLeaveOut(tier, part, input);
  if (leftOut !== undefined) {
    print(`left out: ${part.name}. ${leftOut}`);
    return { ...base, files: [], seconds: 0, leftOut };
  }
  const onFile = (file: string, seconds: number, hasFailed: boolean) =>
    print(progress(part.name, { file, seconds, hasFailed }));
  const ran: FileResult[] = [];
  for (const program of part.programs ?? []) ran.push(await runProgram(program, input, onFile));
  const files = filesOf(part, root);
  const { concurrency, filesOfProcess = 1 } = part;
  ran.push(...(await runFiles(files, { root, concurrency, filesOfProcess, signal, onFile })));
  return { ...base, files: ran, seconds: secondsSince(begun) };
}

async function reasonToLeaveOut(
  tier: Tier,
  part: Part,
  { root, isRoot, isCI }: PartInput,
): Promise<string | undefined> {
  if (isCI === true && part.leftOutOfCI !== undefined)
    return `${part.leftOutOfCI} Run it with: ${tier.command} -- ${part.name}`;
  if (isRoot) return undefined;
  return part.needsRoot ? `It needs root: run \`sudo ${tier.command}\`.` : await prepare(root, part.tools);
}

/** Installs missing tools. Returns the reason when some cannot be installed. */
async function prepare(root: string, tools: readonly string[]): Promise<string | undefined> {
  if (tools.length === 0) return undefined;
  const command = { file: 'sh', args: [`${root}/scripts/prepare.sh`, ...tools] };
  const { exitCode, stderr } = await realCommands.run(command, new AbortController().signal);
  return exitCode === 0 ? undefined : stderr.trim();
}

interface Built {
  remove(): Promise<void>;
}

/** Builds the executable that the tests start (test/helpers/cli/slicewire.ts). Returns the reason when it cannot be built. */
async function build(root: string): Promise<Built | string> {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-built-'));
  // Users without rights, whom some tests act as, start it too.
  await chmod(folder, 0o755);
  const output = join(folder, 'slicewire');
  const command = { file: process.execPath, args: [join(root, 'scripts/build.ts'), `--output=${output}`] };
  const { exitCode, stdout, stderr } = await realCommands.run(command, new AbortController().signal);
  const remove = async () => {
    delete process.env.SLICEWIRE_PROGRAM;
    await rm(folder, { recursive: true });
  };
  if (exitCode !== 0) {
    await remove();
    return `the executable could not be built: ${stdout}${stderr}`;
  }
  process.env.SLICEWIRE_PROGRAM = output;
  return { remove };
}

type OnFile = (file: string, seconds: number, hasFailed: boolean) => void;

async function runProgram(
  [name = '', ...args]: readonly string[],
  { root, signal }: PartInput,
  onFile: OnFile,
): Promise<FileResult> {
  const begun = performance.now();
  const command = { file: 'env', args: ['-C', root, `${root}/node_modules/.bin/${name}`, ...args] };
  const { exitCode, stdout, stderr } = await realCommands.run(command, signal);
  const seconds = secondsSince(begun);
  const file = [name, ...args].join(' ');
  const failures = exitCode === 0 ? [] : [{ file, name: `exit status ${exitCode}`, error: `${stdout}${stderr}` }];
  onFile(file, seconds, exitCode !== 0);
  return { file, seconds, tests: 1, passed: exitCode === 0 ? 1 : 0, suites: 0, skipped: [], failures };
}

interface PartResult {
  readonly tier: string;
  readonly part: string;
  readonly seconds: number;
  readonly files: readonly FileResult[];
  /** Why the part did not run. */
  readonly leftOut?: string;
}

/** Line that the summary begins with; .ci/run looks for it. */
const SUMMARY = '═══ Summary:';
const SLOWEST = 10;

interface Totals {
  readonly tests: number;
  readonly suites: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

function totals(files: readonly FileResult[]): Totals {
  const sum = (of: (file: FileResult) => number) => files.reduce((total, file) => total + of(file), 0);
  const [tests, passed, skipped] = [sum((f) => f.tests), sum((f) => f.passed), sum((f) => f.skipped.length)];
  return { tests, passed, skipped, failed: tests - passed - skipped, suites: sum((file) => file.suites) };
}

function progress(part: string, { file, seconds, hasFailed }: Ended): string {
  return `${hasFailed ? 'FAIL' : 'ok  '} ${seconds.toFixed(1).padStart(6)} s  ${part.padEnd(12)} ${file}`;
}

interface Ended {
  readonly file: string;
  readonly seconds: number;
  readonly hasFailed: boolean;
}

interface SummaryInput {
  readonly title: string;
  readonly parts: readonly PartResult[];
  /** Reasons to fail that are no test. */
  readonly problems: readonly string[];
  /** Remarks for people: nothing failed. */
  readonly notes: readonly string[];
  readonly seconds: number;
}

/** Ends with the lines that `node --test` ends with. */
function summary({ title, parts, problems, notes, seconds }: SummaryInput): string[] {
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
