/** Real packets are traced, and laid beside the computed way: in both modes that the kernel can trace, and in both families. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Address, endpointText, FAMILIES, type Family } from '../../src/base/address.ts';
import { LAB, Lab, podAddress } from '../../src/cli/lab/lab.ts';
import type { SeenPackets } from '../../src/inspect/explain/seen.ts';
import { type Child, startChild } from '../../src/kernel/commands.ts';
import type { LiveInput } from '../helpers/agent/live-process.ts';
import { ManifestNode } from '../helpers/cli/lab/manifest-node.ts';
import { service, slice } from '../helpers/cluster/objects.ts';
import { shellCommands } from '../helpers/kernel/shell-commands.ts';
import { NEVER } from '../helpers/proxy/rig.ts';

const PROCESS = fileURLToPath(new URL('../helpers/agent/live-process.ts', import.meta.url));
const WEB: Readonly<Record<Family, string>> = { IPv4: '10.96.0.10', IPv6: 'fd00:96::10' };
const EMPTY: Readonly<Record<Family, string>> = { IPv4: '10.96.0.11', IPv6: 'fd00:96::11' };
const TABLE = /slicewire-trace/;
/** Milliseconds: a trace ends by itself only where a test waits for that. */
const LONG = 60_000;
const SHORT = 1500;

const keyOf = (family: Family) => (family === 'IPv4' ? 'v4' : 'v6');
const pod = (n: number, family: Family) => podAddress(n)[keyOf(family)];
const endpoint = (n: number, family: Family) => endpointText(pod(n, family) as Address, 8080);

type Fates = LiveInput['question']['fates'];
const balanced = (family: Family, pods: readonly number[], masqueraded = false): Fates =>
  pods.map((n) => ({ kind: 'balanced', backend: endpoint(n, family), masqueraded }));

interface Running {
  readonly pid: number;
  /** Resolves when packets are looked at; rejects with what the process said when it ends before. */
  readonly ready: Promise<void>;
  /** The answer. Rejects with what the process said. */
  readonly seen: Promise<SeenPackets>;
}

describe('explain --live', () => {
  let lab: Lab;
  let node: ManifestNode;
  const children: Child[] = [];

  before(async () => {
    lab = await Lab.create({ commands: shellCommands, pods: 3, remotePods: 0, signal: NEVER });
    for (const name of ['pod-1', 'pod-2', 'pod-3']) {
      await lab.serve(name, 'TCP', 8080);
      await lab.serve(name, 'UDP', 8080);
    }
  });
  after(() => lab.remove());

  beforeEach(async () => {
    node = await ManifestNode.create(lab);
  });
  afterEach(async () => {
    await node.stop();
    for (const child of children.splice(0)) await child.stop();
    await node.run('cleanup');
    await node.clear();
    await lab.exec('node', 'conntrack', '-F');
    assert.doesNotMatch(await tables(), TABLE);
  });

  const tables = () => lab.exec('node', 'nft', 'list', 'tables');
  const ask = (from: string, address: string, port = 80, protocol: 'TCP' | 'UDP' = 'TCP') =>
    lab.ask(from, { address, port, protocol, timeout: 1500 });

  function live(
    question: Partial<LiveInput['question']> & Pick<LiveInput['question'], 'family' | 'destination' | 'fates'>,
    options: Partial<LiveInput> = {},
    before: readonly string[] = [],
  ): Running {
    const asked: LiveInput['question'] = { source: undefined, protocol: 'TCP', port: 80, ...question };
    const input: LiveInput = { question: asked, mode: 'nftables', backend: 'nft', milliseconds: SHORT, ...options };
    const [ready, seen] = [Promise.withResolvers<void>(), Promise.withResolvers<SeenPackets>()];
    const said: string[] = [];
    const [program = '', ...args] = [...before, process.execPath, PROCESS, JSON.stringify(input)];
    const child = startChild({
      ...lab.inside('node', program, args),
      onLine: (line) => (line === 'ready' ? ready.resolve() : seen.resolve(JSON.parse(line) as SeenPackets)),
      onErrorLine: (line) => said.push(line),
    });
    children.push(child);
    void child.ended.then(() => {
      ready.reject(new Error(said.join('\n')));
      seen.reject(new Error(said.join('\n')));
    });
    ready.promise.catch(() => undefined);
    seen.promise.catch(() => undefined);
    return { pid: child.pid ?? 0, ready: ready.promise, seen: seen.promise };
  }

  async function serve(mode: string): Promise<void> {
    const objects = FAMILIES.flatMap((family) => {
      const name = `web-${keyOf(family)}`;
      const ports = [
        { name: 'tcp', port: 80 },
        { name: 'udp', port: 80, protocol: 'UDP' },
      ];
      const endpoints = [1, 2].map((n) => ({ addresses: [pod(n, family)], nodeName: 'node' }));
      return [
        service({ name, spec: { clusterIP: WEB[family], ipFamilies: [family], ports } }),
        slice({
          name: `${name}-1`,
          service: name,
          addressType: family,
          ports: [
            { name: 'tcp', port: 8080 },
            { name: 'udp', port: 8080, protocol: 'UDP' },
          ],
          endpoints,
        }),
        service({
          name: `empty-${keyOf(family)}`,
          spec: { clusterIP: EMPTY[family], ipFamilies: [family], ports: [{ port: 80 }] },
        }),
      ];
    });
    await node.write('web', ...objects);
    const agent = node.start(
      `--mode=${mode}`,
      '--cluster-cidr',
      `${LAB.clusterCidr.v4},${LAB.clusterCidr.v6}`,
      ...variant(mode),
    );
    await agent.synced();
  }
  const variant = (mode: string) => (mode === 'iptables' ? ['--iptables-backend', 'nft'] : []);

  for (const mode of ['iptables', 'nftables'] as const) {
    it(`${mode}: packets of a pod, of the node, and to a Service without endpoints`, async () => {
      await serve(mode);
      for (const family of FAMILIES) {
        const destination = WEB[family] as Address;
        const source = pod(3, family) as Address;
        const fromPod = live({ family, source, destination, fates: balanced(family, [1, 2]) }, { mode });
        await fromPod.ready;
        for (let i = 0; i < 3; i++) assert.equal((await ask('pod-3', destination)).outcome, 'reply');
        await ask('node', destination);
        const seen = await fromPod.seen;
        assert.match(seen.sentence, /^3 packets came; all took the computed way: /);
        assert.equal(seen.packets.length, 3);
        for (const { steps } of seen.packets) {
          const words = steps.map(({ table, chain, rule, does }) => `${table} ${chain} ${does}: ${rule}`).join('\n');
          assert.match(words, /^kernel prerouting comes in: from .* to .*:80\n/);
          assert.match(words, /\nkernel postrouting leaves this node: from .* to .*:8080$/);
          assert.match(words, WORDS[mode], words);
          if (mode === 'iptables')
            assert.ok(
              steps.some(({ object }) => object === `default/web-${keyOf(family)}`),
              words,
            );
        }
        assert.equal(seen.connections.length, 3);
        for (const text of seen.connections) assert.match(text, /: sent to .*:8080, answered$/);

        const fromNode = live({ family, origin: 'node', destination, fates: balanced(family, [1, 2], true) }, { mode });
        await fromNode.ready;
        await ask('node', destination);
        await ask('pod-3', destination);
        assert.match(
          (await fromNode.seen).sentence,
          /^1 packet came; it took the computed way: to .*:8080, masqueraded\.$/,
        );

        const refused: Fates = [{ kind: 'rejected', backend: '', masqueraded: false }];
        const toEmpty = live({ family, destination: EMPTY[family] as Address, fates: refused }, { mode });
        await toEmpty.ready;
        assert.equal((await ask('pod-3', EMPTY[family])).outcome, 'refused');
        assert.match(
          (await toEmpty.seen).sentence,
          /^(?:1 packet came; it|2 packets came; all) took the computed way: refused in /,
        );
      }
    });

    it(`${mode}: a rule of another program, a stale flow, and nobody who sends`, async () => {
      await serve(mode);
      const [family, destination, fates] = ['IPv4', WEB.IPv4 as Address, balanced('IPv4', [1, 2])] as const;
      const theirs = `add table ip theirs
        add chain ip theirs pre { type nat hook prerouting priority -150; }
        add rule ip theirs pre ip daddr ${destination} tcp dport 80 dnat to ${endpoint(3, family)} comment "of theirs"`;
      await lab.exec('node', 'nft', theirs);
      const other = live({ family, destination, fates }, { mode });
      await other.ready;
      await ask('pod-2', destination);
      const { sentence, packets } = await other.seen;
      await lab.exec('node', 'nft', 'delete', 'table', 'ip', 'theirs');
      assert.match(sentence, /^1 packet came; it took another way than computed: to 10\.244\.1\.13:8080\.$/);
      assert.deepEqual(packets[0]?.steps[1], {
        table: 'ip theirs',
        chain: 'pre',
        rule: 'of theirs',
        does: 'sends it to 10.244.1.13:8080',
        object: '',
      });

      // As a flow that stood when the endpoints changed.
      const flow = live({ family, destination, protocol: 'UDP', fates: balanced(family, [3]) }, { mode });
      await flow.ready;
      const client = { address: destination, port: 80, protocol: 'UDP', fromPort: 23_456, timeout: 1500 } as const;
      await lab.ask('pod-3', client);
      await flow.seen;
      const stale = live({ family, destination, protocol: 'UDP', fates: balanced(family, [3]) }, { mode });
      await stale.ready;
      await lab.ask('pod-3', client);
      assert.match(
        (await stale.seen).sentence,
        /another way than computed: to 10\.244\.1\.1[12]:8080\. Its connection is older than/,
      );

      const nobody = live({ family, source: LAB.otherNode.v4 as Address, destination, fates }, { mode });
      assert.match(
        (await nobody.seen).sentence,
        /^No packet that opens a connection from 192\.168\.77\.3 to 10\.96\.0\.10:80 came/,
      );
    });
  }

  it('the table is gone after the end, after an abort, and after SIGKILL', async () => {
    const question = { family: 'IPv4', destination: WEB.IPv4 as Address, fates: [] } as const;
    const ended = live(question, { milliseconds: 500 });
    await ended.ready;
    assert.match(await tables(), TABLE);
    await ended.seen;
    assert.doesNotMatch(await tables(), TABLE);
    const aborted = live(question, { milliseconds: LONG, aborts: 100 });
    await aborted.ready;
    await assert.rejects(aborted.seen, /^Error: aborted$/);
    assert.doesNotMatch(await tables(), TABLE);
    const killed = live(question, { milliseconds: LONG });
    await killed.ready;
    assert.match(await tables(), TABLE);
    process.kill(killed.pid, 'SIGKILL');
    await assert.rejects(killed.seen);
    assert.doesNotMatch(await tables(), TABLE);
  });

  it('two at a time: the second gets a sentence, and leaves the first alone', async () => {
    const question = { family: 'IPv4', destination: WEB.IPv4 as Address, fates: [] } as const;
    const first = live(question, { milliseconds: LONG });
    await first.ready;
    await assert.rejects(
      live(question).seen,
      new RegExp(`the process ${first.pid} traces packets already: .*wait until it ends`),
    );
    assert.match((await node.run('cleanup')).out, /nothing to remove/);
    assert.match(await tables(), TABLE);
    process.kill(first.pid, 'SIGKILL');
    await assert.rejects(first.seen);
  });

  it('a table that an older kernel kept is removed by the next trace, by cleanup, and by the start of an agent', async () => {
    const leave = () => lab.exec('node', 'nft', 'add', 'table', 'ip6', 'slicewire-trace');
    await leave();
    const next = live({ family: 'IPv6', destination: WEB.IPv6 as Address, fates: [] }, { milliseconds: 200 });
    await next.seen;
    assert.doesNotMatch(await tables(), TABLE);
    await leave();
    assert.match((await node.run('cleanup')).out, /^- table ip6 slicewire-trace\n1 object removed$/m);
    assert.doesNotMatch(await tables(), TABLE);
    await leave();
    await serve('nftables');
    assert.doesNotMatch(await tables(), TABLE);
  });

  it('without the capability, a sentence says what is missing', async () => {
    const question = { family: 'IPv4', destination: WEB.IPv4 as Address, fates: [] } as const;
    const without = live(question, {}, ['setpriv', '--bounding-set', '-net_admin']);
    await assert.rejects(
      without.seen,
      /^Error: no permission to trace packets: .*EPERM.*; run slicewire as root of the node$/,
    );
  });

  it('is bounded under a flood of new connections', async () => {
    await serve('nftables');
    const flood = [1, 2, 3, 4].map(() =>
      startChild(
        lab.inside('pod-3', 'bash', ['-c', `while :; do (exec 3<>/dev/tcp/${WEB.IPv4}/80) 2>/dev/null; done`]),
      ),
    );
    try {
      const running = live(
        { family: 'IPv4', destination: WEB.IPv4 as Address, fates: balanced('IPv4', [1, 2]) },
        { milliseconds: LONG },
      );
      const seen = await running.seen;
      assert.equal(seen.packets.length, 10);
      assert.match(seen.sentence, /^10 packets came; all took the computed way: \d+ to .*, \d+ to [^ ]*:8080\.$/);
      assert.ok(seen.connections.length <= 21);
    } finally {
      await Promise.all(flood.map((child) => child.stop()));
    }
  });

  it('with legacy iptables it has the connections alone, and says why', async () => {
    const question = { family: 'IPv4', destination: pod(1, 'IPv4') as Address, port: 8080 } as const;
    const fates: Fates = [{ kind: 'untouched', backend: '', masqueraded: false }];
    // The node follows connections only where a rule asks for it. The table has the connection for minutes: a look later sees it too.
    await lab.exec('node', 'iptables-legacy', '-t', 'nat', '-A', 'OUTPUT', '-d', '127.0.0.99', '-j', 'ACCEPT');
    await ask('client', question.destination, 8080);
    const running = live({ ...question, fates }, { mode: 'iptables', backend: 'legacy' });
    const { sentence, packets, connections } = await running.seen;
    assert.match(
      sentence,
      /^Packets were not traced: .* the legacy variant of iptables\. Conntrack has 1 connection to .*, as computed\.$/,
    );
    assert.deepEqual(packets, []);
    assert.match(connections.join(), /^192\.168\.77\.100:\d+ to 10\.244\.1\.11:8080: not translated, answered$/);
    await lab.exec('node', 'iptables-legacy', '-t', 'nat', '-F');
  });
});

const WORDS = {
  iptables: /\nnat KUBE-(?:SVC|SEP)-\w+ sends it to \S+:8080: .*-j DNAT --to-destination .*:8080\n/,
  nftables: /\nip6? slicewire cluster-ip-of-2 sends it to \S+:8080: one of 2 .*\n/,
} as const;
