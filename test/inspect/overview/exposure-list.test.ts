/** What a node answers from outside, and what looks wrong: a row for each problem. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Address, Cidr, Family } from '../../../src/base/address.ts';
import {
  type ExposureFacts,
  type ExposureFamily,
  ExposureList,
  MAX_EXPOSED,
} from '../../../src/inspect/overview/exposure-list.ts';
import { type Exposure, exposureSchema, exposureText } from '../../../src/inspect/wire/exposure.ts';
import { isPublic, specialKind } from '../../../src/proxy/model/special-address.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { askedNode } from '../../helpers/inspect/explain/asking.ts';

const V4: ExposureFamily = {
  family: 'IPv4',
  nodePortAddresses: ['192.168.77.2' as Address],
  own: new Set(['192.168.77.2', '127.0.0.1'] as Address[]),
  localhostNodePorts: false,
  serviceCidrs: ['10.96.0.0/16' as Cidr],
  podCidrs: ['10.244.0.0/16' as Cidr],
};

const NO_RELAY = { addresses: [], failures: new Map() };

interface Given {
  readonly v4?: Partial<ExposureFamily>;
  readonly facts?: Partial<ExposureFacts>;
}

async function exposureOf(objects: readonly object[], { v4 = {}, facts = {} }: Given = {}): Promise<Exposure> {
  const { rig, sync } = askedNode('iptables');
  rig.put(...objects);
  await sync();
  const families = new Map<Family, ExposureFamily>([['IPv4', { ...V4, ...v4 }]]);
  const list = new ExposureList({
    ...{ mode: 'iptables', strictArp: false, refused: new Map(), families, relay: NO_RELAY },
    ...facts,
  });
  for (const one of rig.cache.services()) list.add(one, rig.model.portsOf(one.key));
  const by = {
    who: 'agent',
    mode: 'iptables',
    node: 'node',
    version: '0.0.0',
    at: '2026-11-23T12:00:00.000Z',
  } as const;
  return exposureSchema.parse({ apiVersion: 'slicewire/v1', kind: 'Exposure', by, ...list.content() });
}

/** A Service with an endpoint on this node. */
function web(spec: object, { name = 'web', ingress = [] as string[], node = 'node' } = {}): object[] {
  const status = ingress.length === 0 ? {} : { status: { loadBalancer: { ingress: ingress.map((ip) => ({ ip })) } } };
  return [
    service({ name, spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...spec }, ...status }),
    slice({ name: `${name}-1`, service: name, endpoints: [{ addresses: ['10.244.1.5'], nodeName: node }] }),
  ];
}

const NODE_PORT = { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] };
const BALANCED = { type: 'LoadBalancer', ports: [{ port: 80, nodePort: 30_080 }] };
const LOCAL = { externalTrafficPolicy: 'Local' };

/** The kind of the entry with the problem, "" for the node as a whole, and the problem. */
const PROBLEMS: readonly (readonly [string, readonly object[], Given, string, RegExp])[] = [
  [
    'a node port beside source ranges',
    web({ ...BALANCED, loadBalancerSourceRanges: ['10.0.0.0/8'] }),
    {},
    'node port',
    /^Everybody may use this node port, although .* restricts the load balancer to 10\.0\.0\.0\/8\. Set /,
  ],
  [
    'an external IP beside source ranges',
    web({ ...BALANCED, ports: [{ port: 80 }], externalIPs: ['203.0.113.1'], loadBalancerSourceRanges: ['10.0.0.0/8'] }),
    {},
    'external IP',
    /^Everybody may use this external IP, although/,
  ],
  [
    "an external IP that is the node's own",
    web({ externalIPs: ['192.168.77.2'] }),
    {},
    'external IP',
    /^192\.168\.77\.2 is an address of this node: the Service gets the traffic to port 80 of the node/,
  ],
  [
    'an external IP in the range of cluster IPs',
    web({ externalIPs: ['10.96.9.9'] }),
    {},
    'external IP',
    /^10\.96\.9\.9 is inside 10\.96\.0\.0\/16, the range of cluster IPs/,
  ],
  [
    'an external IP in the range of Pods',
    web({ externalIPs: ['10.244.9.9'] }),
    {},
    'external IP',
    /^10\.244\.9\.9 is inside 10\.244\.0\.0\/16, the range of Pods/,
  ],
  [
    'a loopback external IP',
    web({ externalIPs: ['127.0.0.1'] }),
    {},
    'external IP',
    /^127\.0\.0\.1 is a loopback address .* Remove it from spec\.externalIPs\.$/,
  ],
  [
    'policy Local without an endpoint here',
    web({ ...NODE_PORT, ...LOCAL }, { node: 'other' }),
    {},
    'node port',
    /^The policy is Local and no endpoint is on this node, so connections from outside are dropped here\./,
  ],
  [
    'a node port of a Service of type ClusterIP',
    web({ ports: [{ port: 80, nodePort: 30_080 }] }),
    {},
    'node port',
    /^The Service is of type ClusterIP and has a node port, which is open nevertheless\./,
  ],
  [
    'two Services with one health check port',
    [
      ...web({ ...BALANCED, ...LOCAL, healthCheckNodePort: 32_000 }, { ingress: ['198.51.100.1'] }),
      ...web(
        { ...BALANCED, ...LOCAL, clusterIP: '10.96.0.11', ports: [{ port: 80 }], healthCheckNodePort: 32_000 },
        { name: 'two', ingress: ['198.51.100.2'] },
      ),
    ],
    {},
    'health check port',
    /^default\/(?:web|two) has the same health check port 32000/,
  ],
  [
    'a health check port that is a node port',
    web({ ...BALANCED, ...LOCAL, healthCheckNodePort: 30_080 }),
    {},
    'health check port',
    /^30080 is a node port of default\/web as well/,
  ],
  [
    'a Service that the kernel refuses',
    web(NODE_PORT),
    { facts: { refused: new Map([['default/web', 'no memory']]) } },
    'node port',
    /^The kernel refuses this Service/,
  ],
  [
    'node ports at a public address',
    web(NODE_PORT),
    { v4: { nodePortAddresses: ['203.0.113.5' as Address] } },
    '',
    /^1 node port is open at 203\.0\.113\.5, which the internet may reach\. Narrow them with --nodeport-addresses/,
  ],
  [
    'node ports at loopback',
    web(NODE_PORT),
    { v4: { localhostNodePorts: true } },
    '',
    /route_localnet is 1.*--iptables-localhost-nodeports=false\.$/,
  ],
  [
    'node ports that nobody may need',
    web(BALANCED, { ingress: ['198.51.100.1'] }),
    {},
    '',
    /^default\/web has node ports beside addresses of a load balancer/,
  ],
  [
    'addresses that IPVS mode announces',
    web({ externalIPs: ['203.0.113.1'] }),
    { facts: { mode: 'ipvs' } },
    '',
    /--ipvs-strict-arp=true\.$/,
  ],
];

describe('exposure', () => {
  for (const [what, objects, given, kind, pattern] of PROBLEMS) {
    it(`says what is wrong with ${what}`, async () => {
      const answer = await exposureOf(objects, given);
      const of = (one: Exposure['exposed'][number]) => one.problems.map((problem) => [one.kind, problem] as const);
      const all = [...answer.exposed.flatMap(of), ...answer.problems.map((problem) => ['', problem] as const)];
      assert.ok(
        all.some(([at, problem]) => at === kind && pattern.test(problem)),
        JSON.stringify(all, undefined, 2),
      );
      for (const [, problem] of all) assert.match(problem, /[.)]$/, 'a sentence');
      assert.match(exposureText(answer), /\n\nWhat looks wrong:\n {2}\S/);
    });
  }

  it('finds nothing wrong with what is usual', async () => {
    const usual = [
      ...web({ ...BALANCED, ...LOCAL, healthCheckNodePort: 32_000 }, { node: 'other' }),
      ...web({ clusterIP: '10.96.0.11', externalIPs: ['203.0.113.1'] }, { name: 'two' }),
      ...web({ clusterIP: '10.96.0.12' }, { name: 'three' }),
    ];
    const answer = await exposureOf(usual);
    assert.deepEqual([answer.problems, answer.exposed.flatMap(({ problems }) => problems)], [[], []]);
    assert.deepEqual(
      answer.exposed.map(({ kind, address, port, to, answers }) => [kind, address, port, to, answers]),
      [
        ['node port', '', 30_080, [], 'drops'],
        ['external IP', '203.0.113.1', 80, [], 'endpoints'],
        ['health check port', '', 32_000, [], 'health'],
      ],
    );
    const lines = exposureText(answer).split('\n');
    assert.equal(lines[0], 'From outside, node answers at 1 node port, 1 external IP and 1 health check port');
    assert.equal(lines[1], 'Node ports answer at 192.168.77.2');
    assert.equal(lines[3], 'Nothing looks wrong.');
    assert.match(lines[6] ?? '', /^ {2}node port +30080\/TCP IPv4 +default\/web +everybody +dropped$/);
  });

  it('tells to whom an address of a load balancer answers', async () => {
    const ranges = (...loadBalancerSourceRanges: string[]) =>
      exposureOf(web({ ...BALANCED, ports: [{ port: 80 }], loadBalancerSourceRanges }, { ingress: ['198.51.100.1'] }));
    const [open, some, none] = [await ranges(), await ranges('10.0.0.0/8'), await ranges('fd00::/8')];
    const told = [open, some, none].map(({ exposed }) => exposed.map(({ to, answers }) => [to, answers]));
    assert.deepEqual(told, [[[[], 'endpoints']], [[['10.0.0.0/8'], 'endpoints']], [[['nobody'], 'drops']]]);
  });

  it('lists the loopback addresses that the relay serves, and names a port that it cannot have', async () => {
    const failures = new Map([['127.0.0.1 30080', 'listen EADDRINUSE: address already in use 127.0.0.1:30080']]);
    const relay = { addresses: ['127.0.0.1', '::1'] as Address[], failures };
    const answer = await exposureOf(web(NODE_PORT), { facts: { relay, mode: 'nftables' } });
    assert.deepEqual(answer.nodePortAddresses, ['192.168.77.2', '127.0.0.1']);
    assert.deepEqual(
      answer.exposed.flatMap(({ problems }) => problems),
      [
        'The relay cannot listen at 127.0.0.1:30080: listen EADDRINUSE: address already in use 127.0.0.1:30080. Connections there reach the program that has the port: stop it, or use another node port.',
      ],
    );
  });

  it('tells of a family only what the Services of that family open', async () => {
    const families = new Map<Family, ExposureFamily>([
      ['IPv4', { ...V4, nodePortAddresses: ['192.168.77.2' as Address], localhostNodePorts: true }],
      ['IPv6', { ...V4, family: 'IPv6', nodePortAddresses: ['2001:db8::5' as Address], own: new Set() }],
    ]);
    const problemsOf = async (clusterIPs: readonly string[], more = {}) =>
      (await exposureOf(web({ ...NODE_PORT, clusterIPs, ...more }), { facts: { families, mode: 'ipvs' } })).problems;
    const v4 = await problemsOf(['10.96.0.10']);
    assert.deepEqual([v4.length, v4[0]?.slice(0, 34)], [1, 'Node ports answer at 127.0.0.1 too']);
    const dual = await problemsOf(['10.96.0.10', 'fd00:96::a']);
    assert.match(dual[0] ?? '', /^1 node port is open at 2001:db8::5, which/);
    const v6 = { clusterIP: 'fd00:96::a', externalIPs: ['2001:db8::9'] };
    const only = await problemsOf(['fd00:96::a'], v6);
    assert.deepEqual([only.length, only[0]?.slice(0, 34)], [1, '1 node port is open at 2001:db8::5']);
  });

  it('refuses where no node has an endpoint, and has nothing where nothing is open', async () => {
    const [none] = web(NODE_PORT);
    assert.ok(none !== undefined);
    assert.deepEqual(
      (await exposureOf([none])).exposed.map(({ answers }) => answers),
      ['refuses'],
    );
    const nothing = await exposureOf(web({}));
    assert.deepEqual([nothing.exposed, nothing.problems], [[], []]);
    assert.equal(exposureText(nothing), 'From outside, node answers at nothing\n\nNothing looks wrong.');
  });

  it('leaves out the harmless ends of a very long list, and counts them', async () => {
    const ports = Array.from({ length: 1100 }, (_, i) => ({ name: `p${i}`, port: 1000 + i, nodePort: 20_000 + i }));
    const answer = await exposureOf([
      service({ name: 'a', spec: { type: 'NodePort', clusterIP: '10.96.0.20', ports } }),
      service({
        name: 'b',
        spec: { clusterIP: '10.96.0.21', ports: ports.map((one) => ({ ...one, nodePort: one.nodePort + 2000 })) },
      }),
    ]);
    assert.deepEqual([answer.exposed.length, answer.omitted], [MAX_EXPOSED, 200]);
    assert.equal(answer.exposed.filter(({ problems }) => problems.length > 0).length, 1100);
    assert.match(exposureText(answer), /\(200 more entries not listed\)/);
  });
});

describe('addresses', () => {
  it('that are not of one machine are named', () => {
    const kinds = [
      '0.0.0.0',
      '127.8.8.8',
      '169.254.1.1',
      '224.0.0.1',
      '255.255.255.255',
      '::',
      '::1',
      'fe80::1',
      'ff02::1',
    ];
    for (const address of kinds as Address[]) assert.notEqual(specialKind(address), undefined, address);
    for (const address of ['10.0.0.1', '203.0.113.1', 'fd00::1'] as Address[])
      assert.equal(specialKind(address), undefined);
  });

  it('that the internet may reach are told from private ones', () => {
    const secret = [
      '10.1.2.3',
      '172.31.0.1',
      '192.168.0.1',
      '100.64.0.1',
      '127.0.0.1',
      'fd00::1',
      'fe80::1',
    ] as Address[];
    assert.deepEqual(secret.filter(isPublic), []);
    const open = ['8.8.8.8', '172.32.0.1', '100.128.0.1', '2001:db8::1'] as Address[];
    assert.deepEqual(open.filter(isPublic), open);
  });
});
