/** Questions about the rules of kube-proxy, which were recorded from the real one, and are loaded into a node's kernel here. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, beforeEach, describe, it } from 'node:test';
import { LAB } from '../../src/cli/lab/lab.ts';
import { explanationSchema } from '../../src/inspect/wire/explanation.ts';
import { exposureSchema } from '../../src/inspect/wire/exposure.ts';
import { type Verification, type VerifiedDifference, verificationSchema } from '../../src/inspect/wire/verification.ts';
import { TcpRelay } from '../helpers/cli/lab/tcp-relay.ts';
import { ApiServer } from '../helpers/cluster/api/api-server.ts';
import { nodeOf } from '../helpers/cluster/objects.ts';
import { masked } from '../questions/transcript.ts';
import { OBJECTS } from '../recordings/kube-proxy/objects.ts';
import { modesOf, RecordedNode, recordedFile, VERSIONS } from '../recordings/kube-proxy/scene.ts';
import { CHANGED, switchingDocument, transcript } from '../recordings/kube-proxy/transcript.ts';
import { withDefaults } from '../vm/rival-node.ts';

/**
 * Connections that kube-proxy itself gets wrong. The nftables mode up to 1.31 checks for endpoints before it translates what the node sends
 * (`filter-output` at priority -110 or -101), and so drops the node's own connections to an address of policy Local without an endpoint here;
 * in 1.29 also those to such a node port. That of 1.29 asks for source ranges in `filter-forward`, where the address is an endpoint's already: so
 * they keep nobody out.
 */
const TO_LOCAL = ['from the node to 203.0.113.27:80/tcp'];
const FAULTS: Readonly<Record<string, readonly string[]>> = {
  '1.29.1 nftables': [
    ...TO_LOCAL,
    'from the node to 192.168.77.2:30027/tcp',
    'from a client outside to 203.0.113.28:80/tcp',
  ],
  '1.30.3 nftables': TO_LOCAL,
  '1.31.14 nftables': TO_LOCAL,
};

for (const version of VERSIONS) {
  for (const mode of modesOf(version)) {
    describe(`questions about kube-proxy ${version} in ${mode} mode`, () => {
      let node: RecordedNode;
      before(async () => {
        node = await RecordedNode.create({ version, mode });
      });
      after(() => node.remove());
      beforeEach(() => node.reset());

      /** The nftables mode refuses the rest of a cluster IP, from 1.30 on. */
      const refusesRest = async () =>
        mode === 'nftables' && (await readFile(recordedFile(version, 'nftables.nft'), 'utf8')).includes('cluster-ips');
      const faults = FAULTS[`${version} ${mode}`] ?? [];
      const verified = async (): Promise<{ status: number | undefined; answer: Verification }> => {
        const { status, text } = await node.ask('verify', '-o', 'json');
        const answer = verificationSchema.parse(JSON.parse(text));
        const isKnown = ({ object }: VerifiedDifference) => faults.includes(object);
        assert.deepEqual(answer.differences.filter(isKnown).length, faults.length);
        return { status, answer: { ...answer, differences: answer.differences.filter((one) => !isKnown(one)) } };
      };

      it('finds that they do what the objects ask for, and writes nothing', async () => {
        const ruleset = await node.lab.exec('node', 'nft', '-s', 'list', 'ruleset');
        const { status, answer } = await verified();
        assert.deepEqual(answer.differences, []);
        const isEqual = faults.length === 0;
        assert.deepEqual([status, answer.equal, answer.by.rules], [isEqual ? 0 : 2, isEqual, 'kube-proxy']);
        assert.equal(answer.by.mode, mode);
        assert.ok(answer.compared > 60, String(answer.compared));
        assert.equal(await node.lab.exec('node', 'nft', '-s', 'list', 'ruleset'), ruleset);
      });

      it('explains a connection by them, step by step', async () => {
        const { status, text } = await node.ask('explain', '10.244.1.11', 'svc/shop/web', '--rules', '-o', 'json');
        const { verdict, differs, steps, by } = explanationSchema.parse(JSON.parse(text));
        assert.deepEqual(
          [status, verdict.kind, verdict.endpoints.length, differs, by.rules],
          [0, 'balanced', 3, [], 'kube-proxy'],
        );
        assert.ok(steps.length > 0 && steps.every(({ rule }) => rule !== ''), JSON.stringify(steps));
        const own = verdict.endpoints.map(({ masqueraded }) => masqueraded);
        assert.deepEqual(own, [true, false, false], 'the Pod that reaches itself is masqueraded');
      });

      it('finds endpoints that are stale or lacking, and a Service that is gone', async () => {
        await node.write(CHANGED);
        const { status, answer } = await verified();
        assert.equal(status, 2);
        const of = (service: string) => answer.differences.filter((one) => one.service === service);
        assert.deepEqual(
          [...new Set(of('shop/web').flatMap(({ causes = [] }) => causes))],
          [
            '10.244.1.12:8080 is in no EndpointSlice of Service shop/web: it is stale.',
            '10.244.2.19:8080 gets no new connections.',
          ],
        );
        assert.deepEqual([...new Set(of('').map(({ kind }) => kind))], ['foreign']);
        assert.match(of('')[0]?.object ?? '', /10\.96\.0\.21:80\/tcp$/);
        assert.deepEqual([...new Set(answer.differences.map(({ service }) => service))].sort(), ['', 'shop/web']);
        const { problems } = exposureSchema.parse(JSON.parse((await node.ask('exposure', '-o', 'json')).text));
        const open = problems.filter((problem) => problem.includes('No Service has this address and port any more'));
        assert.equal(open.length, 2, `the cluster IP and the node port answer still: ${problems.join(' ')}`);
      });

      if (mode === 'iptables')
        it('names a rule of another program that comes first', async () => {
          await node.lab.exec('node', 'iptables-nft', '-I', 'FORWARD', '-d', '10.244.1.12', '-j', 'DROP');
          const { answer } = await verified();
          const causes = new Set(answer.differences.flatMap(({ causes: all = [] }) => all));
          assert.deepEqual([...causes], ['The rule "-d 10.244.1.12/32 -j DROP" of filter FORWARD drops it.']);
        });

      // The oldest and the newest layout of each mode.
      const isEdge = version === VERSIONS.find((one) => modesOf(one).includes(mode)) || version === VERSIONS.at(-1);

      if (isEdge)
        it('names the endpoint whose chain a sync left empty', async () => {
          // A part of a sync: the Service leads to the chain of each endpoint, and one of these translates nothing yet. In nftables mode
          // Services with session affinity have such chains in every version.
          const name = mode === 'nftables' ? 'sticky' : 'web';
          const flush =
            mode === 'nftables'
              ? `nft list chains ip | sed -n 's/.*chain \\(endpoint-[^ ]*-shop\\/${name}\\/[^ ]*10.244.1.12[^ ]*\\) .*/\\1/p' | xargs nft flush chain ip kube-proxy`
              : `iptables-nft -t nat -S | sed -n 's/.*shop\\/${name}[: ].* -> 10.244.1.12:8080.*-j \\(KUBE-SEP-.*\\)/\\1/p' | head -1 | xargs iptables-nft -t nat -F`;
          await node.lab.exec('node', 'sh', '-c', flush);
          const { status, answer } = await verified();
          assert.equal(status, 2);
          assert.deepEqual([...new Set(answer.differences.map(({ service }) => service))], [`shop/${name}`]);
          const causes = [...new Set(answer.differences.flatMap(({ causes: all = [] }) => all))];
          assert.equal(causes[0], '10.244.1.12:8080 gets no new connections.');
          assert.equal(causes.length, (await refusesRest()) ? 2 : 1, causes.join('\n'));
          for (const cause of causes.slice(1))
            assert.match(
              cause,
              /^[\d.]+ % of the connections are refused by "ip daddr @cluster-ips reject .* cluster-ips-check: a sync of kube-proxy wrote a part/,
            );
        });

      if (isEdge)
        it('tells for whom the jump from a hook is gone', async () => {
          const drop =
            mode === 'nftables'
              ? 'nft flush chain ip kube-proxy nat-prerouting'
              : `iptables-nft -t nat -S PREROUTING | sed -n 's/^-A \\(.*-j KUBE-SERVICES\\)$/\\1/p' | xargs iptables-nft -t nat -D`;
          await node.lab.exec('node', 'sh', '-c', drop);
          // Without `verified`: faults of kube-proxy's own end where its rules are not reached.
          const { status, text } = await node.ask('verify', '-o', 'json');
          assert.equal(status, 2);
          const answer = verificationSchema.parse(JSON.parse(text));
          const web = answer.differences.filter(({ service }) => service === 'shop/web');
          const senders = new Set(web.map(({ object }) => object.split(' to ')[0]));
          assert.deepEqual([...senders], ['from the Pod at 10.244.1.11', 'from a client outside']);
        });

      it('says that a Service is not programmed', async () => {
        const lost =
          mode === 'nftables'
            ? ['nft', 'delete', 'element', 'ip', 'kube-proxy', 'service-ips', '{ 10.96.0.20 . tcp . 80 }']
            : [
                'sh',
                '-c',
                `iptables-nft -t nat -S KUBE-SERVICES | sed -n 's/^-A/-D/; / 10.96.0.20\\/32 /p' | xargs -L1 iptables-nft -t nat`,
              ];
        await node.lab.exec('node', ...(lost as [string, ...string[]]));
        const { answer } = await verified();
        const refuses = await refusesRest();
        const [kind, cause] = refuses
          ? [
              'changed',
              /^kube-proxy refuses it by the rule "ip daddr @cluster-ips reject comment .*" of ip kube-proxy cluster-ips-check: it has no endpoint for Service shop\/web, or a sync of it failed or is late\.$/,
            ]
          : ['missing', /^kube-proxy has no rule for Service shop\/web/];
        assert.ok(answer.differences.length > 0);
        for (const { service, kind: is, causes } of answer.differences) {
          assert.deepEqual([service, is], ['shop/web', kind]);
          assert.match(causes?.join(' ') ?? '', cause as RegExp);
        }
      });
    });
  }
}

/** The chains of flannel (pkg/trafficmngr/iptables) and of kind's own network (cmd/kindnetd), which masquerade what leaves the cluster. */
const NETWORKS: Readonly<Record<string, string>> = {
  flannel: `*nat
:FLANNEL-POSTRTG - [0:0]
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.1.0/24 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.1.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.1.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
*filter
:FLANNEL-FWD - [0:0]
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -d 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
COMMIT
`,
  kindnet: `*nat
:KIND-MASQ-AGENT - [0:0]
-A POSTROUTING -m addrtype ! --dst-type LOCAL -m comment --comment "kind-masq-agent" -j KIND-MASQ-AGENT
-A KIND-MASQ-AGENT -d 10.244.0.0/16 -m comment --comment "kind-masq-agent" -j RETURN
-A KIND-MASQ-AGENT -m comment --comment "kind-masq-agent" -j MASQUERADE
COMMIT
`,
};

const [NEWEST = ''] = VERSIONS.slice(-1);

describe('questions about kube-proxy beside other programs', () => {
  let node: RecordedNode;
  before(async () => {
    node = await RecordedNode.create({ version: NEWEST, mode: 'iptables' });
  });
  after(() => node.remove());
  beforeEach(() => node.reset());

  const verified = async () => {
    const { status, text } = await node.ask('verify', '-o', 'json');
    assert.notEqual(status, 1, text);
    return verificationSchema.parse(JSON.parse(text));
  };
  const restore = (text: string) =>
    node.lab.exec('node', 'sh', '-c', 'printf %s "$1" | iptables-nft-restore --noflush', 'sh', text);

  for (const [network, rules] of Object.entries(NETWORKS))
    it(`walks through the rules of ${network} as well, which change nothing`, async () => {
      await restore(rules);
      const { equal, differences, notes } = await verified();
      assert.deepEqual([equal, differences, notes], [true, [], []]);
    });

  it('finds a rule that keeps packets from kube-proxy', async () => {
    await node.lab.exec('node', 'iptables-nft', '-t', 'nat', '-I', 'PREROUTING', '-d', '10.96.0.20', '-j', 'ACCEPT');
    const { differences } = await verified();
    const objects = differences.map(({ object }) => object);
    assert.deepEqual(objects, [
      'from the Pod at 10.244.1.11 to 10.96.0.20:80/tcp',
      'from a client outside to 10.96.0.20:80/tcp',
    ]);
    for (const { causes = [] } of differences) assert.match(causes.join(' '), /another program .* put one before it/);
  });

  it('finds that a family has no rules', async () => {
    for (const table of ['nat', 'filter']) {
      await node.lab.exec('node', 'ip6tables-nft', '-t', table, '-F');
      await node.lab.exec('node', 'ip6tables-nft', '-t', table, '-X');
    }
    const { differences } = await verified();
    assert.ok(differences.length > 0);
    for (const { family, service, kind } of differences)
      assert.deepEqual([family, service, kind], ['IPv6', 'shop/dual', 'missing']);
  });

  it('names a rule that it cannot interpret, and goes on', async () => {
    const odd = ['-m', 'string', '--string', 'x', '--algo', 'bm', '-j', 'DROP'];
    await node.lab.exec('node', 'iptables-nft', '-I', 'FORWARD', ...odd);
    const { equal, notes = [] } = await verified();
    assert.deepEqual([equal, notes.length], [true, 1]);
    assert.match(
      notes.join(),
      /^the rule `-A FORWARD -m string .*` of table filter has `-m string`, which is not interpreted/,
    );
  });

  it('takes the mode from the rules, whatever a file of kube-proxy says', async () => {
    const file = { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration', mode: 'nftables' };
    const { status, text } = await node.askWith(file, 'verify', '-o', 'json');
    assert.notEqual(status, 1, text);
    assert.equal(verificationSchema.parse(JSON.parse(text)).by.mode, 'iptables');
  });

  it('refuses to answer about rules that are slicewire’s, or of two modes', async () => {
    await node.lab.exec('node', 'nft', 'add', 'table', 'ip', 'kube-proxy');
    const two = await node.ask('verify');
    assert.equal(two.status, 1);
    assert.match(two.text, /kube-proxy has rules of iptables mode and of nftables mode on this node/);
    await node.lab.exec('node', 'nft', 'delete', 'table', 'ip', 'kube-proxy');
    await node.lab.exec('node', 'iptables-nft', '-t', 'nat', '-N', 'KUBE-HAIRPIN');
    assert.equal((await node.ask('verify')).status, 0, 'a chain that is left from slicewire is no sign of it');
    await node.lab.exec('node', 'iptables-nft', '-t', 'nat', '-A', 'KUBE-POSTROUTING', '-j', 'KUBE-HAIRPIN');
    const ours = await node.ask('verify');
    assert.equal(ours.status, 1);
    assert.match(ours.text, /the rules on this node are slicewire's/);
    await node.lab.exec('node', 'nft', 'flush', 'ruleset');
    const none = await node.ask('verify');
    assert.equal(none.status, 1);
    assert.match(none.text, /kube-proxy has no rules in this network namespace/);
  });
});

describe('questions about kube-proxy in nftables mode without a family', () => {
  it('finds that the Services of the family are not served', async () => {
    const node = await RecordedNode.create({ version: NEWEST, mode: 'nftables' });
    try {
      await node.reset();
      await node.lab.exec('node', 'nft', 'delete', 'table', 'ip6', 'kube-proxy');
      const { status, text } = await node.ask('verify', '-o', 'json');
      const { differences } = verificationSchema.parse(JSON.parse(text));
      assert.deepEqual([status, [...new Set(differences.map(({ family }) => family))]], [2, ['IPv6']]);
    } finally {
      await node.remove();
    }
  });
});

describe('questions about kube-proxy by the legacy variant of iptables', () => {
  it('has the answers of the nft variant', async () => {
    const node = await RecordedNode.create({ version: NEWEST, mode: 'iptables', variant: 'legacy' });
    try {
      await node.reset();
      // The kubelet's chain tells the variant (KEP-3178).
      await node.lab.exec('node', 'iptables-legacy', '-t', 'mangle', '-N', 'KUBE-KUBELET-CANARY');
      assert.doesNotMatch(await node.lab.exec('node', 'nft', 'list', 'ruleset'), /KUBE-/);
      const right = verificationSchema.parse(JSON.parse((await node.ask('verify', '-o', 'json')).text));
      assert.deepEqual([right.equal, right.compared > 60, right.notes], [true, true, []]);
      await node.write(CHANGED);
      const { status, text } = await node.ask('verify', '-o', 'json');
      const { differences } = verificationSchema.parse(JSON.parse(text));
      assert.deepEqual([status, [...new Set(differences.map(({ service }) => service))].sort()], [2, ['', 'shop/web']]);
    } finally {
      await node.remove();
    }
  });
});

describe('questions about kube-proxy with a kubeconfig', () => {
  it('have the objects of the API server, whose rights are lists and watches alone', async () => {
    const node = await RecordedNode.create({ version: NEWEST, mode: 'iptables' });
    const api = await ApiServer.start();
    const relay = await TcpRelay.from(node.lab.namespace('node'), Number(new URL(api.url).port));
    try {
      await node.reset();
      const kubeconfig = await api.kubeconfig();
      const put = (objects: readonly object[]) => {
        for (const object of objects) api.put(withDefaults(object));
      };
      const addresses = [LAB.node.v4, LAB.node.v6].map((address) => ({ type: 'InternalIP', address }));
      put([...OBJECTS, { ...nodeOf(undefined), status: { addresses } }]);
      const right = await node.askServer(kubeconfig, 'verify', '-o', 'json');
      const { equal, compared, by } = verificationSchema.parse(JSON.parse(right.text));
      assert.deepEqual([right.status, equal, by.rules, compared > 60], [0, true, 'kube-proxy', true]);
      const asked = api.requests().map(({ method, path }) => `${method} ${path.replace(/\?.*/, '')}`);
      const lists = ['/api/v1/services', '/api/v1/nodes', '/apis/discovery.k8s.io/v1/endpointslices'];
      assert.deepEqual([...new Set(asked)].sort(), lists.map((path) => `GET ${path}`).sort());
      put(CHANGED);
      const changed = await node.askServer(kubeconfig, 'verify', '-o', 'json');
      const { differences } = verificationSchema.parse(JSON.parse(changed.text));
      assert.deepEqual([changed.status, differences.some(({ service }) => service === 'shop/web')], [2, true]);
    } finally {
      await relay.stop();
      await api.stop();
      await node.remove();
    }
  });
});

describe('docs/switching.md', () => {
  it('has these answers', async () => {
    const [now, written] = [masked(await transcript()), masked(switchingDocument().plain)];
    assert.equal(now, written, 'run node test/recordings/kube-proxy/transcript.ts');
  });
});
