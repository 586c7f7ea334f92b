/** --failover=confirm with real agents, packets and cables: a Node that vanishes (k8s#101101), and what must not look like one. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { LogLine } from '../../src/cli/lab/agent-process.ts';
import { isLost } from '../agent/failover/attempts.ts';
import { Vanishing, type VanishingOptions } from '../agent/failover/vanishing.ts';
import { until } from '../helpers/base/until.ts';

const isSuspect = ({ msg }: LogLine) => /^Node node-\d does not answer/.test(msg);
const isBack = ({ msg }: LogLine) => /^Node node-2 answers again/.test(msg);
const isSpared = ({ msg }: LogLine) => /^Node node-2 has unanswered connections, and is no suspect/.test(msg);

async function cluster(t: TestContext, mode: VanishingOptions['mode'] = 'nftables'): Promise<Vanishing> {
  const vanishing = await Vanishing.start({ mode, failover: 'confirm', nodes: 3, pods: 2 });
  t.after(() => vanishing.end());
  await until('connections', () => vanishing.client.all.some(({ isAnswered }) => isAnswered));
  return vanishing;
}

/** Connections go on for a while, and the Node is judged, but is no suspect. */
async function isNoSuspect({ agent, client }: Vanishing): Promise<void> {
  const since = Date.now();
  await agent.logged(isSpared);
  await until('many lost connections', () => client.since(since).filter(isLost).length > 50);
  assert.deepEqual(agent.log.filter(isSuspect), []);
}

for (const mode of ['iptables', 'nftables'] as const) {
  describe(`a Node that vanishes, in ${mode} mode`, () => {
    it('gets no new connections once it is found, and gets them again when it is back', async (t) => {
      const vanishing = await cluster(t, mode);
      const { lab, agent, client } = vanishing;
      const vanished = Date.now();
      await lab.cable('node-2', 'down');
      await agent.logged(isSuspect);
      await agent.synced(agent.log.findIndex(isSuspect));
      await lab.exec('node', 'conntrack', '-F');
      const found = Date.now();
      await until('later connections', () => client.since(found).length > 250);
      const flows = (await lab.exec('node', 'conntrack', '-L', '-p', 'tcp')).split('\n');
      assert.ok(flows.some((flow) => flow.includes(`src=${lab.pod(3, 1)} `)));
      assert.deepEqual(
        flows.filter((flow) => / dport=80 .* src=10\.244\.2\./.test(flow)),
        [],
      );
      const lost = client.since(vanished).filter(isLost);
      const last = Math.max(...lost.map(({ at }) => at)) - vanished;
      t.diagnostic(`${lost.length} lost connections, the last one after ${(last / 1000).toFixed(1)} s`);
      assert.ok(lost.length > 0, 'it was used before');
      await until('the lost ones went on elsewhere', () =>
        client
          .since(vanished)
          .filter(isLost)
          .some((one) => one.isAnswered),
      );

      const explained = await vanishing.ask('explain', 'node', '10.96.0.10:80');
      assert.match(explained, /not used because its Node node-2 does not answer \(--failover=confirm\)/);
      assert.match(await vanishing.ask('history'), /no answer from Node node-2: /);

      await lab.cable('node-2', 'up');
      await agent.logged(isBack);
      await agent.synced(agent.log.findIndex(isBack));
      const rules = await lab.exec(
        'node',
        mode === 'nftables' ? 'nft' : 'iptables-save',
        ...(mode === 'nftables' ? ['list', 'ruleset'] : []),
      );
      assert.ok(rules.includes(lab.pod(2, 1)) && rules.includes(lab.pod(2, 2)));
      const metrics = await lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/metrics');
      assert.match(metrics, /^slicewire_failover_suspects 0$/m);
      assert.match(metrics, /^slicewire_failover_ejections_total 1$/m);
    });
  });
}

describe('no suspect', () => {
  it('is the Node of a pod that a NetworkPolicy shields', async (t) => {
    const vanishing = await cluster(t);
    const { lab } = vanishing;
    await lab.exec('node-2', 'iptables', '-A', 'INPUT', '-d', lab.pod(2, 1), '-j', 'DROP');
    await isNoSuspect(vanishing);
  });

  it('is a Node whose pods take no connections: their backlog is full', async (t) => {
    const vanishing = await cluster(t);
    await vanishing.lab.fillBacklog('node-2');
    await isNoSuspect(vanishing);
  });

  it('is any Node while the cable of this one is out', async (t) => {
    const vanishing = await cluster(t);
    await vanishing.lab.cable('node', 'down');
    await isNoSuspect(vanishing);
  });
});
