/**
 * The simulator: `npm run sim` runs histories from a random seed on, for three minutes or until one fails.
 * `--seed N` repeats one; `--from N`, `--count C`, `--minutes M` and `--hours H` say which and how many; `--keep-going` goes on after
 * a failure; `--every-call` puts each fault at each call of a short history; `--trace` prints every call.
 */
import { parseArgs } from 'node:util';
import { machineText } from '../reliability/machine.ts';
import { recordPart } from '../reliability/results.ts';
import { type CampaignResult, resultText, runCampaign, runSeed } from './campaign.ts';
import { everyCall } from './every-call.ts';

/** Histories that may be run to make a failing one shorter. */
const SHRINKING = 400;
const MINUTES = 3;

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    from: { type: 'string' },
    count: { type: 'string' },
    minutes: { type: 'string' },
    hours: { type: 'string' },
    'every-call': { type: 'boolean', default: false },
    'keep-going': { type: 'boolean', default: false },
    'no-shrinking': { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
    record: { type: 'boolean', default: false },
  },
});

const print = (text: string) => process.stdout.write(`${text}\n`);
const shrinking = values['no-shrinking'] ? 0 : SHRINKING;

async function one(seed: number): Promise<number> {
  const options = values.trace ? { trace: print } : {};
  const { failure, calls, commits, digest } = await runSeed(seed, { print, shrinking, options });
  print(`${failure === undefined ? 'held' : 'failed'}: ${calls} calls, ${commits} commits, digest ${digest}`);
  return failure === undefined ? 0 : 1;
}

async function many(): Promise<number> {
  const minutes = values.hours === undefined ? Number(values.minutes ?? MINUTES) : Number(values.hours) * 60;
  const first = Number(values.from ?? Math.floor(Math.random() * 2 ** 31));
  print(`histories from seed ${first} on`);
  const result = await runCampaign({
    first,
    most: Number(values.count ?? Number.POSITIVE_INFINITY),
    time: minutes * 60_000,
    keepsGoing: values['keep-going'],
    shrinking,
    print,
  });
  print(resultText(result));
  if (values.record) record(result, first);
  return result.failed.length > 0 ? 1 : 0;
}

function record(result: CampaignResult, first: number): void {
  const number = (count: number) => count.toLocaleString('en');
  recordPart('simulator', {
    ranAt: new Date().toISOString(),
    machine: machineText(),
    command: `npm run sim -- --from ${first} --count ${result.histories}`,
    text: [],
    head: ['', 'count'],
    rows: [
      ['histories', number(result.histories)],
      ['of them failed', number(result.failed.length)],
      ['simulated hours', number(Math.round(result.simulated / 3_600_000))],
      ['starts of the agent', number(result.starts)],
      ['calls to the outside', number(result.calls)],
      ['faults at calls', number(result.faults)],
      ['commits of the kernel that were checked', number(result.commits)],
    ],
  });
}

if (values.seed !== undefined) process.exitCode = await one(Number(values.seed));
else process.exitCode = values['every-call'] ? await everyCall({ print }) : await many();
