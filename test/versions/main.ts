/**
 * `npm run versions`: a soak in which the agents of two versions follow each other, forth and back in both modes without IPVS; the same in
 * IPVS mode, and what each reads of the other, where the kernel has IPVS.
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { commandLine } from '../../scripts/arguments.ts';
import { recordPart } from '../reliability/results.ts';
import { carryOut, interrupted } from '../soak/command.ts';
import { MARK, type TestResult } from '../vm/reporter.ts';
import { runThere } from '../vm/run-there.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const { values } = commandLine({
  command: 'npm run versions',
  about:
    'Runs tests of agents, recordings and fleets one version apart, and a soak in which every second life of the agent is one of an earlier version. Prints what they found, and ends with 1 when something was wrong. Needs root, and the history of git.',
  options: {
    from: { type: 'string', value: 'COMMIT', default: 'HEAD~1', help: 'the earlier version; it is built' },
    minutes: {
      type: 'string',
      value: 'N',
      default: '10',
      least: 1,
      help: 'how long; a sixth of it more without restarts',
    },
    record: { type: 'boolean', help: 'writes it to docs/reliability.json and docs/reliability.md' },
  },
});

const signal = interrupted();
const folder = mkdtempSync(join(tmpdir(), 'slicewire-versions-'));

/** Runs a command and returns what it printed. Its messages are shown. Throws when it fails, or is interrupted. */
async function run(cwd: string, file: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await execa(file, args, { cwd, cancelSignal: signal, stderr: 'inherit', env: { TMPDIR: folder } });
  return stdout;
}

/** Makes the executable of a commit, and returns its file. It is built with its own packages where they differ. */
async function build(commit: string): Promise<string> {
  const source = join(folder, 'source');
  mkdirSync(source);
  const archive = join(folder, 'source.tar');
  await run(ROOT, 'git', 'archive', '--output', archive, commit);
  await run(source, 'tar', '-x', '-f', archive);
  const differs = await run(ROOT, 'git', 'diff', '--name-only', commit, '--', 'package-lock.json');
  if (differs === '') symlinkSync(join(ROOT, 'node_modules'), join(source, 'node_modules'));
  else await run(source, 'npm', 'ci');
  const output = join(folder, 'slicewire');
  await run(source, join(source, 'node_modules/.bin/node'), 'scripts/build.ts', '--output', output);
  return output;
}

/** The tests of agents, recordings and fleets one version apart; a line for each. Throws where they did not run to their end. */
async function oneApart(other: string): Promise<readonly TestResult[]> {
  process.env.SLICEWIRE_FORMER = other;
  const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  const results: TestResult[] = [];
  const onResult = (one: TestResult) => {
    if (one.isSuite) return;
    results.push(one);
    process.stdout.write(`${one.error === undefined ? 'ok' : 'FAILED'} ${one.name}\n${one.error ?? ''}`);
  };
  const reporter = here('../vm/reporter.ts');
  const args = ['--test', `--test-reporter=${reporter}`, here('./one-apart.vm.ts')];
  const { status, said } = await runThere({ args, mark: MARK, onResult, signal });
  if (results.length === 0 || (status !== 0 && results.every(({ error }) => error === undefined)))
    throw new Error(`the tests one version apart ended with status ${status}:\n${said.join('\n')}`);
  return results;
}

const seconds = Number(values.minutes) * 60;
try {
  const commit = await run(ROOT, 'git', 'rev-parse', '--short', `${values.from}^{commit}`);
  const other = await build(commit);
  // First: the soak lowers the priority of this process.
  const apart = await oneApart(other);
  const tests = apart.map(({ name, error }) => ({ name, isRight: error === undefined }));
  const found = await carryOut(
    {
      ...{ seconds, tail: seconds / 6, restartEvery: 10, flushEvery: 120, services: 1000, perSecond: 50, seed: 1 },
      ...{ isSource: false, other, logFile: undefined },
    },
    signal,
  );
  if (apart.some(({ error }) => error !== undefined)) process.exitCode = 1;
  if (values.record) recordPart('versions', { former: commit, found, tests });
} catch (error) {
  if (!signal.aborted) throw error;
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
