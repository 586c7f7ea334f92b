/** The reporter of the virtual machine tells why a file ended before its tests did. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MARK, type TestResult } from './reporter.ts';

const REPORTER = fileURLToPath(new URL('./reporter.ts', import.meta.url));

it('a file without one of its modules fails with the name of the module', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'slicewire-'));
  try {
    const file = join(folder, 'lost.test.mjs');
    await writeFile(file, "import './none-of-this-name.mjs';\n");
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const printed = await new Promise<string>((resolve) => {
      execFile(process.execPath, ['--test', `--test-reporter=${REPORTER}`, file], { env }, (_error, stdout) =>
        resolve(stdout),
      );
    });
    const line = printed.split('\n').find((one) => one.startsWith(MARK)) ?? assert.fail(printed);
    const { error } = JSON.parse(line.slice(MARK.length)) as TestResult;
    assert.match(error ?? '', /^test failed \(exit status 1, signal none\)\n[\s\S]*none-of-this-name\.mjs/);
  } finally {
    await rm(folder, { recursive: true });
  }
});
