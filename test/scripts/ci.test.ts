/** `.ci/run`: all tiers run in a copy of the tracked files with nothing beside it, and it fails when one of them fails. */
import assert from 'node:assert/strict';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { realCommands } from '../../src/kernel/commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const SCRIPT = fileURLToPath(new URL('../../.ci/run', import.meta.url));
/** Stands for npm: prints where it is and what is there, and ends with STATUS when its arguments are FAILING, else with 0. */
const NPM = `#!/bin/sh
echo "asked: $*"
echo "folder: $PWD"
echo "files: $(find . -type f | sort | paste -sd' ')"
echo "beside: $(ls -A .. | paste -sd' ')"
echo 'ℹ passing mention'
echo '═══ Summary: of a tier'
echo "the failures of npm $*"
echo 'ℹ tests 2'
echo 'ℹ fail 1'
[ "$*" != "$FAILING" ] || exit "$STATUS"
`;
const TIERS = [
  'test',
  'run test:kernel -- --ci',
  'run test:long',
  ...['sim', 'image', 'vm'].map((tier) => `run test:${tier} -- --ci`),
];

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

  async function ci(failing: string, status: number) {
    const variables = [
      ...[`PATH=${folder}/bin:${process.env.PATH}`, `TMPDIR=${folder}/tmp`],
      ...[`FAILING=${failing}`, `STATUS=${status}`],
    ];
    const { exitCode, stdout, stderr } = await realCommands.run(
      { file: 'env', args: [...variables, join(checkout, '.ci/run')] },
      NEVER,
    );
    const lines = stdout.split('\n');
    const values = (name: string) =>
      lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
    return { exitCode, stdout, stderr, lines, values };
  }

  it('runs every tier in a copy with nothing beside it, and removes the copy', async () => {
    const { exitCode, stdout, stderr, lines, values } = await ci('none', 0);
    assert.equal(exitCode, 0, stderr);
    assert.deepEqual(values('asked').sort(), [...TIERS].sort());
    assert.deepEqual(new Set(values('files')), new Set(['./.ci/run ./test/a file.ts']));
    assert.deepEqual(new Set(values('beside')), new Set(['slicewire']));
    const [copy = ''] = values('folder');
    assert.ok(copy.startsWith(`${folder}/tmp/`), stdout);
    assert.deepEqual(readdirSync(join(folder, 'tmp')), [], 'something is still there');
    assert.deepEqual(lines.slice(-4), [
      'All tiers passed:',
      `ℹ tests ${2 * TIERS.length}`,
      `ℹ fail ${TIERS.length}`,
      '',
    ]);
  });

  for (const tier of TIERS) {
    it(`fails when npm ${tier} fails, after the other tiers, and prints the summaries at its end`, async () => {
      const { exitCode, stdout, lines, values } = await ci(tier, 7);
      assert.equal(exitCode, 1, stdout);
      assert.deepEqual(values('asked').sort(), [...TIERS].sort());
      const end = lines.slice(-(2 * TIERS.length + 5));
      assert.deepEqual(
        end.filter((line) => line.startsWith('the failures')),
        TIERS.map((each) => `the failures of npm ${each}`),
      );
      assert.deepEqual(end.slice(-4), [
        `These tiers failed: npm ${tier}`,
        `ℹ tests ${2 * TIERS.length}`,
        `ℹ fail ${TIERS.length}`,
        '',
      ]);
    });
  }
});
