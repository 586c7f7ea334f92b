/** Node ports on IPv4 addresses of scope link, as a provider gives them to its machines. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { NetlinkSocket } from '../../native/netlink-socket.ts';
import { NETLINK_ROUTE } from '../../native/rtnetlink.ts';
import type { Family } from '../../src/base/address.ts';
import { LAB, Lab } from '../../src/cli/lab/lab.ts';
import { readAddresses } from '../../src/kernel/devices.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NODE_PORT, POD_PORT, webObjects } from '../helpers/cli/lab/web.ts';
import { transportsIn } from '../helpers/kernel/namespace-sockets.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const LINK = '169.254.77.1';
/** Milliseconds: the machine may have more to do. */
const PATIENCE = 60_000;

describe('addresses of scope link', () => {
  let lab: Lab;
  let node: ManifestNode;

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 1, remotePods: 0, signal: NEVER });
    await lab.serve('pod-1', 'TCP', POD_PORT);
    await lab.exec('node', 'ip', 'address', 'add', `${LINK}/32`, 'dev', 'eth0', 'scope', 'link');
    await lab.exec('client', 'ip', 'route', 'add', `${LINK}/32`, 'via', LAB.node.v4);
  });
  after(() => lab.remove());

  beforeEach(async () => {
    node = await ManifestNode.create(lab);
    await node.write('web', ...webObjects([1], { hasOther: false }));
  });
  afterEach(async () => {
    await node.stop();
    await node.run('cleanup');
    await node.clear();
  });

  for (const mode of ['iptables', 'nftables'] as const) {
    it(`of IPv4 take node ports where --nodeport-addresses names them, in ${mode} mode`, async () => {
      const agent = node.start(`--mode=${mode}`, '--nodeport-addresses', '169.254.0.0/16');
      await agent.synced(0, PATIENCE);
      const asks = (address: string) => lab.ask('client', { address, port: NODE_PORT, timeout: 3000 });
      const answer = await asks(LINK);
      assert.equal(answer.outcome === 'reply' && answer.by, 'pod-1');
      assert.equal((await asks(LAB.node.v4)).outcome, 'refused', 'no other address does');
    });
  }

  it('of IPv4 are among the addresses that every mode reads, and those of IPv6 are not', async () => {
    const route = new NetlinkSocket(transportsIn(lab.namespace('node'))(NETLINK_ROUTE));
    const others = async (family: Family): Promise<readonly string[]> => (await readAddresses(route, family)).others;
    try {
      assert.ok((await others('IPv4')).includes(LINK));
      const listed = await lab.exec('node', 'ip', '-6', 'address', 'show', 'dev', 'eth0');
      assert.match(listed, /inet6 fe80:\S+ scope link/, 'there is one to be left out');
      const found = await others('IPv6');
      assert.deepEqual(
        found.filter((address) => address.startsWith('fe80:')),
        [],
      );
      assert.ok(found.includes(LAB.node.v6));
    } finally {
      route.close();
    }
  });
});
