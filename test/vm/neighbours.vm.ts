/**
 * Neighbours of IPVS mode on a real kernel (docs/neighbours.md): a speaker or a device that announces addresses of Services, with and
 * without strict ARP, and NodeLocal DNSCache. The other modes: test/netns/announced-addresses.test.ts, test/netns/node-local-dns.test.ts.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { LAB } from '../../src/cli/lab/lab.ts';
import { cluster } from '../conformance/cluster.ts';
import { until } from '../helpers/base/until.ts';
import { NodeCache } from '../helpers/cli/lab/node-cache.ts';
import { TwoNodes, VIPS } from '../helpers/cli/lab/two-nodes.ts';
import { NODE_PORT } from '../helpers/cli/lab/web.ts';
import { clusterDns, DNS_POD_PORT, kubeDns, kubeDnsUpstream, LOCAL_DNS } from '../helpers/cluster/cluster-dns.ts';

const MODE = ['--mode=ipvs', '--nodeport-addresses', 'primary', '--allow-node-address-ports'];
const STRICT = '--ipvs-strict-arp';
const PROTOCOLS = ['UDP', 'TCP'] as const;
/** Milliseconds: the machine may be emulated. */
const PATIENCE = 120_000;

describe('neighbours of IPVS mode', () => {
  let two: TwoNodes;
  const w = cluster('IPv4');

  before(async () => {
    two = await TwoNodes.create();
    await two.nodes.node.write('dns', ...clusterDns());
    for (const protocol of PROTOCOLS) await two.lab.serve('pod-1', protocol, DNS_POD_PORT);
    await two.start('node', ...MODE, STRICT);
    await two.start('other', ...MODE);
  });
  after(() => two?.remove());

  it('without strict ARP a node answers for every address of a Service, with --ipvs-strict-arp for none', async () => {
    const { v4 } = VIPS.web;
    const { node, other } = two.ports;
    node.take(v4);
    const both = await two.whoHas(v4, 2);
    assert.deepEqual(both, ['node', 'other'], 'the kernel of the one without strict ARP answers, too');
    node.leave(v4);
    other.take(v4);
    assert.deepEqual(
      await two.whoHas(v4),
      ['other'],
      'the kernel of the other has the address on kube-ipvs0, and is silent',
    );
    other.leave(v4);
    await two.nodes.other.stop();
    await two.start('other', ...MODE, STRICT);
  });

  it('an address that a speaker answers for moves with its gratuitous ARP, under both policies', async () => {
    const { web, local } = VIPS;
    two.ports.node.take(web.v4);
    assert.deepEqual(await two.whoHas(web.v4), ['node']);
    assert.equal(await two.through(web.v4), 'node');
    two.ports.node.leave(web.v4);
    two.ports.other.take(web.v4);
    assert.equal(await two.through(web.v4), 'other');
    two.ports.other.leave(web.v4);
    two.ports.node.take(local.v4);
    assert.equal(await two.through(local.v4), `pod-1 ${LAB.client.v4}`, 'with the address of the client');
    two.ports.node.leave(local.v4);
    two.ports.other.take(local.v4);
    assert.equal(
      (await two.lab.ask('client', { address: local.v4, port: 80 })).outcome,
      'timeout',
      'no endpoint there',
    );
    two.ports.other.leave(local.v4);
  });

  it("an address on a node's own device moves with it, and takes no node port where the primary one does", async () => {
    const { v4 } = VIPS.web;
    for (const at of ['node', 'other'] as const) {
      await two.bind(at, v4);
      assert.deepEqual(await two.whoHas(v4), [at]);
      assert.equal(await two.through(v4), at);
      assert.equal(await two.through(v4, NODE_PORT), 'refused');
      await two.unbind(at, v4);
    }
    const onDevice = async () =>
      (await two.lab.exec('node', 'ip', 'address', 'show', 'kube-ipvs0')).includes(`inet ${v4}/`);
    await until('the address on the device of IPVS mode', onDevice, PATIENCE);
  });

  describe('NodeLocal DNSCache', () => {
    let cache: NodeCache | undefined;

    /** Who answers a pod and the node, over UDP and TCP: `cache pod-1` is the cache, which asked pod-1. */
    async function answers(address: string): Promise<string[]> {
      const all: string[] = [];
      for (const protocol of PROTOCOLS) {
        for (const from of ['pod-2', 'node']) {
          const said = await two.lab.ask(from, { address, port: 53, protocol, timeout: PATIENCE });
          if (said.outcome !== 'reply') all.push(said.outcome);
          else all.push(said.by === 'cache' ? `cache ${said.seen}` : said.by);
        }
      }
      return all;
    }
    const four = (text: string) => [text, text, text, text];

    afterEach(() => cache?.stop());

    async function start(...addresses: string[]): Promise<void> {
      cache = new NodeCache(two.lab, { addresses, upstream: kubeDnsUpstream(w), variant: 'nft' });
      await cache.start();
    }

    it('answers at its own address, untracked, and the proxy at the cluster IP', async () => {
      await start(LOCAL_DNS.IPv4);
      assert.deepEqual(await answers(LOCAL_DNS.IPv4), four('cache pod-1'));
      assert.equal((await two.lab.exec('node', 'conntrack', '-L', '-d', LOCAL_DNS.IPv4)).trim(), '');
      assert.deepEqual(await answers(kubeDns(w)), four('pod-1'));
    });

    it('leaves nobody to answer at the cluster IP when it has that, too: IPVS takes the untracked packets', async () => {
      assert.deepEqual(await answers(kubeDns(w)), four('pod-1'));
      await start(LOCAL_DNS.IPv4, kubeDns(w));
      for (const from of ['pod-2', 'node']) {
        const said = await two.lab.ask(from, { address: kubeDns(w), port: 53, protocol: 'UDP', timeout: 3000 });
        assert.equal(said.outcome, 'timeout', from);
      }
    });
  });
});
