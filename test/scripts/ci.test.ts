/** `.ci/run`: the tests run in a copy of the tracked files with nothing beside it, and how they end is how it ends. */
import assert from 'node:assert/strict';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { realCommands } from '../../src/host/commands.ts';
import { NEVER } from '../helpers/rig.ts';

const SCRIPT = fileURLToPath(new URL('../../.ci/run', import.meta.url));
/** Stands for npm: tells where it is and what is there, and ends with the status that it is to have. */
const NPM = `#!/bin/sh
echo "asked: $*"
echo "folder: $PWD"
echo "files: $(find . -type f | sort | paste -sd' ')"
echo "beside: $(ls -A .. | grep -v '^log$' | paste -sd' ')"
echo 'ℹ tests 2'
echo 'ℹ fail 1'
echo 'a list of failures'
exit "$STATUS"
`;

describe('.ci/run', () => {
  let folder: string;
  let checkout: string;
  const git = async (...args: string[]) => {
    const { exitCode, stderr } = await realCommands.run({ file: 'git', args: ['-C', checkout, ...args] }, NEVER);
    assert.equal(exitCode, 0, stderr);
  };
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'slicewire-ci-'));
    checkout = join(folder, 'checkout');
    mkdirSync(join(checkout, '.ci'), { recursive: true });
    mkdirSync(join(checkout, 'test'));
    mkdirSync(join(folder, 'bin'));
    mkdirSync(join(folder, 'tmp'));
    writeFileSync(join(folder, 'beside.json'), '{}');
    cpSync(SCRIPT, join(checkout, '.ci/run'));
    writeFileSync(join(checkout, 'test/a file.ts'), 'tracked');
    await git('init', '--quiet');
    await git('add', '.');
    writeFileSync(join(checkout, 'test/forgotten.json'), 'not tracked');
    writeFileSync(join(folder, 'bin/npm'), NPM);
    chmodSync(join(folder, 'bin/npm'), 0o755);
  });
  after(() => rmSync(folder, { recursive: true }));

  for (const status of [0, 7]) {
    it(`runs the tests in a copy, and ends with their ${status}`, async () => {
      const variables = [`PATH=${folder}/bin:${process.env.PATH}`, `TMPDIR=${folder}/tmp`, `STATUS=${status}`];
      const args = [...variables, join(checkout, '.ci/run')];
      const { exitCode, stdout, stderr } = await realCommands.run({ file: 'env', args }, NEVER);
      assert.equal(exitCode, status, stderr);
      const lines = stdout.split('\n');
      const told = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? '';
      assert.equal(told('asked'), 'test');
      assert.equal(told('files'), './.ci/run ./test/a file.ts');
      assert.equal(told('beside'), 'slicewire');
      assert.ok(told('folder').startsWith(`${folder}/tmp/`), stdout);
      assert.ok(!existsSync(told('folder')), 'the copy is still there');
      assert.deepEqual(lines.slice(-4), [`The tests ended with ${status}:`, 'ℹ tests 2', 'ℹ fail 1', '']);
    });
  }
});
