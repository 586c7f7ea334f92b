/** Tests that stop an agent or the API server, or delete rules, from test/e2e/network/service.go and networking.go of Kubernetes. */
import assert from 'node:assert/strict';
import { until } from '../../../helpers/base/until.ts';
import { at, type Jig, type Suite, textOf } from '../jig.ts';
import type { Ask } from '../traffic.ts';
import { serveHostnames } from './basics.ts';

const allUp = async (...services: readonly { isUp(): Promise<void> }[]) => {
  for (const { isUp } of services) await isUp();
};

/** Delete all rules of the agent on a node, as somebody who cleans up too much. */
async function deleteRules(jig: Jig, node: string): Promise<void> {
  if (jig.cluster.mode === 'nftables') {
    for (const family of ['ip', 'ip6'])
      await jig.cluster.network.exec(node, 'nft', 'delete', 'table', family, 'slicewire');
    return;
  }
  for (const tables of [['nat'], ['filter'], ['mangle']])
    await jig.cluster.network.exec(node, 'sh', '-c', `printf '*${tables[0]}\\nCOMMIT\\n' | iptables-restore`);
}

export const disruptive: Suite = {
  'should work after restarting kube-proxy': async (jig) => {
    const first = await serveHostnames(jig, 'restart-proxy-1');
    const second = await serveHostnames(jig, 'restart-proxy-2');
    assert.notEqual(first.target.address, second.target.address);
    await allUp(first, second);
    await Promise.all(jig.cluster.nodes.map(({ name }) => jig.cluster.restartAgent(name)));
    await allUp(first, second);
  },

  'should work after restarting apiserver': async (jig) => {
    const first = await serveHostnames(jig, 'restart-apiserver-1');
    await first.isUp();
    const [node = assert.fail()] = jig.cluster.nodes;
    const { log } = jig.cluster.agent(node.name);
    const since = log.length;
    await jig.cluster.withoutApi(() =>
      until('the agent misses the API server', () =>
        log.slice(since).some(({ msg }) => msg.startsWith('cannot follow')),
      ),
    );
    await first.isUp();
    const second = await serveHostnames(jig, 'restart-apiserver-2');
    assert.notEqual(first.target.address, second.target.address);
    await allUp(first, second);
  },
};

export const disruptiveOfNetworking: Suite = {
  'should check kube-proxy urls': async (jig) => {
    const onLoopback = { ask: (request: Ask) => jig.cluster.askFromNode('node-1', request) };
    const health = JSON.parse(await textOf(onLoopback, { ...at('127.0.0.1', 10_256), path: 'healthz' }));
    assert.ok('lastUpdated' in health, JSON.stringify(health));
    assert.equal(await textOf(onLoopback, { ...at('127.0.0.1', 10_249), path: 'proxyMode' }), jig.cluster.mode);
  },

  'should recreate its iptables rules if they are deleted': async (jig) => {
    const { isUp } = await serveHostnames(jig, 'iptables-flush-test');
    await isUp();
    const { log } = jig.cluster.agent('node-1');
    const since = log.length;
    await deleteRules(jig, 'node-1');
    await until('the agent writes them again', () => log.slice(since).some(({ msg }) => msg === 'synced'));
    await isUp();
  },
};
