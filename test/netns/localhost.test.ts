/** Node ports on 127.0.0.1 need route_localnet; its guard keeps neighbours away from what listens there (CVE-2020-8558, k8s#92315). */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LAB, Lab } from '../../src/cli/lab/lab.ts';
import { cluster } from '../conformance/cluster.ts';
import { NODE_PORT, nodePortWeb, pods } from '../conformance/stories/build.ts';
import { commandsIn, sysctlsIn } from '../helpers/kernel/namespace-commands.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

/** Of a server that listens on 127.0.0.1 of the node alone. */
const PRIVATE = 9090;

for (const backend of ['nft', 'legacy'] as const) {
  describe(`node ports on loopback, iptables-${backend}`, () => {
    let lab: Lab;
    const w = cluster('IPv4');
    const tool = `iptables-${backend}`;
    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
      await lab.serve('pod-1', 'TCP', 8080);
      await lab.serve('node', 'TCP', PRIVATE, '127.0.0.1');
      // A neighbour that sends packets for 127.0.0.1 to the node, rather than to itself.
      await lab.exec('client', 'sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1');
      await lab.exec('client', 'ip', 'address', 'delete', '127.0.0.1/8', 'dev', 'lo');
      await lab.exec('client', 'ip', 'route', 'add', '127.0.0.1/32', 'via', LAB.node.v4, 'src', LAB.client.v4);
    });
    after(() => lab.remove());

    const intrude = async () =>
      (await lab.ask('client', { address: '127.0.0.1', port: PRIVATE, from: LAB.client.v4, timeout: 1000 })).outcome;

    it('the node reaches the node port, a neighbour reaches nothing (CVE-2020-8558)', async () => {
      const sysctls = sysctlsIn(lab, 'node');
      const rig = new Rig({ commands: commandsIn(lab, 'node'), sysctls, backend });
      assert.equal((await rig.put(nodePortWeb(w), pods(w, 'pod-1')).sync()).outcome, 'complete');
      assert.equal(await sysctls.read('net/ipv4/conf/all/route_localnet'), '1');
      for (const address of ['127.0.0.1', '127.0.0.9']) {
        const answer = await lab.ask('node', { address, port: NODE_PORT });
        assert.equal(answer.outcome === 'reply' && answer.by, 'pod-1', address);
      }
      assert.equal(await intrude(), 'timeout');
      // Without the guard the door is open: the attempt above could have got through.
      await lab.exec('node', tool, '-F', 'KUBE-FIREWALL');
      assert.equal(await intrude(), 'reply');
      rig.loop.distrust();
      await rig.sync();
      assert.equal(await intrude(), 'timeout');
    });
  });
}
