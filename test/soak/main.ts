/** `npm run soak -- --hours N`: runs a soak, prints what it found, and exits with 1 when something was wrong. */
import { commandLine } from '../../scripts/arguments.ts';
import { recordPart } from '../reliability/results.ts';
import { carryOut, interrupted } from './command.ts';

const { values } = commandLine({
  command: 'npm run soak',
  about:
    'Runs an agent for hours under changes, restarts and writes of other programs, prints what it found, and ends with 1 when something was wrong. Needs root.',
  options: {
    hours: {
      type: 'string',
      value: 'N',
      default: '1',
      help: 'how long; the last third, half an hour at most, without restarts',
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

const whole = positive('hours') * 3600;
const tail = Math.min(whole / 3, 1800);
const result = await carryOut(
  {
    ...{ seconds: whole - tail, tail, restartEvery: positive('restart-every'), flushEvery: positive('flush-every') },
    ...{ services: positive('services'), perSecond: positive('per-second'), seed: positive('seed') },
    ...{ isSource: values.source, logFile: values.log },
  },
  interrupted(),
  { json: values.json },
);
if (values.record) recordPart('soak', result);
