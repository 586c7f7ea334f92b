/** Endpoints of Services before and after their slices change, as kube-proxy's TestUpdateEndpointsMap has them; rows have its names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { service } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';
import { sliceOf } from '../slice-text.ts';

/** Slices by `namespace/name`. */
type Slices = Readonly<Record<string, string>>;

interface Change {
  readonly from: Slices;
  readonly to: Slices;
  /** By `namespace/service:port`: endpoints, those on this node with a star. */
  readonly before: Slices;
  readonly after: Slices;
  /** Ready endpoints on this node, of the Services that have some. */
  readonly local?: Readonly<Record<string, number>>;
  /** UDP flows may have become stale. */
  readonly isStale: boolean;
}

const ONE = { 'ns1/ep1-1': '10.1.1.1:p11=11' };
const ONE_HERE = { 'ns1/ep1-1': '10.1.1.1*:p11=11' };
const UNNAMED = { 'ns1/ep1-1': '10.1.1.1:=11' };
const DRAINING = { 'ns1/ep1-1': '10.1.1.1~:=11' };
const EMPTY = { 'ns1/ep1-1': ':' };
const TWO = { ...ONE, 'ns1/ep1-2': '10.1.1.2:p12=12' };
const TWO_ONE_HERE = { ...ONE, 'ns1/ep1-2': '10.1.1.2*:p12=12' };
const TWO_PORTS = { 'ns1/ep1-1': '10.1.1.1 10.1.1.2*:p11=11 p12=12' };
const IS = { 'ns1/ep1:p11': '10.1.1.1:11' };
const IS_TWO = { ...IS, 'ns1/ep1:p12': '10.1.1.2:12' };
const IS_TWO_PORTS = { 'ns1/ep1:p11': '10.1.1.1:11 10.1.1.2:11*', 'ns1/ep1:p12': '10.1.1.1:12 10.1.1.2:12*' };

function same(slices: Slices, endpoints: Slices, local: Readonly<Record<string, number>> = {}): Change {
  return { from: slices, to: slices, before: endpoints, after: endpoints, local, isStale: false };
}

const CHANGES: Readonly<Record<string, Change>> = {
  nothing: same({}, {}),
  'no change, unnamed port': same(UNNAMED, { 'ns1/ep1': '10.1.1.1:11' }),
  'no change, named port, local': same(ONE_HERE, { 'ns1/ep1:p11': '10.1.1.1:11*' }, { 'ns1/ep1': 1 }),
  'no change, multiple subsets': same(TWO, IS_TWO),
  'no change, multiple subsets, multiple ports, local': same(
    { 'ns1/ep1-1': '10.1.1.1*:p11=11 p12=12', 'ns1/ep1-2': '10.1.1.3:p13=13' },
    { 'ns1/ep1:p11': '10.1.1.1:11*', 'ns1/ep1:p12': '10.1.1.1:12*', 'ns1/ep1:p13': '10.1.1.3:13' },
    { 'ns1/ep1': 1 },
  ),
  'no change, multiple endpoints, subsets, IPs, and ports': same(
    {
      ...TWO_PORTS,
      'ns1/ep1-2': '10.1.1.3 10.1.1.4*:p13=13 p14=14',
      'ns2/ep2-1': '10.2.2.1 10.2.2.2*:p21=21 p22=22',
    },
    {
      ...IS_TWO_PORTS,
      'ns1/ep1:p13': '10.1.1.3:13 10.1.1.4:13*',
      'ns1/ep1:p14': '10.1.1.3:14 10.1.1.4:14*',
      'ns2/ep2:p21': '10.2.2.1:21 10.2.2.2:21*',
      'ns2/ep2:p22': '10.2.2.1:22 10.2.2.2:22*',
    },
    { 'ns1/ep1': 2, 'ns2/ep2': 1 },
  ),
  // Before the first endpoint a flow may have passed untranslated.
  'add an Endpoints': {
    from: {},
    to: ONE_HERE,
    before: {},
    after: { 'ns1/ep1:p11': '10.1.1.1:11*' },
    local: { 'ns1/ep1': 1 },
    isStale: true,
  },
  'remove an Endpoints': {
    from: ONE_HERE,
    to: {},
    before: { 'ns1/ep1:p11': '10.1.1.1:11*' },
    after: {},
    isStale: true,
  },
  'add an IP and port': {
    from: ONE,
    to: TWO_PORTS,
    before: IS,
    after: IS_TWO_PORTS,
    local: { 'ns1/ep1': 1 },
    isStale: true,
  },
  'remove an IP and port': { from: TWO_PORTS, to: ONE, before: IS_TWO_PORTS, after: IS, isStale: true },
  'add a subset': {
    from: ONE,
    to: TWO_ONE_HERE,
    before: IS,
    after: { ...IS, 'ns1/ep1:p12': '10.1.1.2:12*' },
    local: { 'ns1/ep1': 1 },
    isStale: true,
  },
  'remove a subset': { from: TWO, to: ONE, before: IS_TWO, after: IS, isStale: true },
  'rename a port': {
    from: ONE,
    to: { 'ns1/ep1-1': '10.1.1.1:p11-2=11' },
    before: IS,
    after: { 'ns1/ep1:p11-2': '10.1.1.1:11' },
    isStale: true,
  },
  'renumber a port': {
    from: ONE,
    to: { 'ns1/ep1-1': '10.1.1.1:p11=22' },
    before: IS,
    after: { 'ns1/ep1:p11': '10.1.1.1:22' },
    isStale: true,
  },
  'complex add and remove': {
    from: {
      ...ONE,
      'ns2/ep2-1': '10.2.2.2* 10.2.2.22*:p22=22',
      'ns2/ep2-2': '10.2.2.3*:p23=23',
      'ns4/ep4-1': '10.4.4.4* 10.4.4.5*:p44=44',
      'ns4/ep4-2': '10.4.4.6*:p45=45',
    },
    to: {
      'ns1/ep1-1': '10.1.1.1 10.1.1.11:p11=11',
      'ns1/ep1-2': '10.1.1.2:p12=12 p122=122',
      'ns3/ep3-1': '10.3.3.3:p33=33',
      'ns4/ep4-1': '10.4.4.4*:p44=44',
    },
    before: {
      ...IS,
      'ns2/ep2:p22': '10.2.2.22:22* 10.2.2.2:22*',
      'ns2/ep2:p23': '10.2.2.3:23*',
      'ns4/ep4:p44': '10.4.4.4:44* 10.4.4.5:44*',
      'ns4/ep4:p45': '10.4.4.6:45*',
    },
    after: {
      'ns1/ep1:p11': '10.1.1.11:11 10.1.1.1:11',
      'ns1/ep1:p12': '10.1.1.2:12',
      'ns1/ep1:p122': '10.1.1.2:122',
      'ns3/ep3:p33': '10.3.3.3:33',
      'ns4/ep4:p44': '10.4.4.4:44*',
    },
    local: { 'ns4/ep4': 1 },
    isStale: true,
  },
  'change from 0 endpoint address to 1 unnamed port': {
    from: EMPTY,
    to: UNNAMED,
    before: {},
    after: { 'ns1/ep1': '10.1.1.1:11' },
    isStale: true,
  },
  // A draining endpoint gets new flows only where nothing is ready, and its flows go on.
  'change from ready to terminating pod': {
    from: UNNAMED,
    to: DRAINING,
    before: { 'ns1/ep1': '10.1.1.1:11' },
    after: { 'ns1/ep1': '10.1.1.1:11' },
    isStale: false,
  },
  'change from terminating to empty pod': {
    from: DRAINING,
    to: EMPTY,
    before: { 'ns1/ep1': '10.1.1.1:11' },
    after: {},
    isStale: true,
  },
};

/** Four Services of type LoadBalancer that have every port of the table. */
const PORTS = ['p11', 'p11-2', 'p12', 'p122', 'p13', 'p14', 'p21', 'p22', 'p23', 'p33', 'p44', 'p45'];
function services(names: readonly string[]): object[] {
  return [1, 2, 3, 4].map((n) =>
    service({
      name: `ep${n}`,
      namespace: `ns${n}`,
      spec: {
        type: 'LoadBalancer',
        clusterIP: `172.30.0.${n}`,
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 30_000 + n,
        ports: names.map((name, i) => ({ name, protocol: 'UDP', port: 1000 + i, nodePort: 31_000 + n * 100 + i })),
      },
    }),
  );
}

function endpointsIn({ model }: Rig): Slices {
  const found: [string, string][] = [];
  for (const { id, cluster, local } of model.ports.values()) {
    const here = new Set(local.map(({ text }) => text));
    const words = cluster.map(({ text }) => (here.has(text) ? `${text}*` : text));
    if (words.length > 0) found.push([id, words.sort().join(' ')]);
  }
  return Object.fromEntries(found.sort());
}

/** Addresses of ready endpoints on this node, as a health check port counts them. */
function localIn({ model }: Rig): Record<string, number> {
  const found = new Map<string, Set<string>>();
  for (const port of model.ports.values()) {
    const addresses = found.get(port.service) ?? new Set();
    for (const address of port.readyLocal) addresses.add(address);
    found.set(port.service, addresses);
  }
  return Object.fromEntries([...found].flatMap(([key, { size }]) => (size === 0 ? [] : [[key, size]])));
}

const sorted = (slices: Slices) =>
  Object.fromEntries(
    Object.entries(slices)
      .sort()
      .map(([id, words]) => [id, words.split(' ').sort().join(' ')]),
  );

describe('endpoints of Services, when slices change', () => {
  for (const [title, { from, to, before, after, local = {}, isStale }] of Object.entries(CHANGES)) {
    it(title, async () => {
      const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] });
      const isUnnamed = [from, to].some((slices) => Object.values(slices).some((text) => text.includes(':=')));
      rig.put(...services(isUnnamed ? [''] : PORTS));
      rig.put(...Object.entries(from).map(([key, text]) => sliceOf(key, text)));
      assert.equal((await rig.sync()).outcome, 'complete');
      assert.deepEqual(endpointsIn(rig), sorted(before));
      rig.flows.swept(rig.flows.begin());

      for (const key of Object.keys(from)) if (!(key in to)) rig.remove('EndpointSlice', key);
      rig.put(...Object.entries(to).map(([key, text]) => sliceOf(key, text)));
      assert.equal((await rig.sync()).outcome, 'complete');
      assert.deepEqual(endpointsIn(rig), sorted(after));
      assert.deepEqual(localIn(rig), local);
      assert.equal(rig.flows.isDirty, isStale, 'whether flows may be stale');
    });
  }

  it('ready endpoints on this node are counted by address, and those that drain are not', async () => {
    const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] }).put(...services(PORTS));
    const become = async (text: string) => {
      rig.put(sliceOf('ns1/ep1-1', text));
      await rig.sync();
      return localIn(rig);
    };
    assert.deepEqual(await become('10.1.1.1* 10.1.1.2*~ 10.1.1.3*- 10.1.1.4:p11=11 p12=12'), { 'ns1/ep1': 1 });
    assert.deepEqual(await become('10.1.1.1*~ 10.1.1.2*~ 10.1.1.3*- 10.1.1.4:p11=11 p12=12'), {});
  });
});
