/** Connections are counted by the kernel, frontend by frontend, and reported when metrics are asked for. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LAB, Lab } from '../../src/cli/lab/lab.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { startTraffic } from '../helpers/cli/lab/traffic.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { askNode } from './node-server.ts';

const COUNT = '--nftables-count-connections';
/** Milliseconds: the machine may have more to do. */
const PATIENCE = 60_000;
const ANSWER = 8000;

describe('counters of connections', () => {
  let lab: Lab;
  let node: ManifestNode;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const n of [1, 2]) await lab.serve(`pod-${n}`, 'TCP', POD_PORT);
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1, 2], { hasOther: false }));
  });
  after(async () => {
    await node.clear();
    await lab.remove();
  });

  async function started(...flags: string[]) {
    const agent = node.start('--mode=nftables', ...flags);
    await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
    return agent;
  }

  /** By address and port. */
  async function counts(): Promise<Record<string, number>> {
    const { body } = await askNode(lab, '/metrics', 10_249);
    const lines = [...body.matchAll(/^slicewire_connections_total\{(.*)\} (\d+)$/gm)];
    const label = (labels: string, name: string) => new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1];
    return Object.fromEntries(
      lines.map(([, labels = '', count]) => {
        assert.equal(label(labels, 'service'), 'default/web');
        return [`${label(labels, 'address')}:${label(labels, 'port')}`, Number(count)];
      }),
    );
  }

  it('report how many connections came to each frontend, over a restart too', async () => {
    const agent = await started(COUNT);
    const ask = (from: string, address: string, port: number) => lab.ask(from, { address, port, timeout: ANSWER });
    for (let i = 0; i < 5; i++) assert.equal((await ask('pod-3', WEB, 80)).outcome, 'reply');
    for (let i = 0; i < 2; i++) assert.equal((await ask('client', LAB.node.v4, NODE_PORT)).outcome, 'reply');
    const expected = { [`${WEB}:80`]: 5, [`:${NODE_PORT}`]: 2 };
    assert.deepEqual(await counts(), expected);
    await agent.stop();
    const again = await started(COUNT);
    assert.deepEqual(await counts(), expected, 'nothing was written');
    await again.stop();
  });

  it('are switched on and off without a failed request, and are not there unless they are asked for', async () => {
    const traffic = startTraffic(lab, [{ from: 'pod-3', address: WEB, port: 80 }], { pause: 0 });
    try {
      for (const flags of [[], [COUNT], []]) {
        const agent = await started(...flags);
        assert.equal(Object.keys(await counts()).length, flags.length * 2);
        await agent.stop();
      }
    } finally {
      const { requests, failures } = await traffic.stop();
      assert.deepEqual(failures.slice(0, 5), []);
      assert.ok(requests > 50, `only ${requests} connections`);
    }
  });
});
