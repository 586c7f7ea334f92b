/** A kernel without IPVS: one clear error, and nothing else happens. The module is locked out, as on a kernel that lacks it. */

import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { realCommands } from '../../src/kernel/commands.ts';
import { SLICEWIRE } from '../helpers/cli/slicewire.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const LOCKED = '/etc/modprobe.d/slicewire-test.conf';
const WHY =
  process.env.SLICEWIRE_VM === undefined
    ? 'it would take the module from this machine: tested in the virtual machine'
    : false;

const run = (file: string, ...args: string[]) => realCommands.run({ file, args }, NEVER);

/** slicewire gives a file up after 5 s, in which a machine that is emulated and busy may not have started the thread that reads it. */
async function slicewire(...args: string[]) {
  for (let left = 5; ; left--) {
    const ran = await run(...SLICEWIRE, ...args);
    if (left === 0 || !ran.stderr.includes('no answer within 5 s')) return ran;
  }
}

describe('a kernel without IPVS', { skip: WHY }, () => {
  before(async () => {
    await writeFile(LOCKED, 'install ip_vs /bin/false\n');
    const loaded = (await run('lsmod')).stdout.match(/^ip_vs\w*/gm) ?? [];
    for (const module of loaded.sort().reverse()) await run('rmmod', module);
  });
  after(() => rm(LOCKED));

  it('ends run and plan with one line that says what is missing and what does without it', async () => {
    for (const command of ['run', 'plan']) {
      const args = [command, '--mode=ipvs', '--manifests', '/dev/null', '--conntrack-max-per-core', '0'];
      const { exitCode, stderr } = await slicewire(...args);
      const [line = ''] = stderr.split('\n').filter((text) => text.startsWith('slicewire:'));
      assert.equal(exitCode, 1, stderr);
      assert.match(line, /IPVS cannot be used in this kernel: ENOENT.*modprobe ip_vs: .*or use --mode=iptables/);
    }
    assert.equal((await run('ip', 'link', 'show', 'kube-ipvs0')).exitCode, 1);
  });

  it('is no hindrance for cleanup', async () => {
    const { exitCode, stdout } = await slicewire('cleanup');
    assert.deepEqual([exitCode, stdout], [0, 'nothing to remove\n']);
  });
});
