/**
 * The tests that need a kernel with IPVS (`*.vm.ts`): here when this kernel has it, otherwise in the virtual machine
 * (machine/README.md). Each is told again here as it ends, so that one run counts all.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MARK, type Told } from './reporter.ts';
import { runThere } from './run-there.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const FILES = readdirSync(HERE)
  .filter((file) => file.endsWith('.vm.ts'))
  .map((file) => `${HERE}${file}`);

describe('on a kernel with IPVS', () => {
  it('all of its tests', async (t: TestContext) => {
    const told: Told[] = [];
    const subtests: Promise<void>[] = [];
    const tell = (one: Told) => {
      if (one.isSuite) return;
      told.push(one);
      const options = one.skip === undefined ? {} : { skip: one.skip };
      const name = `${one.name} (${one.milliseconds} ms there)`;
      subtests.push(
        t.test(name, options, () => {
          if (one.error !== undefined) assert.fail(one.error);
        }),
      );
    };
    const args = ['--test', '--test-concurrency=1', `--test-reporter=${HERE}reporter.ts`, ...FILES];
    const { status, said } = await runThere({ args, mark: MARK, tell });
    await Promise.all(subtests);
    const failed = told.some(({ error }) => error !== undefined);
    assert.ok(told.length > 0 && (status === 0 || failed), `exit status ${status}:\n${said.join('\n')}`);
  });
});
