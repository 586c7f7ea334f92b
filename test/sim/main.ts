/** The simulator: `npm run sim -- --help` says what it takes. */
import { availableParallelism } from 'node:os';
import { commandLine } from '../../scripts/arguments.ts';
import { joined } from '../reliability/histories.ts';
import { measuredNow } from '../reliability/machine.ts';
import { readResults, recordPart } from '../reliability/results.ts';
import { resultText, runSeed } from './campaign.ts';
import { MODES } from './check/mode-world.ts';
import { everyCall } from './every-call.ts';
import { planOf } from './history/plan.ts';
import { runCampaign } from './parallel.ts';
import { allWays, breachText, KINDS, randomWays, type Ways, waysText } from './prefixes/ways.ts';
import { runWithReal } from './real/run-real.ts';

/** Histories that may be run to make a failing one shorter. */
const SHRINKING = 400;
const MINUTES = 3;
/** A line of progress comes after so many histories. */
const TOLD_EVERY = 500;
/** Of so many histories one is compared with a real kernel. */
const REAL_EVERY = 50;

const { values } = commandLine({
  command: 'npm run sim',
  about:
    'Runs histories of the real agent in a simulated world from a random seed on, until the time is over or one fails. As root it also carries out the writes of every 50th history in a real kernel, in a network namespace.',
  options: {
    seed: { type: 'string', value: 'N', least: 0, help: 'repeats the history of this seed alone' },
    from: { type: 'string', value: 'N', least: 0, help: 'the first seed' },
    count: { type: 'string', value: 'N', least: 1, help: 'at most so many histories' },
    minutes: { type: 'string', value: 'N', least: 0, help: `at most so long (${MINUTES} when neither is given)` },
    hours: { type: 'string', value: 'N', least: 0, help: 'the same in hours' },
    'every-call': { type: 'boolean', help: 'puts each fault at each call of a short history instead' },
    prefixes: {
      type: 'boolean',
      help: 'walks packets between all writes of random changes of one or two Services instead, in each mode and from mode to mode',
    },
    'all-pairs': {
      type: 'string',
      value: 'MODE',
      help: 'the same for each pair of states of one Service in this mode; takes some hours',
    },
    processors: { type: 'string', value: 'N', least: 1, help: 'uses so many processors; all by default' },
    'keep-going': { type: 'boolean', help: 'goes on after a failure' },
    'no-shrinking': { type: 'boolean', help: 'prints a failing history as it is, and looks for no shorter one' },
    real: { type: 'boolean', help: 'carries out the writes of every history in a real kernel; needs root' },
    trace: { type: 'boolean', help: 'prints every call; with --seed' },
    record: {
      type: 'boolean',
      help: 'writes the result to docs/reliability.json and docs/reliability.md; histories that follow those recorded there, on the same commit of the source, are added to them',
    },
  },
});

const print = (text: string) => process.stdout.write(`${text}\n`);
const isRoot = process.getuid?.() === 0;
const shrinking = values['no-shrinking'] ? 0 : SHRINKING;

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

async function one(seed: number): Promise<number> {
  const options = values.trace ? { trace: print } : {};
  const { failure, calls, commits, digest } = await runSeed(seed, { print, shrinking, options });
  print(`${failure === undefined ? 'held' : 'failed'}: ${calls} calls, ${commits} commits, digest ${digest}`);
  const isTrue = !values.real || (await isHonest(seed));
  return failure === undefined && isTrue ? 0 : 1;
}

async function many(): Promise<number> {
  const minutes = values.hours === undefined ? Number(values.minutes ?? MINUTES) : Number(values.hours) * 60;
  const first = Number(values.from ?? Math.floor(Math.random() * 2 ** 31));
  print(`histories from seed ${first} on`);
  if (!isRoot) print('real kernels are left out: comparing with them needs root');
  const compared = { count: 0, others: 0 };
  let ended = 0;
  const onHistory = async (seed: number) => {
    ended += 1;
    if (ended % TOLD_EVERY === 0) print(`${ended} histories have ended`);
    if (!isRoot || (!values.real && seed % REAL_EVERY !== 0)) return;
    compared.count += 1;
    if (!(await isHonest(seed))) compared.others += 1;
  };
  const result = await runCampaign(
    {
      ...{ first, shrinking, print, onHistory, time: minutes * 60_000, keepsGoing: values['keep-going'] },
      most: Number(values.count ?? Number.POSITIVE_INFINITY),
    },
    Number(values.processors ?? availableParallelism()),
  );
  print(
    `${resultText(result)}; ${compared.count - compared.others} of ${compared.count} did the same with a real kernel`,
  );
  if (values.record) {
    const later = { ...measuredNow(), first, found: result, compared: compared.count };
    recordPart('simulator', joined(readResults().simulator, later));
  }
  return result.failed.length + compared.others > 0 ? 1 : 0;
}

/** Ways between states, each kind for its share of the time. */
async function prefixes(): Promise<number> {
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  print(`seed ${seed}`);
  const mode = MODES.find((one) => one === values['all-pairs']);
  if (values['all-pairs'] !== undefined && mode === undefined) {
    print(`--all-pairs takes ${MODES.join(', ')}`);
    return 2;
  }
  const all: Ways[] = [];
  const take = (ways: Ways) => {
    print(waysText(ways));
    for (const breach of ways.breaches) print(breachText(breach));
    all.push(ways);
  };
  const minutes = Number(values.minutes ?? MINUTES);
  if (mode !== undefined) take(await allWays(mode, seed));
  else for (const kind of KINDS) take(await randomWays(kind, seed, minutes * 60_000));
  if (values.record) recordWays(all, mode === undefined ? `--prefixes --minutes ${minutes}` : `--all-pairs ${mode}`);
  return all.every(({ breaches }) => breaches.length === 0) ? 0 : 1;
}

function recordWays(all: readonly Ways[], options: string): void {
  const number = (count: number) => count.toLocaleString('en');
  const named = (exceptions: Ways['exceptions']) =>
    [...exceptions].sort().map(([name, count]) => `${name}: ${number(count)}`);
  recordPart('prefixes', {
    ...measuredNow(),
    command: `npm run sim -- ${options}`,
    text: [],
    head: ['between states of', 'pairs of states', 'cuts', 'packets that met neither', 'packets of a named exception'],
    rows: all.map(({ kind, pairs, cuts, breaches, exceptions }) => [
      kind.name,
      ...[pairs, cuts, breaches.length].map(number),
      named(exceptions).join(', '),
    ]),
  });
}

if (values.prefixes || values['all-pairs'] !== undefined) process.exitCode = await prefixes();
else if (values.seed !== undefined) process.exitCode = await one(Number(values.seed));
else process.exitCode = values['every-call'] ? await everyCall({ print }) : await many();
