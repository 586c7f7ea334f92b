/**
 * `npm run test:stories`: every conformance story with real packets through IPVS. Each family has a run of its own, in a virtual machine where
 * this kernel has no IPVS. Ends with 0 when all passed.
 */
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { FAMILIES } from '../../src/base/address.ts';
import { measuredNow } from '../reliability/machine.ts';
import { recordPart } from '../reliability/results.ts';
import { countsOf, failedIn, isRight, printResult, toldThere } from './told-there.ts';

const FILE = fileURLToPath(new URL('./every-story.vm.ts', import.meta.url));

const { values } = commandLine({
  command: 'npm run test:stories',
  about:
    'Sends the packets of every conformance story through IPVS, in virtual machines where this kernel has none. Takes a quarter of an hour where KVM is missing.',
  options: { record: { type: 'boolean', help: 'writes the counts to docs/reliability.json and docs/reliability.md' } },
});

const all = await Promise.all(
  // The family is the first word of a story's name, after that of its suite.
  FAMILIES.map(async (family) => ({
    family,
    ...(await toldThere([`--test-name-pattern=/ipvs ${family}, /`, FILE], { onResult: (one) => printResult(one) })),
  })),
);
for (const { family, ...told } of all) {
  const trouble = told.trouble === undefined ? '' : `\n${told.trouble}`;
  process.stdout.write(`${family}: ${told.results.length} stories, ${failedIn(told)} failed${trouble}\n`);
}
if (values.record)
  recordPart('stories', {
    ...measuredNow(),
    command: 'npm run test:stories',
    text: [],
    head: ['mode', 'family', 'stories', 'skipped', 'failed'],
    rows: all.map((one) => ['ipvs', one.family, ...countsOf(one)]),
  });
process.exitCode = all.every(isRight) ? 0 : 1;
