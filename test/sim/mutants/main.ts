/** `npm run sim:mutants`: after how many histories the simulator finds each fault that is put into the code on purpose. */
import { execa } from 'execa';
import { commandLine } from '../../../scripts/arguments.ts';
import { machineText } from '../../reliability/machine.ts';
import { recordPart } from '../../reliability/results.ts';
import { MUTANTS, type Mutant } from './list.ts';

const { values } = commandLine({
  command: 'npm run sim:mutants',
  about:
    'Breaks the agent on purpose in one place after another, and says in how many histories the simulator finds it.',
  options: {
    only: { type: 'string', value: 'NAME', help: 'this mutant of test/sim/mutants/list.ts alone' },
    most: { type: 'string', value: 'N', least: 1, default: '3000', help: 'at most so many histories for each' },
    record: { type: 'boolean', help: 'writes the result to docs/reliability.json and docs/reliability.md' },
  },
});
const HOOK = new URL('hook.ts', import.meta.url).pathname;
const SIMULATOR = new URL('../main.ts', import.meta.url).pathname;
/** Histories begin with this seed, so that the table is the same each time. */
const FIRST_SEED = 1;

interface Found {
  readonly what: string;
  /** undefined: not found. */
  readonly histories: number | undefined;
  /** The kind of the failure. */
  readonly as: string | undefined;
}

async function find({ name, what }: Mutant): Promise<Found> {
  const args = [
    '--import',
    HOOK,
    SIMULATOR,
    '--from',
    String(FIRST_SEED),
    '--count',
    values.most,
    '--minutes',
    '10',
    '--no-shrinking',
  ];
  const { stdout, exitCode } = await execa(process.execPath, args, {
    reject: false,
    env: { SIM_MUTANT: name },
    stderr: 'inherit',
  });
  const [, seed, as] = /^seed (\d+) fails: (.*)$/m.exec(stdout) ?? [];
  if (exitCode !== 0 && seed === undefined)
    throw new Error(`mutant ${name}: the simulator failed without a seed:\n${stdout}`);
  return { what, histories: seed === undefined ? undefined : Number(seed) - FIRST_SEED + 1, as };
}

const found: Found[] = [];
for (const mutant of MUTANTS) {
  if (values.only !== undefined && values.only !== mutant.name) continue;
  const result = await find(mutant);
  found.push(result);
  const after =
    result.histories === undefined
      ? `not found in ${values.most} histories`
      : `history ${result.histories}: ${result.as}`;
  process.stdout.write(`${mutant.name}: ${after}\n`);
}

if (values.record) {
  recordPart('mutations', {
    ranAt: new Date().toISOString(),
    machine: machineText(),
    command: `npm run sim:mutants -- --most ${values.most}`,
    text: [`The histories are those of \`npm run sim -- --from ${FIRST_SEED}\`, in the same order for each.`],
    head: ['broken on purpose', 'found in history', 'as'],
    rows: found.map(({ what, histories, as }) => [what, histories?.toLocaleString('en') ?? 'not found', as ?? '']),
  });
}
process.exitCode = found.every(({ histories }) => histories !== undefined) ? 0 : 1;
