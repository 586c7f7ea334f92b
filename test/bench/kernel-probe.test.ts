/** The probe tells of a rule when it is there, and not before. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Lab } from '../../src/cli/lab/lab.ts';
import { commandsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { KernelProbe } from './kernel-probe.ts';
import { nanoseconds } from './monotonic.ts';

describe('the probe of rules', () => {
  let lab: Lab;
  let probe: KernelProbe;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 0, remotePods: 0, signal: NEVER });
    probe = await KernelProbe.start({ lab, by: 'nft' });
  });
  after(async () => {
    await probe?.stop();
    await lab?.remove();
  });

  async function write(...addresses: string[]): Promise<void> {
    const rules = addresses.map((address) => `-A KUBE-TRY -p tcp -j DNAT --to-destination ${address}:8080`);
    const input = () => ['*nat', ':KUBE-TRY - [0:0]', ...rules, 'COMMIT'];
    const command = { file: 'iptables-nft-restore', args: ['--noflush'], input };
    const { exitCode, stderr } = await commandsIn(lab, 'node').run(command, NEVER);
    assert.equal(exitCode, 0, stderr);
  }

  it('sees what is awaited, when it is written', async () => {
    await probe.expect([{ address: '10.130.1.2' }, { address: '10.130.1.3' }]);
    const start = nanoseconds();
    await write('10.130.1.1', '10.130.1.2');
    await assert.rejects(probe.seen(1000), /1 of 2 are not in the kernel: 10\.130\.1\.3/);
    const at = probe.sofar.get('10.130.1.2') ?? Number.NaN;
    assert.ok(at > start && at < nanoseconds(), `${start} ${at}`);
    await write('10.130.1.3');
    assert.deepEqual([...(await probe.seen(5000)).keys()], ['10.130.1.2', '10.130.1.3']);
  });

  it('sees nothing of what was written before', async () => {
    await write('10.130.2.1');
    await probe.expect([{ address: '10.130.2.1' }]);
    await assert.rejects(probe.seen(300), /1 of 1/);
    await write('10.130.2.1');
    assert.equal((await probe.seen(5000)).size, 1);
  });

  it('sees thousands at once', async () => {
    const addresses = Array.from({ length: 4000 }, (_, n) => `10.131.${n >> 8}.${n & 255}`);
    await probe.expect(addresses.map((address) => ({ address })));
    await write(...addresses);
    assert.equal((await probe.seen(10_000)).size, 4000);
    assert.equal(probe.isLost, false);
  });
});
