/** `npm run sim:mutants`: which history, or which test, finds each fault that is put into the code on purpose. */
import { commandLine } from '../../../scripts/arguments.ts';
import { measuredNow } from '../../reliability/machine.ts';
import { recordPart } from '../../reliability/results.ts';
import { FIRST_SEED, find } from './find.ts';
import { MUTANTS } from './list.ts';

const { values } = commandLine({
  command: 'npm run sim:mutants',
  about:
    'Breaks the code on purpose in one place after another, and says which history of the simulator or which test finds it.',
  options: {
    only: { type: 'string', value: 'NAME', help: 'this mutant of test/sim/mutants/list.ts alone' },
    most: { type: 'string', value: 'N', least: 1, default: '300', help: 'at most so many histories for each' },
    record: { type: 'boolean', help: 'writes the result to docs/reliability.json and docs/reliability.md' },
  },
});
const most = Number(values.most);
const rows: string[][] = [];
let hasLiving = false;
for (const mutant of MUTANTS) {
  const { name, what } = mutant;
  if (values.only !== undefined && values.only !== name) continue;
  const found = await find(mutant, most);
  hasLiving ||= found === undefined;
  rows.push([what, found?.by ?? 'not found', found?.as ?? '']);
  process.stdout.write(`${name}: ${found === undefined ? 'not found' : `${found.by}: ${found.as}`}\n`);
}

if (values.record) {
  recordPart('mutations', {
    ...measuredNow(),
    command: `npm run sim:mutants -- --most ${values.most}`,
    text: [
      `Histories are those of \`npm run sim -- --from ${FIRST_SEED}\`, in the same order for each, and at most ${values.most} of them.`,
    ],
    head: ['broken on purpose', 'found by', 'as'],
    rows,
  });
}
process.exitCode = hasLiving ? 1 : 0;
