/** What a node takes for its addresses, its node ports and its pods, as kube-proxy's tests of these have it; rows have their names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { iptablesSettings } from '../../../src/agent/mode-settings.ts';
import { type Address, type Cidr, FAMILIES } from '../../../src/base/address.ts';
import type { Flags } from '../../../src/config/flags.ts';
import { configFromFlags } from '../../../src/config/from-flags.ts';
import type { IptablesSettings } from '../../../src/proxy/modes/iptables/static-chains.ts';
import { LocalGaps } from '../../../src/serve/service-health.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { fakeSysctls, Rig } from '../../helpers/proxy/rig.ts';
import { sliceOf } from '../slice-text.ts';

interface Machine {
  readonly interfaces?: readonly string[];
  readonly addresses?: readonly string[];
  readonly podCIDRs?: readonly string[];
}

/** The settings of IPv4 and IPv6. */
function settings(
  flags: Flags,
  { interfaces = [], addresses = [], podCIDRs = [] }: Machine,
): Promise<IptablesSettings[]> {
  const node = {
    isEligible: true,
    name: 'node',
    zone: '',
    addresses: addresses as Address[],
    podCIDRs: podCIDRs as Cidr[],
  };
  const config = configFromFlags({ manifests: '/m', ...flags });
  const base = { config, node, sysctls: fakeSysctls(), interfaces: interfaces as Address[] };
  return Promise.all(FAMILIES.map((family) => iptablesSettings({ ...base, family })));
}

type Taking = 'all' | readonly string[];

describe('TestGetNodeIPs', () => {
  const [ETH, LO] = ['10.20.30.51', '127.0.0.1'];
  const DUAL = ['1.2.3.4', '2001:db8::1', '127.0.0.1', '::1'];
  const ROWS: Readonly<Record<string, [list: string, interfaces: readonly string[], v4: Taking, v6: Taking]>> = {
    'IPv4 single': ['10.20.30.0/24', [ETH, '100.200.201.1'], [ETH], 'all'],
    'IPv4 zero CIDR': ['0.0.0.0/0', [ETH, LO], 'all', 'all'],
    // ::1 never takes node ports.
    'IPv6 multiple': ['2001:db8::/64,::1/128', ['2001:db8::1', '::1'], 'all', ['2001:db8::1']],
    'IPv6 zero CIDR': ['::/0', ['2001:db8::1', '::1'], 'all', 'all'],
    'IPv4 localhost exact': ['127.0.0.1/32', [ETH, LO], [LO], 'all'],
    'IPv4 localhost subnet': ['127.0.0.0/8', ['127.0.1.1'], ['127.0.1.1'], 'all'],
    'IPv4 multiple': ['10.20.30.0/24,100.200.201.0/24', [ETH, '100.200.201.1'], [ETH, '100.200.201.1'], 'all'],
    'IPv4 multiple, no match': ['10.20.30.0/24,100.200.201.0/24', ['192.168.1.2', LO], [], 'all'],
    'empty list, IPv4 addrs': ['', ['192.168.1.2', LO], 'all', 'all'],
    'empty list, IPv6 addrs': ['', ['2001:db8::1', '::1'], 'all', 'all'],
    'IPv4 redundant CIDRs': ['1.2.3.0/24,0.0.0.0/0', ['1.2.3.4'], 'all', 'all'],
    'Dual-stack, redundant IPv4': ['0.0.0.0/0,1.2.3.0/24,2001:db8::1/128', DUAL, 'all', ['2001:db8::1']],
    'Dual-stack, redundant IPv6': ['::/0,1.2.3.0/24,2001:db8::1/128', DUAL, ['1.2.3.4'], 'all'],
  };
  for (const [title, [list, interfaces, v4, v6]] of Object.entries(ROWS)) {
    it(title, async () => {
      const both = await settings(list === '' ? {} : { nodeportAddresses: list }, { interfaces });
      assert.deepEqual(
        both.map(({ nodePortAddresses }) => nodePortAddresses),
        [v4, v6],
      );
    });
  }
});

describe('TestContainsIPv4Loopback', () => {
  const OTHERS = '224.0.0.0/24,192.168.0.0/16,fd00:1:d::/64';
  const ROWS: Readonly<Record<string, [list: string, isThere: boolean]>> = {
    empty: ['', true],
    'all zeros ipv4': [`${OTHERS},0.0.0.0/0`, true],
    'all zeros ipv6': [`${OTHERS},::/0`, false],
    'ipv4 loopback': [`${OTHERS},127.0.0.0/8`, true],
    'ipv6 loopback': [`${OTHERS},::1/128`, false],
    'ipv4 loopback smaller range': [`${OTHERS},127.0.2.0/28`, true],
    'ipv4 loopback within larger range': [`${OTHERS},64.0.0.0/2`, true],
    'non loop loopback': [`128.0.2.0/28,${OTHERS}`, false],
  };
  for (const [title, [list, isThere]] of Object.entries(ROWS)) {
    it(title, async () => {
      const interfaces = ['127.0.0.1', '::1'];
      const [v4, v6] = await settings(list === '' ? {} : { nodeportAddresses: list }, { interfaces });
      assert.deepEqual([v4?.localhostNodePorts, v6?.localhostNodePorts], [isThere, false]);
    });
  }
});

describe('Test_detectNodeIPs', () => {
  const [OLD, NEW] = ['90.90.90.90', '2001:db8::2'];
  /** Where kube-proxy falls back to a loopback address, nothing is known: the addresses of the interfaces count, here none. */
  const ROWS: Readonly<Record<string, [addresses: readonly string[], bind: string, v4: string, v6: string]>> = {
    'Bind address IPv4 unicast address and no Node object': [[], '10.0.0.1', '10.0.0.1', ''],
    'Bind address IPv6 unicast address and no Node object': [[], 'fd00:4321::2', '', 'fd00:4321::2'],
    'No Valid IP found and no bind address': [[], '', '', ''],
    'No Valid IP found and unspecified bind address': [[], '0.0.0.0', '', ''],
    'Bind address 0.0.0.0 and node with IPv4 InternalIP set': [['192.168.1.1'], '0.0.0.0', '192.168.1.1', ''],
    'Bind address :: and node with IPv4 InternalIP set': [['192.168.1.1'], '::', '192.168.1.1', ''],
    'Bind address 0.0.0.0 and node with IPv6 InternalIP set': [['fd00:1234::1'], '0.0.0.0', '', 'fd00:1234::1'],
    'Bind address :: and node with IPv6 InternalIP set': [['fd00:1234::1'], '::', '', 'fd00:1234::1'],
    'Dual stack, primary IPv4': [[OLD, NEW], '::', OLD, NEW],
    'Dual stack, primary IPv6': [[NEW, OLD], '0.0.0.0', OLD, NEW],
    'Dual stack, override IPv4': [[NEW, OLD], '80.80.80.80', '80.80.80.80', NEW],
    'Dual stack, override IPv6': [[OLD, NEW], '2001:db8::555', OLD, '2001:db8::555'],
    'Dual stack, override primary family, IPv4': [[NEW, OLD], '127.0.0.1', '127.0.0.1', NEW],
    'Dual stack, override primary family, IPv6': [[OLD, NEW], '::1', OLD, '::1'],
  };
  for (const [title, [addresses, bind, v4, v6]] of Object.entries(ROWS)) {
    it(title, async () => {
      const both = await settings(bind === '' ? {} : { bindAddress: bind }, { addresses });
      assert.deepEqual(
        both.map(({ nodeAddresses }) => nodeAddresses.join()),
        [v4, v6],
      );
    });
  }
});

describe('Test_getLocalDetectors', () => {
  const [OLD, NEW] = ['10.0.0.0/14', '2002:0:0:1234::/64'];
  const of = (mode: string, cidrs: readonly string[]): [Flags, Machine] =>
    mode === 'NodeCIDR'
      ? [{ detectLocalMode: mode }, { podCIDRs: cidrs }]
      : [cidrs.length === 0 ? {} : { clusterCidr: cidrs.join() }, {}];
  const ROWS: Readonly<Record<string, [cidrs: readonly string[], v4: string, v6: string]>> = {
    'single-stack IPv4 cluster': [[OLD], OLD, ''],
    'single-stack IPv6 cluster': [[NEW], '', NEW],
    'dual-stack IPv4-primary cluster': [[OLD, NEW], OLD, NEW],
    'dual-stack IPv6-primary cluster': [[NEW, OLD], OLD, NEW],
    'no CIDRs': [[], '', ''],
  };
  for (const mode of ['ClusterCIDR', 'NodeCIDR']) {
    for (const [title, [cidrs, v4, v6]] of Object.entries(ROWS)) {
      it(`${mode}, ${title}`, async () => {
        const both = await settings(...of(mode, cidrs));
        const told = both.map(({ localDetector }) => (localDetector.kind === 'cidr' ? localDetector.cidr : ''));
        assert.deepEqual(told, [v4, v6 === '' ? '' : '2002:0:0:1234::/64']);
      });
    }
  }

  it('of interfaces count in both families', async () => {
    const bridge = await settings({ detectLocalMode: 'BridgeInterface', podBridgeInterface: 'eth' }, {});
    assert.deepEqual(
      bridge.map(({ localDetector }) => localDetector),
      [1, 2].map(() => ({ kind: 'interface', name: 'eth' })),
    );
    const prefix = await settings({ detectLocalMode: 'InterfaceNamePrefix', podInterfaceNamePrefix: 'eth' }, {});
    assert.deepEqual(
      prefix.map(({ localDetector }) => localDetector),
      [1, 2].map(() => ({ kind: 'interface', name: 'eth+' })),
    );
  });
});

describe('TestNoEndpointsMetric', () => {
  const [INTERNAL, EXTERNAL] = [
    { internalTrafficPolicy: 'Local' },
    { type: 'NodePort', externalTrafficPolicy: 'Local' },
  ];
  const BOTH = { ...INTERNAL, ...EXTERNAL };
  const [HERE, AWAY] = ['10.0.1.1* 10.0.1.2 10.0.1.3', '10.0.1.1 10.0.1.2 10.0.1.3'];
  const ROWS: Readonly<Record<string, [spec: object, endpoints: string, internal: number, external: number]>> = {
    'internalTrafficPolicy is set and there are local endpoints': [INTERNAL, HERE, 0, 0],
    'externalTrafficPolicy is set and there are local endpoints': [EXTERNAL, HERE, 0, 0],
    'both policies are set and there are local endpoints': [BOTH, HERE, 0, 0],
    'internalTrafficPolicy is set and there are no local endpoints': [INTERNAL, AWAY, 1, 0],
    'externalTrafficPolicy is set and there are no local endpoints': [EXTERNAL, AWAY, 0, 1],
    'both policies are set and there are no local endpoints': [BOTH, AWAY, 1, 1],
    'both policies are set and there are no endpoints at all': [BOTH, '', 0, 0],
  };
  for (const [title, [spec, endpoints, internal, external]] of Object.entries(ROWS)) {
    it(title, async () => {
      const rig = new Rig({ commands: new FakeIptables(), families: ['IPv4'] }).put(
        service({
          name: 'svc1',
          namespace: 'ns1',
          spec: { clusterIP: '172.30.1.1', ports: [{ port: 80, nodePort: 30_123 }], ...spec },
        }),
        sliceOf('ns1/svc1-1', `${endpoints}:=80`, 'TCP'),
      );
      await rig.sync();
      const gaps = new LocalGaps();
      gaps.update(new Map(rig.model.ports));
      const counts = gaps.counts.filter(([, family]) => family === 'IPv4').map(([policy, , count]) => [policy, count]);
      assert.deepEqual(Object.fromEntries(counts), { internal, external });
    });
  }
});
