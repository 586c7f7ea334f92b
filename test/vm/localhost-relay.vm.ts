/** Node ports on loopback in IPVS mode (docs/semantics.md 6.17): the relay of nftables mode, and what this mode has in the kernel stays out of its way. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LAB, Lab } from '../../src/cli/lab/lab.ts';
import { until } from '../helpers/base/until.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, POD_PORT, webObjects } from '../helpers/cli/lab/web.ts';
import { listeningPorts } from '../helpers/kernel/listening.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

/** Milliseconds: the machine may be emulated. */
const PATIENCE = 120_000;
const ANSWER = 20_000;

describe('node ports on loopback in IPVS mode', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 2, remotePods: 1, signal: NEVER });
    for (const name of ['pod-1', 'pod-2', 'other']) await lab.serve(name, 'TCP', POD_PORT);
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1]));
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  const ask = (name: string, address: string) => lab.ask(name, { address, port: NODE_PORT, timeout: ANSWER });
  async function answering(): Promise<string> {
    const seen = new Set<string>();
    for (let n = 0; n < 16; n++) {
      const answer = await ask('node', '127.0.0.1');
      seen.add(answer.outcome === 'reply' ? answer.by : answer.outcome);
    }
    return [...seen].sort().join();
  }
  const become = (right: string) => until(right, async () => (await answering()) === right, PATIENCE);

  it('are served where localhost is named, by endpoints of this node and of another, and the node’s own address as before', async () => {
    const without = node.start('--mode=ipvs', '--nodeport-addresses', '192.168.77.0/24');
    await without.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    assert.equal((await ask('node', '127.0.0.1')).outcome, 'refused');
    assert.ok(!listeningPorts(without.pid).includes(NODE_PORT));
    const servers = await lab.exec('node', 'ipvsadm', '-Sn');
    await without.stop();

    const agent = node.start('--mode=ipvs', '--nodeport-addresses', '192.168.77.0/24,localhost');
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    await become('other,pod-1');
    assert.equal(await lab.exec('node', 'ipvsadm', '-Sn'), servers);
    assert.equal((await ask('client', LAB.node.v4)).outcome, 'reply');
    await node.write('web', ...webObjects([1, 2], { externalTrafficPolicy: 'Local' }));
    await become('pod-1,pod-2');
    await node.write('web', ...webObjects([], { externalTrafficPolicy: 'Local' }));
    await become('refused');
  });
});
