/** native/ on arm64: the C headers of that architecture, and the tests of this folder in its Node.js, here by an emulator. */
import assert from 'node:assert/strict';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { emulatorFor, nodePackage, OWN_PLATFORM, platformNamed } from '../../scripts/executable/platform.ts';
import { checkRuntime } from '../../scripts/runtime.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { describeHeaders } from './headers.ts';

const ARM64 = platformNamed('linux-arm64');
const COMPILER = ARM64.name === OWN_PLATFORM ? 'gcc' : 'aarch64-linux-gnu-gcc';
const HERE = fileURLToPath(new URL('.', import.meta.url));

describeHeaders('native, against the C headers of arm64', COMPILER, () => emulatorFor(ARM64));

describe('native, in Node.js for arm64', () => {
  let folder: string;
  let node: string;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'slicewire-arm64-'));
    const runtime = (await nodePackage(ARM64, folder)).node;
    await checkRuntime(runtime);
    node = runtime.file;
  });
  after(() => rmSync(folder, { recursive: true }));

  const run = (...args: string[]) =>
    realCommands.run({ file: 'env', args: ['-u', 'NODE_TEST_CONTEXT', ...emulatorFor(ARM64), node, ...args] }, NEVER);

  it('is of that architecture', async () => {
    assert.equal((await run('--print', 'process.arch')).stdout, 'arm64\n');
  });

  it('passes the tests of messages and sockets', async () => {
    const files = globSync('*.test.ts', { cwd: HERE }).filter((name) => !/^(?:abi|arm64)\./.test(name));
    assert.ok(files.length >= 5, files.join());
    const paths = files.sort().map((name) => join(HERE, name));
    // The emulator starts no process of another Node.js.
    const { exitCode, stdout, stderr } = await run('--test', '--test-isolation=none', ...paths);
    assert.equal(exitCode, 0, `${stderr}${stdout}`);
    assert.match(stdout, /^(?:#|ℹ) pass [1-9]\d+$/m);
  });
});
