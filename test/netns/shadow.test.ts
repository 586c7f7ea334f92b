/** A shadow beside the rules of kube-proxy, which were recorded from the real one, and are loaded into a node's kernel here. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { AgentProcess } from '../../src/cli/lab/agent-process.ts';
import type { Shadow } from '../../src/inspect/wire/shadow.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import { until } from '../helpers/base/until.ts';
import { OBJECTS } from '../recordings/kube-proxy/objects.ts';
import { MODES, RecordedNode, VERSIONS } from '../recordings/kube-proxy/scene.ts';
import { CHANGED } from '../recordings/kube-proxy/transcript.ts';

const NEWEST = VERSIONS.at(-1) ?? '';
/** The kernel's settings of networks. */
const SETTINGS = [
  'sh',
  '-c',
  'grep -r . /proc/sys/net/ipv4/conf /proc/sys/net/ipv4/ip_forward /proc/sys/net/netfilter/nf_conntrack_max 2>/dev/null',
] as const;

/** Connections to a Service, which the rules translate. Those to the one endpoint that answers end at once, because it refuses. */
const CONNECTIONS = [
  'bash',
  '-c',
  'for i in {1..16}; do timeout 1 bash -c "exec 3<>/dev/tcp/10.96.0.20/80" 2>/dev/null & done; wait; true',
] as const;

/** Hears all that is written to the rules of a node. */
class Monitor {
  readonly lines: string[] = [];
  readonly #node: RecordedNode;
  readonly #child: Child;

  constructor(node: RecordedNode) {
    this.#node = node;
    this.#child = startChild({
      ...node.lab.inside('node', 'nft', ['monitor']),
      onLine: (line) => this.lines.push(line),
    });
  }

  /** Everything that was written until now is in `lines`, which end with the mark. */
  async heard(mark: string): Promise<void> {
    await until(`nft monitor tells of ${mark}`, async () => {
      await this.#node.lab.exec('node', 'nft', 'add', 'table', 'ip', mark);
      await this.#node.lab.exec('node', 'nft', 'delete', 'table', 'ip', mark);
      return this.lines.some((line) => line.includes(mark));
    });
  }

  stop(): Promise<void> {
    return this.#child.stop();
  }
}

const kindsOf = ({ differences }: Shadow) => differences.map(({ service, kind }) => `${service} ${kind}`).sort();

for (const mode of MODES) {
  describe(`a shadow of kube-proxy in ${mode} mode`, () => {
    let node: RecordedNode;
    let shadow: AgentProcess;
    before(async () => {
      node = await RecordedNode.create({ version: NEWEST, mode });
    });
    after(() => node.remove());
    beforeEach(() => node.reset());

    const metrics = async () => await node.lab.exec('node', 'curl', '-s', 'http://127.0.0.1:10269/metrics');
    const health = async (path: string) =>
      await node.lab.exec('node', 'curl', '-s', '-w', '%{http_code}', `http://127.0.0.1:10269${path}`);

    const ruleset = async () => await node.lab.exec('node', 'nft', '-s', 'list', 'ruleset');
    /** Removes the endpoints of shop/web from the rules. */
    const lose = async () => {
      const [list, flush] =
        mode === 'nftables'
          ? ['nft list chains ip', 'nft flush chain ip kube-proxy']
          : ['iptables-nft -t nat -S KUBE-SERVICES', 'iptables-nft -t nat -F'];
      const chain =
        mode === 'nftables'
          ? 's/.*chain \\(service-[^ ]*-shop\\/web\\/[^ ]*\\) .*/\\1/p'
          : 's/.*shop\\/web[: ].*-j \\(KUBE-SVC-.*\\)/\\1/p';
      await node.lab.exec('node', 'sh', '-c', `${flush} "$(${list} | sed -n '${chain}' | head -1)"`);
    };
    /** Whether a line of the monitor is about them. */
    const lost = (line: string) => /^delete (rule|set ip kube-proxy __map)/.test(line);

    it('finds what is wrong and since when, times the writes, and writes nothing itself', async () => {
      const monitor = new Monitor(node);
      try {
        await monitor.heard('before');
        const settings = await node.lab.exec('node', ...SETTINGS);
        const addresses = await node.lab.exec('node', 'ip', '-o', 'addr');
        const told = monitor.lines.length;
        await node.lab.exec('node', ...CONNECTIONS);
        const started = Date.now();
        await node.write(CHANGED);
        shadow = node.watch();
        const first = await node.foundWhen('the first comparison', ({ compared }) => compared !== null);
        assert.deepEqual(kindsOf(first), [' foreign', 'shop/web changed']);
        for (const { since } of first.differences) assert.ok(Date.parse(since) >= started, since);
        assert.deepEqual(first.waiting, { services: 0, oldest: null }, 'the first state is no change');
        const { connections = null } = first.change ?? {};
        assert.ok(connections !== null && connections >= 1 && connections <= 16, `${connections}`);
        assert.ok((first.change?.create ?? 0) > 0 && first.by.mode === mode && first.by.rules === 'kube-proxy');
        const warned = await shadow.logged(({ service }) => service === 'shop/web');
        assert.match(
          warned.msg,
          /^Service shop\/web: kube-proxy's rules do not do what the objects ask for: a connection /,
        );
        const lines = (await metrics()).split('\n');
        assert.ok(lines.includes('slicewire_shadow_differences{service="shop/web",kind="changed"} 3'));
        assert.ok(
          lines.some((line) =>
            line.startsWith('slicewire_shadow_difference_since_timestamp_seconds{service="shop/web"'),
          ),
        );
        assert.match(await health('/readyz'), /ok200$/);

        // The endpoints of shop/web are lost, and the objects come to ask for those that were recorded.
        await lose();
        await node.write(OBJECTS);
        const waiting = await node.foundWhen('the changes', ({ waiting: { services } }) => services === 2);
        assert.deepEqual([waiting.latency.plan?.changes, waiting.latency.theirs], [2, null]);
        const changed = Date.parse(waiting.waiting.oldest ?? '');
        await monitor.heard('between');
        assert.deepEqual(
          monitor.lines.slice(told).filter((line) => !/between|generation/.test(line) && !lost(line)),
          [],
          'the shadow wrote nothing',
        );
        await node.rewrite();
        const rewritten = await ruleset();
        // In nftables mode the rules of shop/one are known to have been right before.
        const changes = mode === 'nftables' ? 1 : 2;
        const measured = await node.foundWhen('the changes', ({ latency: { theirs } }) => theirs?.changes === changes);
        const { p50, most } = measured.latency.theirs ?? { p50: 0, most: 0 };
        assert.ok(p50 > 0 && most <= Date.now() - changed, `${p50} ${most}`);
        assert.ok((measured.latency.plan?.most ?? 0) < p50, 'slicewire was ready before');
        const over = await node.foundWhen('the end of the differences', ({ count }) => count === 0);
        assert.equal(over.waiting.services, 0);
        await shadow.logged(({ msg }) => msg === 'Service shop/web: no connection goes elsewhere any more');
        const count = (await metrics())
          .split('\n')
          .find((line) => line.startsWith('slicewire_shadow_programming_seconds_count'));
        assert.equal(count, `slicewire_shadow_programming_seconds_count ${changes}`);

        await shadow.stop();
        assert.equal(await ruleset(), rewritten, 'the shadow wrote nothing');
        assert.equal(await node.lab.exec('node', ...SETTINGS), settings);
        assert.equal(await node.lab.exec('node', 'ip', '-o', 'addr'), addresses);
      } finally {
        await shadow?.stop();
        await monitor.stop();
      }
    });

    it('says that kube-proxy is not there, and goes on when it is', async () => {
      await node.lab.exec('node', 'nft', 'flush', 'ruleset');
      shadow = node.watch();
      try {
        const without = await node.foundWhen('the problem', ({ problem }) =>
          problem.startsWith('kube-proxy has no rules'),
        );
        assert.equal(without.compared, null);
        assert.match(await health('/readyz'), /^kube-proxy has no rules[\s\S]*503$/);
        assert.match(await health('/livez'), /ok200$/);
        await node.reset();
        const found = await node.foundWhen('a comparison', ({ compared }) => compared !== null);
        assert.deepEqual([found.problem, found.count, found.by.mode], ['', 0, mode]);
      } finally {
        await shadow.stop();
      }
    });
  });
}

describe('a shadow of kube-proxy in iptables mode, legacy variant', () => {
  let node: RecordedNode;
  before(async () => {
    node = await RecordedNode.create({ version: NEWEST, mode: 'iptables', variant: 'legacy' });
    await node.reset();
    // The kubelet's chain tells the variant (KEP-3178).
    await node.lab.exec('node', 'iptables-legacy', '-t', 'mangle', '-N', 'KUBE-KUBELET-CANARY');
  });
  after(() => node.remove());

  it('finds what is wrong, times nothing, and writes nothing', async () => {
    const state = async () =>
      await Promise.all([
        ...['iptables-legacy-save', 'ip6tables-legacy-save'].map((tool) =>
          node.lab.exec('node', 'sh', '-c', `${tool} | sed '/^#/d; s/ \\[[0-9]*:[0-9]*\\]$//'`),
        ),
        node.lab.exec('node', 'nft', '-s', 'list', 'ruleset'),
        node.lab.exec('node', ...SETTINGS),
      ]);
    const before = await state();
    await node.write(CHANGED);
    const shadow = node.watch();
    try {
      const first = await node.foundWhen('the first comparison', ({ compared }) => compared !== null);
      assert.deepEqual(kindsOf(first), [' foreign', 'shop/web changed']);
      assert.deepEqual([first.by.mode, first.latency.sight], ['iptables', 'not told']);
    } finally {
      await shadow.stop();
    }
    assert.deepEqual(await state(), before);
  });
});
