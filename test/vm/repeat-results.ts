/** Runs test files where the kernel has IPVS, and repeats each of their tests here as it ends, so that one run counts all. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { TestResult } from './reporter.ts';
import { toldThere } from './told-there.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));

/** `files`: names of files in this folder. */
export async function repeatResults(t: TestContext, files: readonly string[]): Promise<void> {
  const subtests: Promise<void>[] = [];
  const onResult = (one: TestResult) => {
    const options = one.skip === undefined ? {} : { skip: one.skip };
    const name = `${one.name} (${one.milliseconds} ms there)`;
    subtests.push(
      t.test(name, options, () => {
        if (one.error !== undefined) assert.fail(one.error);
      }),
    );
  };
  const { trouble } = await toldThere(
    files.map((file) => `${HERE}${file}`),
    { onResult },
  );
  await Promise.all(subtests);
  assert.equal(trouble, undefined);
}
