/**
 * The tests that need a kernel with IPVS, or another than this one (`*.vm.ts`): here when this kernel has IPVS, otherwise in
 * virtual machines (machine/README.md), two at a time. Each is repeated here as it ends, so that one run counts all.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MARK, type TestResult } from './reporter.ts';
import { isIpvsHere, runThere } from './run-there.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const FILES = readdirSync(HERE).filter((file) => file.endsWith('.vm.ts'));
const isFirst = (file: string) => /^(stories|sctp|unusable)/.test(file);

/** Of about the same length. */
const PARTS = {
  'the stories, SCTP, and a kernel that lacks something': FILES.filter(isFirst),
  'all other tests': FILES.filter((file) => !isFirst(file)),
};

describe('on a kernel with IPVS', { concurrency: (await isIpvsHere()) ? 1 : Object.keys(PARTS).length }, () => {
  for (const [part, files] of Object.entries(PARTS)) it(part, (t) => repeatResults(t, files));
});

async function repeatResults(t: TestContext, files: readonly string[]): Promise<void> {
  const results: TestResult[] = [];
  const subtests: Promise<void>[] = [];
  const onResult = (one: TestResult) => {
    if (one.isSuite) return;
    results.push(one);
    const options = one.skip === undefined ? {} : { skip: one.skip };
    const name = `${one.name} (${one.milliseconds} ms there)`;
    subtests.push(
      t.test(name, options, () => {
        if (one.error !== undefined) assert.fail(one.error);
      }),
    );
  };
  const paths = files.map((file) => `${HERE}${file}`);
  const args = ['--test', '--test-concurrency=1', `--test-reporter=${HERE}reporter.ts`, ...paths];
  // Two machines of one processor each do more than one of two.
  const { status, said } = await runThere({ args, processors: 1, mark: MARK, onResult });
  await Promise.all(subtests);
  const failed = results.some(({ error }) => error !== undefined);
  assert.ok(results.length > 0 && (status === 0 || failed), `exit status ${status}:\n${said.join('\n')}`);
}
