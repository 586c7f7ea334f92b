/** `npm run soak -- --hours N`: runs a soak, prints what it found, and exits with 1 when something was wrong. */
import { mkdtempSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandLine } from '../../scripts/arguments.ts';
import { recordPart } from '../reliability/results.ts';
import { soakLines } from '../reliability/soak-page.ts';
import { problemsOf } from './result.ts';
import { soak } from './soak.ts';

const { values } = commandLine({
  command: 'npm run soak',
  about:
    'Runs an agent for hours under changes, restarts and writes of other programs, prints what it found, and ends with 1 when something was wrong. Needs root.',
  options: {
    hours: {
      type: 'string',
      value: 'N',
      default: '1',
      help: 'how long, with restarts; a sixth of it more without restarts',
    },
    services: { type: 'string', value: 'N', default: '10000', help: 'Services of the cluster' },
    'per-second': { type: 'string', value: 'N', default: '100', help: 'changes of objects a second' },
    'restart-every': { type: 'string', value: 'N', default: '60', help: 'seconds from one restart to the next' },
    'flush-every': {
      type: 'string',
      value: 'N',
      default: '300',
      help: 'seconds from one flush of the rules to the next',
    },
    seed: { type: 'string', value: 'N', default: '1', help: 'of the changes' },
    source: { type: 'boolean', help: 'the agent from its source, not the executable of npm run build' },
    log: { type: 'string', value: 'FILE', help: "keeps the agent's log" },
    json: { type: 'boolean', help: 'prints what was found as JSON' },
    record: { type: 'boolean', help: 'writes it to docs/reliability.json and docs/reliability.md' },
  },
});

function positive(name: 'hours' | 'services' | 'per-second' | 'restart-every' | 'flush-every' | 'seed'): number {
  const number = Number(values[name]);
  if (!(number > 0)) throw new Error(`--${name} ${values[name]}: a number above 0 is needed`);
  return number;
}

function say(line: string): void {
  process.stderr.write(`${new Date().toISOString()} ${line}\n`);
}

async function main(): Promise<void> {
  const seconds = positive('hours') * 3600;
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => {
      say(`${signal}: the soak ends early`);
      stop.abort();
    });
  // The agent alone has the priority of a node's program.
  setPriority(10);
  const result = await soak({
    ...{ seconds, tail: seconds / 6, restartEvery: positive('restart-every'), flushEvery: positive('flush-every') },
    ...{ services: positive('services'), perSecond: positive('per-second'), seed: positive('seed') },
    ...{ probesPerSecond: 40, isSource: values.source, logFile: values.log },
    ...{ signal: stop.signal, say, folder: mkdtempSync(join(tmpdir(), 'slicewire-soak-')) },
  });
  process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : `${soakLines(result)}\n`);
  const problems = problemsOf(result);
  for (const problem of problems) say(problem);
  if (values.record) recordPart('soak', result);
  process.exitCode = problems.length === 0 && !result.isEarly ? 0 : 1;
}

await main();
