/**
 * NodeLocal DNSCache beside the agent (kubernetes/dns#682, docs/neighbours.md): who answers at which address, that its packets are not
 * tracked, and that the proxy takes the cluster IP over when the cache goes.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { FAMILIES } from '../../src/base/address.ts';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { cluster, type StoryCluster } from '../conformance/cluster.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { NodeCache } from '../helpers/cli/lab/node-cache.ts';
import {
  clusterDns,
  DNS_POD_PORT,
  kubeDns,
  kubeDnsUpstream,
  LOCAL_DNS,
  METRICS_PORT,
} from '../helpers/cluster/cluster-dns.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';
import { askNode } from './node-server.ts';

/** Milliseconds: the machine may have more to do. */
const PATIENCE = 20_000;
const METRICS_SERVER = 10_249;
const PROTOCOLS = ['UDP', 'TCP'] as const;
const WORLDS = FAMILIES.map(cluster);
const CIDRS = WORLDS.map(({ clusterCidr }) => clusterCidr).join(',');
/** The mode, the agent's variant of iptables, and that of node-cache: another one may be in its image. */
const BESIDE = [
  { mode: 'nftables', backend: 'nft', variant: 'nft' },
  { mode: 'nftables', backend: 'nft', variant: 'legacy' },
  { mode: 'iptables', backend: 'nft', variant: 'nft' },
  { mode: 'iptables', backend: 'legacy', variant: 'legacy' },
  { mode: 'iptables', backend: 'nft', variant: 'legacy' },
] as const;

for (const { mode, backend, variant } of BESIDE) {
  const agents = mode === 'nftables' ? 'nftables mode' : `iptables mode (${backend})`;
  describe(`NodeLocal DNSCache with iptables-${variant} beside ${agents}`, () => {
    let lab: Lab;
    let node: ManifestNode;
    let agent: AgentProcess;
    let caches: NodeCache[] = [];

    before(async () => {
      lab = await Lab.create({ commands: shellCommands, pods: 2, remotePods: 0, signal: NEVER });
      for (const protocol of PROTOCOLS) await lab.serve('pod-1', protocol, DNS_POD_PORT);
      await lab.serve('pod-1', 'TCP', METRICS_PORT);
      node = await ManifestNode.create(lab);
      await node.write('dns', ...clusterDns());
      // The objects are manifests, which may not take the port of a program on an address of this node without this flag.
      const guard = '--allow-node-address-ports';
      agent = node.start(`--mode=${mode}`, '--iptables-backend', backend, '--cluster-cidr', CIDRS, guard);
      await agent.synced(0, PATIENCE);
    });
    after(async () => {
      await node?.clear();
      await lab?.remove();
    });
    afterEach(async () => {
      for (const cache of caches.splice(0)) await cache.stop();
    });

    /** One for each family. */
    async function startCaches(bound: (w: StoryCluster) => readonly string[]): Promise<void> {
      caches = WORLDS.map((w) => {
        const device = w.family === 'IPv4' ? 'nodelocaldns' : 'nodelocaldns6';
        return new NodeCache(lab, { variant, device, addresses: bound(w), upstream: kubeDnsUpstream(w) });
      });
      for (const cache of caches) await cache.start();
    }
    const atBoth = (w: StoryCluster) => [LOCAL_DNS[w.family], kubeDns(w)];

    /** `cache pod-1`: the cache answered, and asked pod-1. `pod-1`: pod-1 answered itself. */
    async function answer(from: string, address: string, protocol: 'UDP' | 'TCP', port = 53): Promise<string> {
      const said = await lab.ask(from, { address, port, protocol, timeout: PATIENCE });
      if (said.outcome !== 'reply') return said.outcome;
      return said.by === 'cache' ? `cache ${said.seen}` : said.by;
    }

    /** From a pod and from the node, over UDP and TCP. */
    async function all(address: string, expected: string): Promise<void> {
      for (const protocol of PROTOCOLS) {
        for (const from of ['pod-2', 'node']) {
          assert.equal(await answer(from, address, protocol), expected, `${from} to ${address}, ${protocol}`);
        }
      }
    }

    const tracked = async ({ family }: StoryCluster, address: string) =>
      (await lab.exec('node', 'conntrack', '-L', '-f', family.toLowerCase(), '-d', address)).trim();

    it('listens at the cluster IP as well: it answers there, untracked, and reaches its upstream by the proxy', async () => {
      const since = agent.log.length;
      await startCaches(atBoth);
      await lab.exec('node', 'conntrack', '-F');
      for (const w of WORLDS) {
        for (const address of atBoth(w)) {
          await all(address, 'cache pod-1');
          assert.equal(await tracked(w, address), '', `nothing of ${address} is tracked`);
        }
        assert.match(await tracked(w, kubeDnsUpstream(w)), /dport=53 /, 'the upstream is tracked, as any Service');
        const metrics = await answer('pod-2', kubeDns(w), 'TCP', METRICS_PORT);
        assert.equal(metrics, 'pod-1', 'the proxy serves the other ports of the cluster IP');
        const explained = await askNode(
          lab,
          `/explain?from=node&to=${w.family === 'IPv4' ? kubeDns(w) : `[${kubeDns(w)}]`}:53/udp`,
          METRICS_SERVER,
        );
        const { notes } = JSON.parse(explained.body) as { notes: readonly string[] };
        assert.ok(
          notes.some((note) => note.startsWith(`${kubeDns(w)} is an address of an interface of this node, too`)),
          explained.body,
        );
      }
      const verified = await askNode(lab, '/verify', METRICS_SERVER);
      assert.deepEqual((JSON.parse(verified.body) as { differences: unknown }).differences, [], verified.body);
      const changed = agent.log.slice(since).filter(({ msg }) => msg.includes('changed rules of ours'));
      assert.deepEqual(changed, [], 'its rules are not taken for changes of ours');
    });

    it('answers at the cluster IP while kube-dns has no endpoint, which the proxy refuses without it', async () => {
      const becomes = async (hasEndpoints: boolean) => {
        const since = agent.log.length;
        await node.write('dns', ...clusterDns({ hasEndpoints }));
        await agent.synced(since, PATIENCE);
      };
      await becomes(false);
      for (const w of WORLDS) await all(kubeDns(w), 'refused');
      await startCaches(atBoth);
      for (const w of WORLDS) {
        await all(kubeDns(w), 'cache pod-1');
        assert.equal(await answer('pod-2', kubeDns(w), 'TCP', METRICS_PORT), 'refused');
      }
      await becomes(true);
    });

    it('listens at its own address alone: the proxy serves the cluster IP', async () => {
      await startCaches((w) => [LOCAL_DNS[w.family]]);
      for (const w of WORLDS) {
        await all(LOCAL_DNS[w.family], 'cache pod-1');
        await all(kubeDns(w), 'pod-1');
      }
    });

    it('goes: the proxy serves the cluster IP at once, to clients that keep their port as well', async () => {
      const keeps = async (w: StoryCluster) => {
        const own = { protocol: 'UDP', fromPort: 20_053, timeout: PATIENCE } as const;
        const said = await lab.ask('pod-2', { address: kubeDns(w), port: 53, ...own });
        return said.outcome === 'reply' ? said.by : said.outcome;
      };
      for (const w of WORLDS) assert.equal(await keeps(w), 'pod-1', 'before it came');
      await startCaches(atBoth);
      for (const w of WORLDS) assert.equal(await keeps(w), 'cache', 'also from a flow that the proxy had translated');
      for (const cache of caches) await cache.crash();
      // Its rules still keep the packets from the proxy.
      for (const w of WORLDS) await all(kubeDns(w), 'refused');
      for (const cache of caches.splice(0)) await cache.stop();
      for (const w of WORLDS) {
        assert.equal(await keeps(w), 'pod-1');
        await all(kubeDns(w), 'pod-1');
      }
    });

    it('keeps its rules when slicewire is removed', async () => {
      await startCaches(atBoth);
      const rules = () => Promise.all(caches.map((cache) => cache.rules()));
      const before = await rules();
      assert.deepEqual(
        before.map(({ length }) => length),
        [24, 24],
      );
      await node.stop();
      const { status, error } = await node.run('cleanup', '--iptables-backend', backend);
      assert.equal(status, 0, error);
      assert.deepEqual(await rules(), before);
    });
  });
}
