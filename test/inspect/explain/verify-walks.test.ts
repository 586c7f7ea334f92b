/** `verify --of kube-proxy`: what kube-proxy does on purpose is told apart, and what differs otherwise has a cause. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { verifyWalks } from '../../../src/inspect/explain/verify-walks.ts';
import { type Verification, verificationText } from '../../../src/inspect/wire/verification.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { Rule, Table } from '../../../src/proxy/modes/netfilter/rules.ts';
import type { FamilyView } from '../../../src/proxy/modes/view.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { type AskedNode, askedNode } from '../../helpers/inspect/explain/asking.ts';
import { NEVER } from '../../helpers/proxy/rig.ts';

type Objects = readonly object[];

const BALANCER = '203.0.113.7';
const spec = (more: object = {}) => ({
  ...{ type: 'LoadBalancer', clusterIP: '10.96.0.10', ports: [{ port: 80, nodePort: 30_080 }] },
  ...more,
});
const balancer = (more: object = {}) =>
  service({
    name: 'web',
    namespace: 'shop',
    spec: spec(more),
    status: { loadBalancer: { ingress: [{ ip: BALANCER }] } },
  });
const inside = (more: object = {}) =>
  service({ name: 'web', namespace: 'shop', spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...more } });
const endpoints = slice({
  ...{ name: 'web-1', namespace: 'shop', service: 'web' },
  endpoints: ['10.244.1.11', '10.244.2.12'],
});

const withTraffic = (annotations: Record<string, string>) =>
  slice({ name: 'web-1', namespace: 'shop', service: 'web', endpoints: ['10.244.1.11', '10.244.2.12'], annotations });

async function nodeWith(objects: Objects, mode: ModeName = 'iptables'): Promise<AskedNode> {
  const node = askedNode(mode);
  node.rig.put(...(objects as Parameters<AskedNode['rig']['put']>));
  await node.sync();
  return node;
}

interface Case {
  /** The objects of the cluster. */
  readonly objects: Objects;
  /** Objects for which slicewire writes what kube-proxy writes for those of the cluster. */
  readonly theirs: Objects;
  readonly mode?: ModeName;
  readonly as?: (view: FamilyView) => FamilyView;
}

async function verified({ objects, theirs, mode = 'iptables', as = (view) => view }: Case): Promise<Verification> {
  const [node, other] = [await nodeWith(objects, mode), await nodeWith(theirs, mode)];
  const { by } = node.facts();
  const facts = node.facts({
    stands: (family) => as(other.view(family)),
    more: { by: { ...by, rules: 'kube-proxy' } },
  });
  return await verifyWalks({ facts, served: [], signal: NEVER });
}

/** The rules with those of one chain changed. */
function withChain(
  { rules, ...view }: FamilyView,
  at: readonly [Table, string],
  change: (chain: readonly Rule[]) => readonly Rule[],
): FamilyView {
  if (rules === undefined) return view;
  const chain = (table: Table, name: string) =>
    table === at[0] && name === at[1] ? change(rules.chain(table, name) ?? []) : rules.chain(table, name);
  return { ...view, rules: { policy: (name) => rules.policy(name), chain } };
}

const rule = (text: string): Rule => ({ text, owner: undefined });
const HALF = (ready: boolean) => ({
  addresses: ['10.244.2.12'],
  conditions: { ready, serving: ready, terminating: false },
});
const rival = (name: string, createdAt: string) =>
  service({
    ...{ name, namespace: 'shop', createdAt },
    spec: {
      clusterIP: name === 'a' ? '10.96.0.11' : '10.96.0.12',
      externalIPs: ['198.51.100.9'],
      ports: [{ port: 80 }],
    },
  });
const ofRival = (name: string, address: string) =>
  slice({ name: `${name}-1`, namespace: 'shop', service: name, endpoints: [address] });

/** kube-proxy does not mark packets to external addresses of policy Local. */
const unmarked = (view: FamilyView) => {
  const without = (of: FamilyView, chain: string) => withChain(of, ['nat', chain], () => []);
  return without(without(view, 'KUBE-LOAD-BALANCER'), 'KUBE-NODE-PORT');
};

const ON_PURPOSE: Readonly<Record<string, Case & { readonly why: RegExp }>> = {
  'lets the packets of the node to an external address without endpoints leave': {
    objects: [balancer()],
    theirs: [balancer()],
    // OUTPUT does not lead to KUBE-EXTERNAL-SERVICES; the cluster IP is refused.
    as: (view) =>
      withChain(view, ['filter', 'KUBE-SERVICES'], (chain) => chain.filter(({ text }) => !text.includes('EXTERNAL'))),
    why: /lets the node's own packets leave the node/,
  },
  'opens an address to a family without a source range': {
    objects: [balancer({ loadBalancerSourceRanges: ['fd00:1::/64'] }), endpoints],
    theirs: [balancer(), endpoints],
    why: /to a family without a source range/,
  },
  'does not apply source ranges to an external IP': {
    objects: [balancer({ loadBalancerSourceRanges: ['10.1.0.0/16'], externalIPs: [BALANCER] }), endpoints],
    theirs: [balancer(), endpoints],
    why: /is both an external IP and the one of the load balancer/,
  },
  'sends to other nodes in IPVS mode where policy Local has no endpoint here': {
    objects: [balancer({ externalTrafficPolicy: 'Local' }), endpoints],
    theirs: [balancer(), endpoints],
    mode: 'ipvs',
    as: unmarked,
    why: /policy Local has the endpoints of this node, or all of them/,
  },
  'lets the node past the source ranges in IPVS mode': {
    objects: [balancer({ loadBalancerSourceRanges: ['10.1.0.0/16'] }), endpoints],
    theirs: [balancer({ loadBalancerSourceRanges: ['10.1.0.0/16', '192.168.77.2/32', '203.0.113.7/32'] }), endpoints],
    mode: 'ipvs',
    why: /applies the source ranges of a load balancer to those packets of the node alone/,
  },
  'refuses in IPVS mode what slicewire drops, at a cluster IP of policy Local without an endpoint here': {
    objects: [inside({ internalTrafficPolicy: 'Local' }), endpoints],
    theirs: [inside()],
    mode: 'ipvs',
    why: /a cluster IP of policy Local without an endpoint on this node refuses connections/,
  },
  'takes another one of two entries of an endpoint': {
    objects: [
      balancer(),
      slice({ name: 'web-1', namespace: 'shop', service: 'web', endpoints: ['10.244.1.11', HALF(true)] }),
      slice({ name: 'web-2', namespace: 'shop', service: 'web', endpoints: [HALF(false)] }),
    ],
    theirs: [balancer(), slice({ name: 'web-1', namespace: 'shop', service: 'web', endpoints: ['10.244.1.11'] })],
    why: /are in two slices with different conditions/,
  },
  'serves the other one of two Services that claim an address': {
    objects: [
      rival('a', '2026-01-01T00:00:00Z'),
      rival('b', '2026-02-01T00:00:00Z'),
      ofRival('a', '10.244.1.1'),
      ofRival('b', '10.244.1.2'),
    ],
    theirs: [
      rival('a', '2026-02-01T00:00:00Z'),
      rival('b', '2026-01-01T00:00:00Z'),
      ofRival('a', '10.244.1.1'),
      ofRival('b', '10.244.1.2'),
    ],
    why: /Several Services claim this address and port/,
  },
  'uses all ready endpoints alike, whatever their weights are': {
    objects: [balancer(), withTraffic({ 'slicewire.dev/weight': '{"10.244.1.11": 10}' })],
    theirs: [balancer(), endpoints],
    why: /neither weights nor backups nor a choice by the client/,
  },
  'uses a backup beside others': {
    objects: [
      balancer(),
      slice({ name: 'web-1', namespace: 'shop', service: 'web', endpoints: ['10.244.1.11'] }),
      slice({
        ...{ name: 'web-2', namespace: 'shop', service: 'web', endpoints: ['10.244.2.12'] },
        annotations: { 'slicewire.dev/backup': 'true' },
      }),
    ],
    theirs: [balancer(), endpoints],
    why: /neither weights nor backups nor a choice by the client/,
  },
};

describe('what kube-proxy does on purpose', () => {
  for (const [name, { why, ...of }] of Object.entries(ON_PURPOSE))
    it(`${name}, and that is no difference`, async () => {
      const { equal, count, differences, onPurpose = [] } = await verified(of);
      assert.deepEqual([equal, count, differences], [true, 0, []]);
      assert.ok(onPurpose.length > 0);
      for (const { causes = [] } of onPurpose) assert.match(causes.join(' '), why);
    });
});

/** The endpoints of every Service are others by now, and kube-proxy has not written them. */
function stale(objects: Objects): Objects {
  const gone = (one: object) => {
    const { kind, endpoints = [] } = one as { kind: string; endpoints?: readonly object[] };
    if (kind !== 'EndpointSlice') return one;
    return { ...one, endpoints: endpoints.map((each) => ({ ...each, addresses: ['10.244.3.99'] })) };
  };
  return objects.map(gone);
}

describe('a difference that only looks like one on purpose', () => {
  for (const [name, { why: _, ...of }] of Object.entries(ON_PURPOSE)) {
    it(`counts where kube-proxy ${name}, and its endpoints are stale`, async () => {
      const theirs = of.theirs.length === 1 ? [...of.theirs, ...stale([endpoints])] : stale(of.theirs);
      const { equal, differences } = await verified({ ...of, theirs, as: (view) => view });
      assert.equal(equal, false);
      assert.ok(differences.length > 0);
    });
  }

  it('counts in IPVS mode where a source range or a policy is not written yet', async () => {
    const ranges = ['203.0.113.128/25'];
    const local = { externalTrafficPolicy: 'Local' };
    const closed = { objects: [balancer({ ...local, loadBalancerSourceRanges: ranges }), endpoints], as: unmarked };
    const open = await verified({ ...closed, theirs: [balancer(), endpoints], mode: 'ipvs' });
    assert.ok(open.differences.some(({ object }) => object === 'from a client outside to 203.0.113.7:80/tcp'));
    const marked = { objects: [balancer(local), endpoints], theirs: [balancer(), endpoints] };
    const still = await verified({ ...marked, mode: 'ipvs' });
    assert.ok(still.differences.some(({ object }) => object === 'from a client outside to 203.0.113.7:80/tcp'));
  });

  it('counts in nftables mode where iptables mode of kube-proxy alone lets an external IP bypass source ranges', async () => {
    const { why: _, ...bypass } = ON_PURPOSE['does not apply source ranges to an external IP'] ?? assert.fail();
    const { equal, onPurpose } = await verified({ ...bypass, mode: 'nftables' });
    assert.deepEqual([equal, onPurpose], [false, []]);
  });

  it('counts where a Service whose endpoints are in two slices has no rule at all', async () => {
    const twice = [HALF(true), HALF(false)].map((endpoint, i) =>
      slice({ name: `web-${i}`, namespace: 'shop', service: 'web', endpoints: [endpoint] }),
    );
    const { equal, onPurpose } = await verified({ objects: [balancer(), ...twice], theirs: [] });
    assert.deepEqual([equal, onPurpose], [false, []]);
  });
});

describe('a difference', () => {
  it('counts beside those that are on purpose', async () => {
    const ranges = balancer({ loadBalancerSourceRanges: ['fd00:1::/64'] });
    const other = service({
      name: 'other',
      namespace: 'shop',
      spec: { clusterIP: '10.96.0.11', ports: [{ port: 80 }] },
    });
    const ofOther = (...addresses: string[]) =>
      slice({ name: 'other-1', namespace: 'shop', service: 'other', endpoints: addresses });
    const answer = await verified({
      objects: [ranges, endpoints, other, ofOther('10.244.1.21', '10.244.2.22')],
      theirs: [balancer(), endpoints, other, ofOther('10.244.1.21')],
    });
    const { equal, differences, onPurpose = [] } = answer;
    assert.deepEqual([equal, new Set(differences.map(({ service: of }) => of))], [false, new Set(['shop/other'])]);
    assert.deepEqual(new Set(onPurpose.map(({ service: of }) => of)), new Set(['shop/web']));
    const text = verificationText(answer);
    assert.match(text, /10\.244\.2\.22:8080 gets no new connections\./);
    assert.match(text, /kube-proxy leads these elsewhere on purpose, so they are no differences:/);
  });

  it('names the source address where nothing else differs', async () => {
    const masquerade = (view: FamilyView) =>
      withChain(view, ['nat', 'POSTROUTING'], (chain) => [rule('-d 10.96.0.99/32 -j MASQUERADE'), ...chain]);
    const node = await nodeWith([balancer(), endpoints]);
    const { by } = node.facts();
    const facts = node.facts({
      stands: (family) => masquerade(node.view(family)),
      more: { by: { ...by, rules: 'kube-proxy' } },
    });
    const served = [{ family: 'IPv4', protocol: 'TCP', address: '10.96.0.99', port: 80 }] as never;
    const { differences } = await verifyWalks({ facts, served, signal: NEVER });
    assert.deepEqual(
      differences.map(({ object, causes }) => [object, causes]),
      [
        ['from the node to 10.96.0.99:80/tcp', ['The packet is masqueraded, and should keep its source address.']],
        [
          'from a client outside to 10.96.0.99:80/tcp',
          ['The packet is masqueraded, and should keep its source address.'],
        ],
      ],
    );
  });

  it('of an address inside the cluster is none of the exposure', async () => {
    const node = await nodeWith([balancer(), endpoints]);
    const { by } = node.facts();
    const facts = node.facts({
      stands: (family) => ({ ...node.view(family), rules: undefined }),
      more: { by: { ...by, rules: 'kube-proxy' } },
    });
    const { differences } = await verifyWalks({ facts, served: [], senders: 'outside', signal: NEVER });
    assert.deepEqual(
      differences.map(({ object }) => object),
      [
        'from a client outside to 203.0.113.7:80/tcp',
        'from a client outside to 192.168.77.2:30080/tcp',
        'from a client outside to 10.244.1.1:30080/tcp',
      ],
    );
  });

  it('is found for clients of a source range that kube-proxy does not know yet', async () => {
    const ranges = (range: string) => balancer({ loadBalancerSourceRanges: [range] });
    const objects = [ranges('203.0.113.128/25'), endpoints];
    const { differences } = await verified({ objects, theirs: [ranges('198.51.100.0/24'), endpoints] });
    assert.deepEqual(
      differences.map(({ object }) => object),
      ['from a client at 203.0.113.128 to 203.0.113.7:80/tcp'],
    );
  });

  it('is found at an address of the node that kube-proxy does not serve node ports at', async () => {
    const objects = [balancer({ type: 'NodePort' }), endpoints];
    const served = askedNode('iptables');
    served.rig.put(...(objects as Parameters<AskedNode['rig']['put']>));
    await served.sync();
    const { by } = served.facts();
    const facts = served.facts({
      stands: (family) =>
        withChain(served.view(family), ['nat', 'KUBE-SERVICES'], (chain) =>
          chain.map((one) => (one.text.includes('NODEPORTS') ? rule(`-d 192.168.77.2/32 ${one.text}`) : one)),
        ),
      more: { by: { ...by, rules: 'kube-proxy' } },
    });
    const { differences } = await verifyWalks({ facts, served: [], signal: NEVER });
    assert.ok(differences.length > 0);
    for (const { object } of differences) assert.match(object, / to 10\.244\.1\.1:30080\/tcp$/);
  });

  it('is found where the endpoint of a client should be remembered', async () => {
    const sticky = { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } } };
    const { differences } = await verified({ objects: [balancer(sticky), endpoints], theirs: [balancer(), endpoints] });
    assert.ok(differences.length > 0);
    for (const { causes } of differences)
      assert.deepEqual(causes, [
        'The endpoint of a client is not remembered, and the Service asks for session affinity.',
      ]);
  });

  it('is found behind a rule of another program that drops packets of both', async () => {
    const drops = (view: FamilyView) =>
      withChain(view, ['filter', 'FORWARD'], (chain) => [rule('-d 10.244.0.0/16 -j DROP'), ...chain]);
    const [node, other] = [
      await nodeWith([balancer(), endpoints]),
      await nodeWith([balancer(), ...stale([endpoints])]),
    ];
    const { by, families } = node.facts();
    const facts = node.facts({
      stands: (family) => drops(other.view(family)),
      more: { by: { ...by, rules: 'kube-proxy' } },
    });
    const dropping = new Map(
      [...families].map(([family, one]) => [
        family,
        { ...one, ...facts.families.get(family), desired: drops(one.desired) },
      ]),
    );
    const { differences, notes = [] } = await verifyWalks({
      facts: { ...facts, families: dropping as never },
      served: [],
      signal: NEVER,
    });
    assert.ok(differences.length > 0);
    assert.match(
      notes.join(),
      /the rule `-d 10\.244\.0\.0\/16 -j DROP` of filter FORWARD is another program's, and drops connections/,
    );
  });

  it('is not looked for any more when the question is given up', async () => {
    const services = Array.from({ length: 30 }, (_, i) =>
      service({ name: `web-${i}`, namespace: 'shop', spec: { clusterIP: `10.96.1.${i}`, ports: [{ port: 80 }] } }),
    );
    const facts = (await nodeWith(services)).facts();
    const given = AbortSignal.abort(new Error('given up'));
    await assert.rejects(verifyWalks({ facts, served: [], signal: given }), /given up/);
  });
});
