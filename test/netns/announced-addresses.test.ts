/**
 * Addresses of Services of type LoadBalancer that move between nodes (docs/neighbours.md): a speaker answers ARP for them, as MetalLB's
 * in layer 2 mode, or a node's own device has them, as with kube-vip and keepalived. IPVS mode: test/vm/neighbours.vm.ts.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { LAB } from '../../src/cli/lab/lab.ts';
import { HEALTH_CHECK_PORT, type NodeName, TwoNodes, VIPS } from '../helpers/cli/lab/two-nodes.ts';
import { NODE_PORT } from '../helpers/cli/lab/web.ts';

const NODES = ['node', 'other'] as const;
/** Of node ports: the one node has them on its first address, the other on all. */
const FLAGS: Readonly<Record<NodeName, string>> = { node: 'primary', other: '0.0.0.0/0,::/0' };

for (const mode of ['nftables', 'iptables'] as const) {
  describe(`an announced address, in ${mode} mode`, () => {
    let two: TwoNodes;
    const agents: AgentProcess[] = [];

    before(async () => {
      two = await TwoNodes.create();
      for (const at of NODES) agents.push(await two.start(at, `--mode=${mode}`, '--nodeport-addresses', FLAGS[at]));
    });
    after(() => two?.remove());
    afterEach(async () => {
      for (const vip of Object.values(VIPS)) for (const at of NODES) two.ports[at].leave(vip.v4);
      await two.lab.exec('client', 'ip', 'neighbour', 'flush', 'dev', 'lan0');
    });

    it('that a speaker answers for is served by that node, and by the next one after its gratuitous ARP', async () => {
      const { v4 } = VIPS.web;
      const { node, other } = two.ports;
      node.take(v4);
      assert.deepEqual(await two.whoHas(v4), ['node'], 'no node has the address, so the speaker alone answers');
      assert.equal(await two.through(v4), 'node');
      node.leave(v4);
      other.take(v4);
      assert.deepEqual(await two.whoHas(v4), ['other']);
      assert.equal(await two.through(v4), 'other', 'the client had an entry, which the gratuitous ARP replaced');
      // A neighbour that did not hear it: the former node goes on to serve.
      await two.lab.exec('client', 'ip', 'neighbour', 'replace', v4, 'lladdr', node.mac, 'dev', 'lan0', 'nud', 'stale');
      assert.equal(await two.through(v4), 'node');
    });

    it('of policy Local is served by the node with an endpoint, and the health check port tells which', async () => {
      const { v4 } = VIPS.local;
      const own = { node: LAB.node.v4, other: LAB.otherNode.v4 };
      const healthy = async (at: NodeName) => {
        const url = `http://${own[at]}:${HEALTH_CHECK_PORT}`;
        const script = `process.stdout.write(String((await fetch('${url}')).status))`;
        return await two.lab.exec(at, process.execPath, '--input-type=module', '-e', script);
      };
      assert.deepEqual([await healthy('node'), await healthy('other')], ['200', '503']);
      two.ports.node.take(v4);
      assert.equal(await two.through(v4), `pod-1 ${LAB.client.v4}`, 'with the address of the client');
      two.ports.node.leave(v4);
      two.ports.other.take(v4);
      assert.deepEqual(await two.whoHas(v4), ['other'], 'so that node is who drops the packets');
      assert.equal((await two.lab.ask('client', { address: v4, port: 80 })).outcome, 'timeout');
    });

    for (const family of ['v4', 'v6'] as const) {
      it(`that a node's own device has is served by that node, and moves with it, in IP${family}`, async () => {
        const vip = VIPS.web[family];
        for (const at of NODES) {
          await two.bind(at, vip);
          assert.equal(await two.through(vip), at);
          const isTaken = FLAGS[at] !== 'primary';
          const byNodePort = await two.through(vip, NODE_PORT);
          assert.equal(
            byNodePort,
            isTaken ? at : 'refused',
            'it takes node ports where all addresses do, and only there',
          );
          // Pods of any node reach the Service by their own node, whoever has the address.
          const said = await two.lab.ask('pod-2', { address: vip, port: 80 });
          assert.equal(said.outcome === 'reply' && said.by, 'pod-1');
          await two.unbind(at, vip);
        }
      });
    }

    it('moves: connections through the former node end, and new ones succeed at once', async () => {
      const { v4 } = VIPS.web;
      await two.bind('node', v4);
      const kept = () => two.lab.ask('client', { address: v4, port: 80, keep: mode, timeout: 20_000 });
      assert.equal((await kept()).outcome, 'reply');
      await two.unbind('node', v4);
      await two.bind('other', v4);
      const { outcome } = await kept();
      assert.equal(outcome, 'error', 'the next node does not know the connection, and the endpoint resets it');
      assert.equal(await two.through(v4), 'other');
      await two.unbind('other', v4);
    });

    it('of ipMode Proxy is left to the load balancer: a program of the node serves it', async () => {
      const { v4 } = VIPS.proxied;
      await two.bind('node', v4);
      assert.equal(await two.through(v4), 'refused');
      await two.lab.serve('node', 'TCP', 80, v4);
      assert.equal(await two.through(v4), `node ${LAB.client.v4}`);
      await two.unbind('node', v4);
    });

    it('brings no fault, no repair and no other proxy', () => {
      assert.equal(agents.length, NODES.length);
      for (const { log } of agents) {
        assert.ok(log.length > 0, 'an agent that works has a log');
        const told = log.filter(
          ({ level, msg }) => level === 'error' || /changed rules of ours|runs? beside/.test(msg),
        );
        assert.deepEqual(told, []);
      }
    });
  });
}
