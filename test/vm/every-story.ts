/**
 * `npm run test:stories`: every conformance story with real packets through IPVS. Each family has a run of its own, in a virtual machine where
 * this kernel has no IPVS. Ends with 0 when all passed.
 */
import { fileURLToPath } from 'node:url';
import { commandLine } from '../../scripts/arguments.ts';
import { FAMILIES, type Family } from '../../src/base/address.ts';
import { measuredNow } from '../reliability/machine.ts';
import { recordPart } from '../reliability/results.ts';
import { MARK, type TestResult } from './reporter.ts';
import { runThere } from './run-there.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const print = (text: string) => process.stdout.write(`${text}\n`);

const { values } = commandLine({
  command: 'npm run test:stories',
  about:
    'Sends the packets of every conformance story through IPVS, in virtual machines where this kernel has none. Takes half an hour where KVM is missing.',
  options: { record: { type: 'boolean', help: 'writes the counts to docs/reliability.json and docs/reliability.md' } },
});

interface Told {
  readonly family: Family;
  readonly results: readonly TestResult[];
  /** Why the run ended otherwise than with results. */
  readonly trouble: string | undefined;
}

const failedOf = ({ results }: Told) => results.filter(({ error }) => error !== undefined).length;
const skippedOf = ({ results }: Told) => results.filter(({ skip }) => skip !== undefined).length;

async function tell(family: Family): Promise<Told> {
  const results: TestResult[] = [];
  const onResult = (one: TestResult) => {
    if (one.isSuite) return;
    results.push(one);
    const how = one.error === undefined ? (one.skip === undefined ? 'ok' : 'skipped') : 'FAILED';
    print(`${how} ${one.name} (${one.milliseconds} ms)${one.error === undefined ? '' : `\n${one.error}`}`);
  };
  // The family is the first word of a story's name, after that of its suite.
  const which = [`--test-name-pattern=/ipvs ${family}, /`, here('every-story.vm.ts')];
  const args = ['--test', `--test-reporter=${here('reporter.ts')}`, ...which];
  // Two machines of one processor each do more than one of two.
  const { status, said } = await runThere({ args, processors: 1, mark: MARK, onResult });
  const isExplained = results.length > 0 && (status === 0 || results.some(({ error }) => error !== undefined));
  return { family, results, trouble: isExplained ? undefined : `exit status ${status}: ${said.join('\n')}` };
}

const told = await Promise.all(FAMILIES.map(tell));
for (const one of told) {
  print(`${one.family}: ${one.results.length} stories, ${failedOf(one)} failed, ${skippedOf(one)} skipped`);
  if (one.trouble !== undefined) print(one.trouble);
}
if (values.record) {
  recordPart('stories', {
    ...measuredNow(),
    command: 'npm run test:stories',
    text: [],
    head: ['mode', 'family', 'stories', 'skipped', 'failed'],
    rows: told.map((one) => [
      ...['ipvs', one.family, `${one.results.length}`, `${skippedOf(one)}`],
      one.trouble === undefined ? `${failedOf(one)}` : '**did not end**',
    ]),
  });
}
process.exitCode = told.every((one) => one.trouble === undefined && failedOf(one) === 0) ? 0 : 1;
