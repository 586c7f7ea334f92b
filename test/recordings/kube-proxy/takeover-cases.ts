/**
 * Takeovers from kube-proxy that are confirmed, or go back: its rules were recorded from the real one, and are loaded into a node's kernel here.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { AgentProcess } from '../../../src/cli/lab/agent-process.ts';
import { podAddress } from '../../../src/cli/lab/lab.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import { until } from '../../helpers/base/until.ts';
import { type Route, startTraffic } from '../../helpers/cli/lab/traffic.ts';
import { type Recorded, RecordedNode, VERSIONS } from './scene.ts';

const NEWEST = VERSIONS.at(-1) ?? '';
/** A Service whose only endpoint is a Pod of the node. */
const ONE = { address: '10.96.0.21', port: 80 } as const;
/** Of a Pod of the node, and of the node. */
const ROUTES: readonly Route[] = [
  { from: 'pod-1', ...ONE },
  { from: 'node', ...ONE },
  { from: 'pod-1', address: '192.168.77.2', port: 30_021 },
];
const ENDPOINT = { pod: 'pod-3', address: podAddress(3).v4, port: 8080 } as const;
/** Virtual servers without their connections, sets with their entries, and addresses: nothing where the kernel has no IPVS. */
const SERVERS =
  'ipvsadm -Sn | sort; ipset save | sed "s/ hashsize [0-9]*//; s/ bucketsize [0-9]*//; s/ initval [^ ]*//" | sort; ip -o addr show kube-ipvs0 | sed "s/^[0-9]*://; s/ nodad//" | sort; true';
const CONFIRM = [
  '--takeover=confirm',
  '--iptables-sync-period=2s',
  '--nftables-sync-period=2s',
  '--ipvs-sync-period=2s',
] as const;

/** Packets of another program's rules do not come through: the agent cannot reach itself by its own. */
const BROKEN =
  'add table ip broken; add chain ip broken out { type filter hook output priority -300; }; add rule ip broken out ip daddr 192.0.2.80 drop';
/** The node's own packets to the Service are refused. */
const REFUSED =
  'add table ip broken; add chain ip broken out { type filter hook output priority -300; }; add rule ip broken out ip daddr 10.96.0.21 reject';

const CASES = ['confirmed', 'back', 'killed'] as const;

/** The cases of a takeover by slicewire in a mode from kube-proxy in another one, or in the same. */
export function takeoverCases(
  former: Recorded['mode'],
  mode: ModeName,
  cases: readonly (typeof CASES)[number][] = CASES,
): void {
  const when = (one: (typeof CASES)[number]) => (cases.includes(one) ? it : () => undefined);
  describe(`a takeover by ${mode} mode from kube-proxy in ${former} mode`, () => {
    const isOfIpvs = [former, mode].includes('ipvs');
    let node: RecordedNode;
    let agent: AgentProcess | undefined;
    before(async () => {
      node = await RecordedNode.create({ version: NEWEST, mode: former }, { pods: 3 });
      await node.lab.serve(ENDPOINT.pod, 'TCP', ENDPOINT.port);
    });
    after(() => node.remove());
    beforeEach(() => node.reset());
    afterEach(async () => {
      await agent?.stop();
      await node.lab.exec('node', 'sh', '-c', 'rm -f /run/slicewire/takeover*-$(stat -Lc %i /proc/self/ns/net)');
    });

    const nft = async (text: string) => await node.lab.exec('node', 'nft', text);
    const ruleset = async () => {
      const saved = await Promise.all(['iptables-save', 'ip6tables-save'].map((tool) => node.lab.exec('node', tool)));
      const list = 'nft -s list table ip kube-proxy; nft -s list table ip6 kube-proxy; true';
      const tables = (await node.lab.exec('node', 'sh', '-c', list)).split('\n');
      const rules = saved.flatMap((text) => text.split('\n')).filter((line) => line.includes('KUBE-'));
      return {
        servers: (await node.lab.exec('node', 'sh', '-c', SERVERS)).split('\n'),
        // kube-proxy's own rules remember the node as a client of the Service with affinity, which is among those that were asked before.
        tables: tables.filter((line) => line !== '\t\telements = { 192.168.77.2 }'),
        rules: rules.map((line) => line.replace(/ \[\d+:\d+\]$/, '')).sort(),
      };
    };
    /** The server of the check may wait for its last connection, as all servers do where kube-proxy had none. */
    const isBack = async (before: Awaited<ReturnType<typeof ruleset>>) => {
      const isOfKubelet = (line: string) => line.includes('KUBE-FIREWALL');
      // KUBE-FIREWALL is the kubelet's as well: where the agent made it, it stays.
      const hadFirewall = before.rules.some(isOfKubelet);
      const now = async () => {
        const { servers, rules, tables } = await ruleset();
        const all = former === 'ipvs' ? servers : before.servers;
        return {
          tables,
          rules: rules.filter((line) => hadFirewall || !isOfKubelet(line)),
          servers: all.filter((line) => !/192\.0\.2\.80|2001:db8::80/.test(line)),
        };
      };
      const isSame = async () => isDeepStrictEqual(await now(), before);
      await until('the former state', isSame, 30_000).catch(() => undefined);
      assert.deepEqual(await now(), before);
    };
    const health = async (path: string) =>
      await node.lab.exec('node', 'curl', '-s', '-w', '%{http_code}', `http://127.0.0.1:10256${path}`);
    const metrics = async () => await node.lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10249/metrics');
    /** Every connection that is opened meanwhile is answered: of a Pod and of the node to the cluster IP, and of a Pod to the node port. */
    const underTraffic = async <T>(work: () => Promise<T>): Promise<T> => {
      // An emulated machine, which IPVS may need, has no time for more beside the agent.
      const traffic = startTraffic(node.lab, ROUTES, isOfIpvs ? { pause: 1000 } : {});
      const [done, { requests, failures }] = await work().then(
        async (result) => [result, await traffic.stop()] as const,
        async (error: unknown) => {
          await traffic.stop();
          throw error;
        },
      );
      assert.deepEqual([failures, requests > 10], [[], true], `${requests} connections`);
      return done;
    };
    const answers = async (from: string) => (await node.lab.ask(from, ONE)).outcome;
    const said = (text: string) => (line: { readonly msg: string }) => line.msg.includes(text);
    const take = () => {
      // A first sync must fit into it, also in an emulated machine.
      const window = `--takeover-window=${isOfIpvs ? 30 : 3}s`;
      agent = node.run(`--mode=${mode}`, ...CONFIRM, window);
      return agent;
    };
    const hasOwn = async () =>
      mode === 'nftables'
        ? (await nft('list tables')).includes('slicewire')
        : /KUBE-HAIRPIN|KUBE-IPVS-SERVERS/.test(await node.lab.exec('node', 'sh', '-c', `iptables-save; ${SERVERS}`));

    when('confirmed')('is confirmed when its rules serve, and not ready before', async () => {
      const running = await underTraffic(async () => {
        const begun = take();
        await begun.logged(said('the takeover of this node began'));
        await begun.synced();
        assert.match(await health('/readyz?verbose'), /not confirmed yet.*503$/s);
        assert.ok((await metrics()).includes('slicewire_takeover{stage="open"} 1'));
        if (former === 'nftables') assert.match(await nft('list table ip kube-proxy'), /flags dormant/);
        await begun.logged(said('the takeover of this node is confirmed'));
        return begun;
      });
      assert.match(await health('/readyz'), /200$/);
      assert.ok((await metrics()).includes('slicewire_takeover{stage="confirmed"} 1'));
      await until('nothing is left of kube-proxy, nor of the check', async () => {
        const all = await node.lab.exec(
          'node',
          'sh',
          '-c',
          `nft list tables; nft list ruleset | grep -F 192.0.2.80; ${SERVERS}`,
        );
        return !all.includes('kube-proxy') && !all.includes('192.0.2.80');
      });
      assert.equal(await answers('pod-1'), 'reply');
      await running.stop();
      const again = take();
      await again.logged(({ msg }) => msg.startsWith('synced'));
      assert.ok(!again.log.some(said('the takeover of this node began')), 'a confirmed takeover is over');
    });

    when('back')(
      'goes back when packets do not pass its rules, and stays back until it is told to try again',
      async () => {
        const before = await ruleset();
        await nft(BROKEN);
        const running = await underTraffic(async () => {
          const begun = take();
          await begun.logged(said('are back, and this agent writes nothing'));
          return begun;
        });
        const error = await running.logged(said('the takeover of this node failed: '));
        assert.match(
          error.msg,
          /a connection from this node to 192\.0\.2\.80:80 through the rules does not reach the agent/,
        );
        await isBack(before);
        assert.equal(await hasOwn(), false);
        assert.equal(await answers('pod-1'), 'reply');
        await running.logged(said('To try again, remove /run/slicewire/takeover-'));
        assert.match(await health('/readyz?verbose'), /the takeover of this node failed at .*503$/s);
        assert.ok((await metrics()).includes('slicewire_takeover{stage="went back"} 1'));
        await running.stop();

        const again = take();
        await again.logged(said('To try again, remove'));
        await isBack(before);
        await nft('delete table ip broken');
        await node.lab.exec('node', 'sh', '-c', 'rm /run/slicewire/takeover-$(stat -Lc %i /proc/self/ns/net)');
        await again.logged(said('the takeover of this node is confirmed'));
        assert.equal(await hasOwn(), true);
        assert.equal(await answers('pod-1'), 'reply');
      },
    );

    when('killed')('goes back after a kill, too, when a Service that answered before does not any more', async () => {
      const before = await ruleset();
      const killed = take();
      await killed.logged(said('the takeover of this node began'));
      await killed.synced();
      process.kill(killed.pid ?? 0, 'SIGKILL');
      await killed.ended;
      await nft(REFUSED);
      const running = take();
      const error = await running.logged(said('the takeover of this node failed: '));
      await running.logged(said('are back, and this agent writes nothing'));
      assert.match(
        error.msg,
        /Service shop\/one at 10\.96\.0\.21:80 answered before the takeover and does not now, though its endpoints do: 10\.244\.1\.13:8080/,
      );
      await isBack(before);
      assert.equal(await answers('pod-1'), 'reply');
    });
  });
}
