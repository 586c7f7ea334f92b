/**
 * The tests that need a kernel with IPVS (`*.vm.ts`): here when this kernel has it, otherwise in the virtual machine
 * (machine/README.md). Each is told again here as it ends, so that one run counts all.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startChild } from '../../src/host/child.ts';
import { realCommands } from '../../src/host/commands.ts';
import { openIpvsKernel } from '../../src/host/ipvs-kernel.ts';
import { NEVER } from '../helpers/rig.ts';
import { MARK, type Told } from './reporter.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const FILES = readdirSync(HERE).filter((file) => file.endsWith('.vm.ts'));

/** Runs them; calls `tell` for each test, and returns the exit status with the last lines of all else that was said. */
async function runAll(tell: (told: Told) => void): Promise<{ status: number | undefined; said: string[] }> {
  const files = FILES.map((file) => `${HERE}${file}`);
  const args = ['--test', '--test-concurrency=1', `--test-reporter=${HERE}reporter.ts`, ...files];
  const here = await hasIpvs();
  const machine = ['sh', `${HERE}machine/machine.sh`, 'run'];
  const [file = '', ...rest] = here ? [process.execPath, ...args] : [...machine, process.execPath, ...args];
  const said: string[] = [];
  const child = startChild({
    file,
    args: rest,
    onLine: (line) => {
      const at = line.indexOf(MARK);
      if (at < 0) said.push(line);
      else tell(JSON.parse(line.slice(at + MARK.length)) as Told);
    },
    onErrorLine: (line) => said.push(line),
  });
  return { status: await child.ended, said: said.slice(-60) };
}

async function hasIpvs(): Promise<boolean> {
  try {
    (await openIpvsKernel(realCommands, NEVER)).close();
    return true;
  } catch {
    return false;
  }
}

describe('on a kernel with IPVS', () => {
  it('all of its tests', async (t: TestContext) => {
    const told: Told[] = [];
    const subtests: Promise<void>[] = [];
    const { status, said } = await runAll((one) => {
      if (one.isSuite) return;
      told.push(one);
      const options = one.skip === undefined ? {} : { skip: one.skip };
      const name = `${one.name} (${one.milliseconds} ms there)`;
      subtests.push(
        t.test(name, options, () => {
          if (one.error !== undefined) assert.fail(one.error);
        }),
      );
    });
    await Promise.all(subtests);
    const failed = told.some(({ error }) => error !== undefined);
    assert.ok(told.length > 0 && (status === 0 || failed), `exit status ${status}:\n${said.join('\n')}`);
  });
});
