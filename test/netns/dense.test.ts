/**
 * nftables mode numbers the endpoints of a frontend, and a packet looks its number up: none is ever missing. Clients connect
 * all the time while endpoints come and go, as fast as the table can be written.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { FAMILIES, type Family } from '../../src/base/address.ts';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import { NftNetlink } from '../../src/kernel/nftables-netlink.ts';
import { nftablesMode } from '../../src/proxy/modes/nftables/index.ts';
import { nftablesSettingsOf } from '../conformance/nftables.ts';
import { startTraffic } from '../helpers/cli/lab/traffic.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { FakeIptables } from '../helpers/kernel/fake-iptables.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER, Rig } from '../helpers/proxy/rig.ts';

const PODS = [1, 2, 3];
const POD_PORTS = [8080, 8081, 8082, 8083];
const PORT = 80;
const NODE_PORT = 30_080;
const CHANGES = 1500;
/** Milliseconds between two. */
const BETWEEN = 1;
const CLIENTS = 6;
/** Milliseconds: conntrack may take a first packet for one of a connection that was, and the client sends it again after a second. */
const PATIENCE = 2500;

const CLUSTER_IP: Readonly<Record<Family, string>> = { IPv4: '10.96.0.10', IPv6: 'fd00:96::10' };
const version = (family: Family) => (family === 'IPv4' ? 'v4' : 'v6');

describe('endpoints of nftables mode come and go under continuous connections', () => {
  let lab: Lab;
  let kernel: NftNetlink;
  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: PODS.length, remotePods: 0, signal: NEVER });
    for (const n of PODS) for (const port of POD_PORTS) await lab.serve(`pod-${n}`, 'TCP', port);
    kernel = new NftNetlink(transportsIn(lab.namespace('node')));
  });
  after(async () => {
    kernel.close();
    await lab.remove();
  });

  for (const family of FAMILIES) {
    it(`${family}: none is refused or lost`, async () => {
      const families = FAMILIES.map((each) => nftablesSettingsOf(each, {}));
      const rig = new Rig({ commands: new FakeIptables(), mode: nftablesMode({ families, kernel }) });
      rig.put(web(family), ...slices(family, 0));
      assert.equal((await rig.sync()).outcome, 'complete');
      const { node } = LAB;
      const routes = Array.from({ length: CLIENTS }, (_, i) =>
        i % 2 === 0
          ? { from: `pod-${(i % PODS.length) + 1}`, address: CLUSTER_IP[family], port: PORT }
          : { from: 'client', address: node[version(family)], port: NODE_PORT },
      );
      await lab.exec('node', 'nft', missed(family));
      const traffic = startTraffic(lab, routes, { timeout: PATIENCE, pause: 0 });
      for (let change = 1; change <= CHANGES; change++) {
        rig.put(...slices(family, change));
        const { outcome, failed } = await rig.sync();
        assert.equal(outcome, 'complete', JSON.stringify(failed));
        // Clients live in this process, too.
        await pause(BETWEEN);
      }
      const { requests, failures } = await traffic.stop();
      assert.deepEqual(failures.slice(0, 5), [], `${failures.length} of ${requests}`);
      assert.ok(requests > CHANGES, `only ${requests} connections`);
      const listed = await lab.exec('node', 'nft', 'list', 'table', 'inet', 'missed');
      assert.equal(/counter packets (\d+)/.exec(listed)?.[1], '0', 'first packets that went through untranslated');
    });
  }
});

/** Counts first packets to the cluster IP that are still addressed to it after the rules that translate it (at -100). */
function missed(family: Family): string {
  const to = `${family === 'IPv4' ? 'ip' : 'ip6'} daddr ${CLUSTER_IP[family]}`;
  return `add table inet missed; flush table inet missed;
    add chain inet missed first { type filter hook prerouting priority -90; };
    add rule inet missed first ${to} ct state new tcp flags & (syn|ack) == syn counter`;
}

function web(family: Family): object {
  const address = CLUSTER_IP[family];
  return service({
    name: 'web',
    spec: {
      type: 'NodePort',
      clusterIP: address,
      clusterIPs: [address],
      ipFamilies: [family],
      ports: [{ port: PORT, nodePort: NODE_PORT }],
    },
  });
}

/** One slice a port, each of other pods at each change; the first pod is always there on the first port. */
function slices(family: Family, change: number): object[] {
  return POD_PORTS.map((port, i) => {
    const isThere = (n: number) => (i === 0 && n === 1) || ((change * 2654435761) >>> (i * 3 + n)) % 2 === 0;
    return slice({
      name: `web-${port}`,
      service: 'web',
      addressType: family,
      ports: [{ name: '', port, protocol: 'TCP' }],
      endpoints: PODS.filter(isThere).map((n) => ({ addresses: [podAddress(n)[version(family)]], nodeName: 'node' })),
    });
  });
}
