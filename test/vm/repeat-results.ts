/** Runs test files where the kernel has IPVS, and repeats each of their tests here as it ends, so that one run counts all. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MARK, type TestResult } from './reporter.ts';
import { runThere } from './run-there.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));

/** `files`: names of files in this folder. */
export async function repeatResults(t: TestContext, files: readonly string[]): Promise<void> {
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
