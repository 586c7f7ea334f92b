/** Breaks the code by one mutant, and looks whether its test fails, or a history of the simulator. */
import { execa } from 'execa';
import type { Mutant } from './list.ts';
import { MARK } from './reporter.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const HOOK = new URL('hook.ts', import.meta.url).pathname;
const REPORTER = new URL('reporter.ts', import.meta.url).pathname;
const SIMULATOR = new URL('../main.ts', import.meta.url).pathname;
/** Histories begin with this seed, so that the table is the same each time. */
export const FIRST_SEED = 1;
/** Milliseconds. A broken agent may wait for ever. */
const LONGEST_TEST = 120_000;

/** `by`: the history or the file of the test; `as`: what fails. */
export interface Find {
  readonly by: string;
  readonly as: string;
}

/** Resolves with undefined when the mutant lives. `histories`: at most so many are run for a mutant without a test. */
export function find(mutant: Mutant, histories: number): Promise<Find | undefined> {
  return mutant.test === undefined ? findByHistories(mutant, histories) : findByTest(mutant, mutant.test);
}

/** Ends with the first test that fails: later ones may wait for what never comes. */
async function findByTest({ name }: Mutant, file: string): Promise<Find | undefined> {
  const flags = ['--import', HOOK, '--test', '--test-isolation=none', `--test-reporter=${REPORTER}`];
  const child = execa(process.execPath, [...flags, file], {
    cwd: ROOT,
    env: { SIM_MUTANT: name, NODE_TEST_CONTEXT: undefined },
    reject: false,
    timeout: LONGEST_TEST,
    stderr: 'inherit',
  });
  for await (const line of child) {
    if (!line.startsWith(MARK)) continue;
    child.kill('SIGKILL');
    const as = line.slice(MARK.length);
    // The runner takes a file that cannot be loaded for a test of that name.
    if (as.endsWith('.test.ts')) throw new Error(`mutant ${name}: ${file} cannot be loaded`);
    return { by: file, as };
  }
  const { timedOut, exitCode } = await child;
  if (timedOut || exitCode !== 0) throw new Error(`mutant ${name}: ${file} does not run to its end`);
  return undefined;
}

async function findByHistories({ name }: Mutant, most: number): Promise<Find | undefined> {
  const range = ['--from', String(FIRST_SEED), '--count', String(most), '--minutes', '10'];
  const { stdout, exitCode } = await execa(
    process.execPath,
    ['--import', HOOK, SIMULATOR, ...range, '--no-shrinking'],
    { reject: false, env: { SIM_MUTANT: name }, stderr: 'inherit' },
  );
  const [, seed, as = ''] = /^seed (\d+) fails: (.*)$/m.exec(stdout) ?? [];
  if (seed !== undefined) return { by: `history ${Number(seed) - FIRST_SEED + 1}`, as };
  if (exitCode !== 0) throw new Error(`mutant ${name}: the simulator failed without a seed:\n${stdout}`);
  return undefined;
}
