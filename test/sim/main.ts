/**
 * The simulator: `npm run sim` runs histories from random seeds until its time is up, or a failure.
 * `--seed N` repeats one; `--hours H`, `--minutes M` or `--count C` say how long; `--every-call` puts each fault at each call of a short history.
 */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { everyCall } from './every-call.ts';
import { planOf } from './history/plan.ts';
import { shrink } from './history/shrink.ts';
import { failureText, type Outcome, runHistory } from './run-history.ts';

/** Histories that may be run to make a failing one shorter. */
const SHRINKING = 400;

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

async function main(): Promise<number> {
  if (values.seed !== undefined) {
    const { failure, calls, commits, digest } = await one(Number(values.seed));
    print(`${failure === undefined ? 'held' : 'failed'}: ${calls} calls, ${commits} commits, digest ${digest}`);
    return failure === undefined ? 0 : 1;
  }
  if (values['every-call']) return await everyCall(print);
  const minutes = values.hours === undefined ? Number(values.minutes ?? 3) : Number(values.hours) * 60;
  const end = Date.now() + minutes * 60_000;
  const most = Number(values.count ?? Number.POSITIVE_INFINITY);
  const first = Number(values.from ?? Math.floor(Math.random() * 2 ** 31));
  print(`histories from seed ${first} on, ${cpus().length} processors`);
  let [count, failed, calls, commits, starts, duration] = [0, 0, 0, 0, 0, 0];
  for (let seed = first; Date.now() < end && count < most; seed++) {
    const outcome = await one(seed);
    if (outcome.failure !== undefined) {
      failed += 1;
      if (!values['keep-going']) return 1;
    }
    count += 1;
    calls += outcome.calls;
    commits += outcome.commits;
    starts += outcome.starts;
    duration += outcome.duration;
  }
  print(
    `${count} histories held: ${calls} calls, ${commits} commits, ${starts} starts, ${Math.round(duration / 3_600_000)} simulated hours`,
  );
  return 0;
}

process.exitCode = await main();
