/** kube-proxy's two counters of packets in iptables mode: node ports on loopback that were used, and invalid packets that were dropped (k8s#125015, k8s#122812). */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { realCommands } from '../../src/kernel/commands.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, POD_PORT, WEB, webObjects } from '../helpers/cli/lab/web.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { askNode } from './node-server.ts';

/** Milliseconds: the machine may have more to do, and what a process counts is cached for a while. */
const PATIENCE = 60_000;
const LOCALHOST = 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total';
const INVALID = 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total';

for (const backend of ['nft', 'legacy'] as const) {
  describe(`counters of packets, iptables-${backend}`, () => {
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

    const started = async (...flags: string[]) => {
      const agent = node.start('--iptables-backend', backend, ...flags);
      await agent.logged(({ msg }) => msg.startsWith('synced'), { within: PATIENCE });
      return agent;
    };
    const metric = async (name: string): Promise<number> => {
      const { body } = await askNode(lab, '/metrics', 10_249);
      return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(body)?.[1] ?? assert.fail(`${name} is missing`));
    };
    const becomes = async (name: string, fits: (value: number) => boolean): Promise<number> => {
      const end = performance.now() + PATIENCE;
      for (;;) {
        const value = await metric(name);
        if (fits(value)) return value;
        if (performance.now() > end) assert.fail(`${name} is ${value}`);
        await pause(200);
      }
    };
    const uses = async (from: string, address: string, port: number) =>
      assert.equal((await lab.ask(from, { address, port, timeout: 15_000 })).outcome, 'reply', address);

    it('report the connections to node ports on 127.0.0.0/8 and no others, over a restart and a counter that is set to 0', async () => {
      const agent = await started();
      assert.equal(await metric(LOCALHOST), 0);
      await uses('node', '127.0.0.1', NODE_PORT);
      await uses('node', '127.0.0.9', NODE_PORT);
      await uses('node', LAB.node.v4, NODE_PORT);
      await uses('client', LAB.node.v4, NODE_PORT);
      await uses('node', WEB, 80);
      // No node port, and so none that was accepted.
      await lab.ask('node', { address: '127.0.0.1', port: 1 });
      assert.equal(await becomes(LOCALHOST, (value) => value > 0), 2);
      await agent.stop();
      const again = await started();
      assert.equal(await becomes(LOCALHOST, (value) => value > 0), 2, 'nothing was written');
      await lab.exec('node', `iptables-${backend}`, '-t', 'nat', '-Z', 'KUBE-POSTROUTING');
      await metric(LOCALHOST);
      await uses('node', '127.0.0.1', NODE_PORT);
      assert.ok((await becomes(LOCALHOST, (value) => value > 2)) <= 3);
      await again.stop();
    });

    it('report invalid packets that were dropped', async () => {
      const agent = await started();
      const before = await metric(INVALID);
      // Of a connection that conntrack forgot, and that it does not take up in the midst, every packet is invalid.
      await lab.exec('node', 'sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_loose=0');
      const talk = `exec 3<>/dev/tcp/${podAddress(1).v4}/${POD_PORT}; echo connected; read -r; echo more >&3; sleep 3`;
      const child = lab.inside('client', 'bash', ['-c', `(sleep 2; echo) | (${talk})`]);
      const talking = realCommands.run(child, NEVER);
      const flow = ['-p', 'tcp', '--orig-src', LAB.client.v4, '--orig-dst', podAddress(1).v4];
      const end = performance.now() + PATIENCE;
      for (;;) {
        const { exitCode } = await shellCommands.run(lab.inside('node', 'conntrack', ['-D', ...flow]), NEVER);
        if (exitCode === 0) break;
        assert.ok(performance.now() < end, 'there is no connection');
        await pause(50);
      }
      await becomes(INVALID, (value) => value > before);
      await talking;
      await agent.stop();
    });

    it('are there, and 0, where node ports on loopback are not wanted', async () => {
      await node.run('cleanup', '--iptables-backend', backend);
      const agent = await started('--iptables-localhost-nodeports=false');
      assert.equal(await metric(LOCALHOST), 0);
      // What is left of the connection of before may still be dropped.
      await metric(INVALID);
      await agent.stop();
    });
  });
}
