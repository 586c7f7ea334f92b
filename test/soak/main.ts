/** `npm run soak -- --hours N`: runs a soak, prints what it found, and exits with 1 when something was wrong. */
import { mkdtempSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { recordPart } from '../reliability/results.ts';
import { soakLines } from '../reliability/soak-page.ts';
import { problemsOf } from './result.ts';
import { soak } from './soak.ts';

const HELP = `npm run soak -- [options]
  --hours N        how long, with restarts (default: 1); a sixth of it more without
  --services N     Services of the cluster (default: 10000)
  --per-second N   changes of objects a second (default: 100)
  --restart-every N, --flush-every N   seconds (default: 60, 300)
  --seed N         of the changes (default: 1)
  --source         the agent from its source, not the executable of npm run build
  --log FILE       keep the agent's log
  --json           print what was found as JSON
  --record         write it to docs/reliability.json and docs/reliability.md`;

const { values } = parseArgs({
  options: {
    hours: { type: 'string', default: '1' },
    services: { type: 'string', default: '10000' },
    'per-second': { type: 'string', default: '100' },
    'restart-every': { type: 'string', default: '60' },
    'flush-every': { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    source: { type: 'boolean', default: false },
    log: { type: 'string' },
    json: { type: 'boolean', default: false },
    record: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
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
  if (values.help) {
    process.stdout.write(`${HELP}\n`);
    return;
  }
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
