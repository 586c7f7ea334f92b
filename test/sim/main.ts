/**
 * The simulator: `npm run sim` runs histories from random seeds until its time is up, or a failure.
 * `--seed N` repeats one; `--hours H`, `--minutes M` or `--count C` say how long; `--every-call` puts each fault at each call of a short history.
 * As root, the writes of every 50th history (of each one with `--real`) are also carried out by a real kernel, in a network namespace.
 */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { everyCall } from './every-call.ts';
import { planOf } from './history/plan.ts';
import { shrink } from './history/shrink.ts';
import { runWithReal } from './real/run-real.ts';
import { failureText, type Outcome, runHistory } from './run-history.ts';

/** Histories that may be run to make a failing one shorter. */
const SHRINKING = 400;
/** Of so many histories one is compared with a real kernel. */
const REAL_EVERY = 50;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    from: { type: 'string' },
    count: { type: 'string' },
    minutes: { type: 'string' },
    hours: { type: 'string' },
    'every-call': { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
    'keep-going': { type: 'boolean', default: false },
    'no-shrinking': { type: 'boolean', default: false },
    real: { type: 'boolean', default: false },
    record: { type: 'boolean', default: false },
  },
});

const print = (text: string) => process.stdout.write(`${text}\n`);

async function one(seed: number): Promise<Outcome> {
  const plan = planOf(seed);
  const trace = values.trace ? print : undefined;
  const outcome = await runHistory(plan, { trace });
  if (outcome.failure === undefined) return outcome;
  const { kind } = outcome.failure;
  print(`seed ${seed} fails: ${kind}`);
  if (values['no-shrinking']) print(`  ${outcome.failure.text.split('\n')[0]}`);
  if (values['no-shrinking']) return outcome;
  print('making the history shorter …');
  const exact = { ...plan, faults: outcome.faults };
  const shorter = await shrink(exact, async (shorter) => (await runHistory(shorter)).failure?.kind === kind, SHRINKING);
  const { failure = outcome.failure } = await runHistory(shorter);
  print(failureText(shorter, failure));
  print(`repeat it with: npm run sim -- --seed ${seed}`);
  return outcome;
}

const isRoot = process.getuid?.() === 0;

/** Whether the simulated kernel did as a real one does. */
async function isHonest(seed: number): Promise<boolean> {
  const { writes, differences } = await runWithReal(planOf(seed));
  if (differences.length === 0) {
    if (values.real) print(`seed ${seed}: a real kernel did the same ${writes} writes`);
    return true;
  }
  print(`seed ${seed}: a real kernel does not do as the simulated one`);
  for (const line of differences) print(`  ${line}`);
  print(`repeat it with: npm run sim -- --real --seed ${seed}`);
  return false;
}

async function main(): Promise<number> {
  if (values.real && !isRoot) throw new Error('--real needs root: it makes network namespaces');
  if (values.seed !== undefined) {
    const { failure, calls, commits, digest } = await one(Number(values.seed));
    print(`${failure === undefined ? 'held' : 'failed'}: ${calls} calls, ${commits} commits, digest ${digest}`);
    const isTrue = !values.real || (await isHonest(Number(values.seed)));
    return failure === undefined && isTrue ? 0 : 1;
  }
  if (values['every-call']) return await everyCall(print);
  const minutes = values.hours === undefined ? Number(values.minutes ?? 3) : Number(values.hours) * 60;
  const end = Date.now() + minutes * 60_000;
  const most = Number(values.count ?? Number.POSITIVE_INFINITY);
  const first = Number(values.from ?? Math.floor(Math.random() * 2 ** 31));
  print(`histories from seed ${first} on, ${cpus().length} processors`);
  if (!isRoot) print('no history is compared with a real kernel: that needs root');
  let [count, compared, calls, commits, starts, duration] = [0, 0, 0, 0, 0, 0];
  for (let seed = first; Date.now() < end && count < most; seed++) {
    const outcome = await one(seed);
    if (outcome.failure !== undefined && !values['keep-going']) return 1;
    count += 1;
    const isCompared = isRoot && (values.real || count % REAL_EVERY === 0);
    if (isCompared && !(await isHonest(seed)) && !values['keep-going']) return 1;
    compared += isCompared ? 1 : 0;
    calls += outcome.calls;
    commits += outcome.commits;
    starts += outcome.starts;
    duration += outcome.duration;
  }
  print(
    `${count} histories held: ${calls} calls, ${commits} commits, ${starts} starts, ${Math.round(duration / 3_600_000)} simulated hours, ${compared} compared with a real kernel`,
  );
  return 0;
}

process.exitCode = await main();
