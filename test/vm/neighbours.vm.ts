/**
 * Neighbours of IPVS mode on a real kernel (docs/neighbours.md): a speaker or a device that announces addresses of Services, with and
 * without strict ARP, and NodeLocal DNSCache. The other modes: test/netns/announced-addresses.test.ts, test/netns/node-local-dns.test.ts.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { FAMILIES } from '../../src/model/address.ts';
import { cluster } from '../conformance/cluster.ts';
import { clusterDns, DNS_POD_PORT, kubeDns, kubeDnsUpstream, LOCAL_DNS } from '../helpers/cluster-dns.ts';
import { NodeCache } from '../helpers/node-cache.ts';
import { TwoNodes, VIPS } from '../helpers/two-nodes.ts';
import { NODE_PORT } from '../helpers/web.ts';

const MODE = ['--mode=ipvs', '--nodeport-addresses', 'primary', '--allow-node-address-ports'];
const NODES = ['node', 'other'] as const;
const PROTOCOLS = ['UDP', 'TCP'] as const;
/** Milliseconds: the machine may be emulated. */
const PATIENCE = 30_000;

describe('neighbours of IPVS mode', () => {
  let two: TwoNodes;

  before(async () => {
    two = await TwoNodes.create({ isBundled: true });
    await two.nodes.node.write('dns', ...clusterDns());
    for (const protocol of PROTOCOLS) await two.lab.serve('pod-1', protocol, DNS_POD_PORT);
  });
  after(() => two.remove());

  it('x', async () => {
    const t0 = Date.now();
    const say = (...w: unknown[]) => console.log(((Date.now() - t0) / 1000).toFixed(1), ...w);
    for (const at of NODES) await two.start(at, ...MODE);
    say('started');
    const { v4 } = VIPS.web;
    two.ports.node.take(v4);
    say('no strict', await two.whoHas(v4));
    say('through', await two.through(v4));
    for (const at of NODES) await two.nodes[at].stop();
    for (const at of NODES) await two.start(at, ...MODE, '--ipvs-strict-arp');
    say('restarted');
    say('strict', await two.whoHas(v4));
    say('through', await two.through(v4));
    two.ports.node.leave(v4);
    two.ports.other.take(v4);
    say('strict', await two.whoHas(v4));
    say('through', await two.through(v4));
    two.ports.other.leave(v4);
    await two.bind('node', v4);
    say('bound', await two.whoHas(v4), await two.through(v4), await two.through(v4, NODE_PORT));
    say(await two.lab.exec('node', 'ip', '-br', 'address'));
    await two.unbind('node', v4);
    await two.bind('other', v4);
    say('bound', await two.whoHas(v4), await two.through(v4), await two.through(v4, NODE_PORT));
    say(await two.lab.exec('node', 'ip', '-br', 'address'));
    await two.unbind('other', v4);
    const ask = async (from: string, address: string, protocol: 'UDP' | 'TCP') => {
      const a = await two.lab.ask(from, { address, port: 53, protocol, timeout: PATIENCE });
      return a.outcome === 'reply' ? `${a.by} ${a.seen}` : a.outcome;
    };
    for (const both of [false, true]) {
      const caches: NodeCache[] = [];
      for (const w of FAMILIES.map(cluster)) {
        const cache = new NodeCache(two.lab, {
          addresses: both ? [LOCAL_DNS[w.family], kubeDns(w)] : [LOCAL_DNS[w.family]],
          upstream: kubeDnsUpstream(w),
          variant: 'nft',
          device: `nodelocal${w.family}`,
        });
        await cache.start();
        caches.push(cache);
        for (const address of [LOCAL_DNS[w.family], kubeDns(w)])
          for (const p of PROTOCOLS)
            for (const from of ['pod-2', 'node']) {
              say(both, from, address, p, await ask(from, address, p));
            }
      }
      say(await two.lab.exec('node', 'conntrack', '-L'));
      for (const c of caches) await c.stop();
    }
    say(await two.lab.exec('node', 'ip', '-br', 'address'));
  });
});
