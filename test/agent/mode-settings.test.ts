/** From flags, Node and interfaces to what the rules depend on: docs/semantics.md 5.1 and 6.9. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  iptablesSettings,
  ipvsKernelSettings,
  ipvsNodePortFilter,
  ipvsSettings,
  nodePortFilter,
} from '../../src/agent/mode-settings.ts';
import { type Address, addressBytes, type Cidr, type Family } from '../../src/base/address.ts';
import type { Flags } from '../../src/config/flags.ts';
import { configFromFlags } from '../../src/config/from-flags.ts';
import type { NodeView } from '../../src/proxy/model/objects.ts';
import type { IptablesSettings } from '../../src/proxy/modes/iptables/static-chains.ts';
import { fakeSysctls } from '../helpers/proxy/rig.ts';

const INTERFACES = ['127.0.0.1', '192.168.77.2', '10.9.0.1', '::1', 'fd00:77::2', 'fd00:9::1'] as Address[];
const NODE: NodeView = {
  isEligible: true,

  name: 'node',
  zone: '',
  addresses: ['192.168.77.2', 'fd00:77::2'] as Address[],
  podCIDRs: ['10.244.1.0/24', 'fd00:244:1::/64'] as Cidr[],
};

function settings(flags: Flags, family: Family, node: NodeView | undefined = NODE): Promise<IptablesSettings> {
  const config = configFromFlags({ manifests: '/m', ...flags });
  return iptablesSettings({ config, node, family, sysctls: fakeSysctls(), interfaces: INTERFACES });
}

interface Row {
  readonly list: string | undefined;
  readonly v4: 'all' | readonly string[];
  readonly v6: 'all' | readonly string[];
  /** Node ports on 127.0.0.0/8, and with them route_localnet. */
  readonly localhost: boolean;
}

const ROWS: readonly Row[] = [
  { list: undefined, v4: 'all', v6: 'all', localhost: true },
  { list: 'all', v4: 'all', v6: 'all', localhost: true },
  { list: 'primary', v4: ['192.168.77.2'], v6: ['fd00:77::2'], localhost: false },
  { list: 'localhost', v4: ['127.0.0.1'], v6: [], localhost: true },
  { list: 'primary,localhost', v4: ['127.0.0.1', '192.168.77.2'], v6: ['fd00:77::2'], localhost: true },
  { list: 'primary,10.9.0.0/16', v4: ['192.168.77.2', '10.9.0.1'], v6: ['fd00:77::2'], localhost: false },
  // A family of which nothing is said is open (k8s#89923).
  { list: '10.9.0.0/16', v4: ['10.9.0.1'], v6: 'all', localhost: false },
  { list: 'fd00:9::/64', v4: 'all', v6: ['fd00:9::1'], localhost: true },
  // A CIDR of length 0 makes all others idle.
  { list: '10.9.0.0/16,0.0.0.0/0', v4: 'all', v6: 'all', localhost: true },
  { list: '127.0.0.0/8', v4: ['127.0.0.1'], v6: 'all', localhost: true },
  { list: '203.0.113.0/24', v4: [], v6: 'all', localhost: false },
];

describe('settings', () => {
  for (const { list, v4, v6, localhost } of ROWS) {
    it(`--nodeport-addresses=${list ?? ''}`, async () => {
      const flags = list === undefined ? {} : { nodeportAddresses: list };
      const [four, six] = [await settings(flags, 'IPv4'), await settings(flags, 'IPv6')];
      assert.deepEqual([four.nodePortAddresses, six.nodePortAddresses], [v4, v6]);
      assert.deepEqual([four.localhostNodePorts, six.localhostNodePorts], [localhost, false]);
    });
  }

  it('serves no node port on loopback when that is switched off', async () => {
    const off = { iptablesLocalhostNodeports: 'false' };
    assert.equal((await settings(off, 'IPv4')).localhostNodePorts, false);
    assert.deepEqual((await settings({ ...off, nodeportAddresses: 'localhost' }, 'IPv4')).nodePortAddresses, []);
  });

  it('takes an address as one of node ports exactly where the rules do', async () => {
    const takes = async (flags: Flags, address: string) =>
      nodePortFilter(await settings(flags, 'IPv4'), INTERFACES)(addressBytes(address as Address));
    assert.equal(await takes({ nodeportAddresses: 'primary' }, '192.168.77.2'), true);
    assert.equal(await takes({ nodeportAddresses: 'primary' }, '10.9.0.1'), false);
    assert.equal(await takes({ nodeportAddresses: 'primary' }, '127.0.0.1'), false);
    assert.equal(await takes({ nodeportAddresses: 'localhost' }, '127.0.0.1'), true);
    assert.equal(await takes({ nodeportAddresses: 'localhost' }, '127.0.0.5'), false);
    assert.equal(await takes({}, '10.9.0.1'), true);
    assert.equal(await takes({}, '127.0.0.5'), true);
    assert.equal(await takes({ iptablesLocalhostNodeports: 'false' }, '127.0.0.5'), false);
    assert.equal(await takes({}, '8.8.8.8'), false);
  });

  it('recognises local pods by the first CIDR of the family, the Node’s, a bridge, a prefix, or not at all', async () => {
    const detector = async (flags: Flags, family: Family, node?: NodeView) =>
      (await settings(flags, family, node)).localDetector;
    const both = { clusterCidr: '10.244.0.0/16,fd00:244::/32' };
    assert.deepEqual(await detector(both, 'IPv4'), { kind: 'cidr', cidr: '10.244.0.0/16' });
    assert.deepEqual(await detector(both, 'IPv6'), { kind: 'cidr', cidr: 'fd00:244::/32' });
    assert.deepEqual(await detector({ clusterCidr: '10.244.0.0/16' }, 'IPv6'), { kind: 'none' });
    const node = { detectLocalMode: 'NodeCIDR' };
    assert.deepEqual(await detector(node, 'IPv4'), { kind: 'cidr', cidr: '10.244.1.0/24' });
    assert.deepEqual(await detector(node, 'IPv6'), { kind: 'cidr', cidr: 'fd00:244:1::/64' });
    assert.deepEqual(await detector(node, 'IPv6', { ...NODE, podCIDRs: [] }), { kind: 'none' });
    const bridge = { detectLocalMode: 'BridgeInterface', podBridgeInterface: 'cni0' };
    assert.deepEqual(await detector(bridge, 'IPv6'), { kind: 'interface', name: 'cni0' });
    const prefix = { detectLocalMode: 'InterfaceNamePrefix', podInterfaceNamePrefix: 'cali' };
    assert.deepEqual(await detector(prefix, 'IPv4'), { kind: 'interface', name: 'cali+' });
  });

  it('knows the node by --bind-address, the Node object, or its interfaces', async () => {
    const of = async (flags: Flags, node?: NodeView) => (await settings(flags, 'IPv4', node)).nodeAddresses;
    assert.deepEqual(await of({}), ['192.168.77.2']);
    assert.deepEqual(await of({ bindAddress: '10.9.0.1' }), ['10.9.0.1']);
    assert.deepEqual(await of({ bindAddress: '0.0.0.0' }), ['192.168.77.2']);
    assert.deepEqual(await of({ bindAddress: 'fd00:9::1' }), ['192.168.77.2']);
    assert.deepEqual(await of({}, { ...NODE, addresses: [] }), ['192.168.77.2', '10.9.0.1']);
  });

  it('drops packets that conntrack finds invalid unless it is to be liberal (k8s#94861)', async () => {
    assert.equal((await settings({}, 'IPv4')).dropInvalid, true);
    const sysctls = fakeSysctls();
    const input = { config: configFromFlags({ manifests: '/m' }), node: NODE, family: 'IPv4', interfaces: [] } as const;
    sysctls.values.set('net/netfilter/nf_conntrack_tcp_be_liberal', '1');
    assert.equal((await iptablesSettings({ ...input, sysctls })).dropInvalid, false);
    // Asked for, but not so: the kernel's value counts. A plan takes it for done.
    const flag = { conntrackTcpBeLiberal: true };
    assert.equal((await settings(flag, 'IPv4')).dropInvalid, true);
    assert.equal(
      (await iptablesSettings({ ...input, sysctls: fakeSysctls(), willBeLiberal: true })).dropInvalid,
      false,
    );
  });
});

describe('settings of IPVS mode', () => {
  const config = (flags: Flags) => configFromFlags({ manifests: '/m', mode: 'ipvs', ...flags });

  it('of the kernel are those of the table (docs/semantics.md 8.5), by its release and strict ARP', () => {
    const always = {
      'net/ipv4/vs/conntrack': '1',
      'net/ipv4/vs/expire_nodest_conn': '1',
      'net/ipv4/vs/expire_quiescent_template': '1',
      'net/ipv4/ip_forward': '1',
    };
    const reuse = { 'net/ipv4/vs/conn_reuse_mode': '0' };
    const arp = { 'net/ipv4/conf/all/arp_ignore': '1', 'net/ipv4/conf/all/arp_announce': '2' };
    const of = (flags: Flags, release: string) => Object.fromEntries(ipvsKernelSettings(config(flags).ipvs, release));
    assert.deepEqual(of({}, '6.1.0-56-amd64'), always);
    assert.deepEqual(of({}, '5.9.0'), always);
    assert.deepEqual(of({}, '5.8.18'), { ...always, ...reuse });
    assert.deepEqual(of({}, '4.19.0-27-amd64'), { ...always, ...reuse });
    assert.deepEqual(of({ ipvsStrictArp: true }, '6.18.44'), { ...always, ...arp });
  });

  it('serve node ports on all addresses but loopback ones, or in the ranges of the list', () => {
    const of = (list: string | undefined) => {
      const flags: Flags = list === undefined ? {} : { nodeportAddresses: list };
      const made = ipvsSettings({ config: config(flags), node: NODE, family: 'IPv4', interfaces: INTERFACES });
      const isServed = ipvsNodePortFilter(made, INTERFACES);
      return INTERFACES.filter((address) => !address.includes(':') && isServed(addressBytes(address)));
    };
    assert.deepEqual(of(undefined), ['192.168.77.2', '10.9.0.1']);
    assert.deepEqual(of('primary'), ['192.168.77.2']);
    assert.deepEqual(of('10.0.0.0/8'), ['10.9.0.1']);
  });
});
