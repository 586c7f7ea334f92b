/** Nodes in memory, one for each mode, with random settings: a model, a mode and its kernel. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type Address, type Cidr, type Family, parseCidr } from '../../../src/base/address.ts';
import type { Backend, ServicePort } from '../../../src/proxy/model/service-port.ts';
import { endpointChain } from '../../../src/proxy/modes/netfilter/balancer.ts';
import type { LocalDetector } from '../../../src/proxy/modes/netfilter/local-traffic.ts';
import { memorySet, ownId } from '../../../src/proxy/modes/nftables/table-layout.ts';
import { memoriesOf } from '../../helpers/inspect/explain/views.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { FakeIpvs } from '../../helpers/kernel/fake-ipvs.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { defaultIpvsSettings } from '../../helpers/proxy/ipvs-settings.ts';
import { nftRig, nftSettings } from '../../helpers/proxy/nft-rig.ts';
import { defaultSettings, Rig } from '../../helpers/proxy/rig.ts';
import type { ModeSettings } from './oracle.ts';

/**
 * Addresses of the node. The second one is an endpoint's, too, as that of a pod with hostNetwork; the last one is an address of the load
 * balancer, which the node has as well.
 */
export const NODE = {
  IPv4: ['192.168.77.2', '10.244.1.1', '192.168.78.2', '198.51.100.2'],
  IPv6: ['fd00:77::2', 'fd00:244:1::1', 'fd00:78::2', 'fd00:198::1'],
} as const satisfies Record<Family, readonly string[]>;

export interface NodeValue {
  readonly detector: 'none' | 'cidr' | 'everybody' | 'interface';
  readonly masqueradeAll: boolean;
  readonly nodePorts: 'all' | 'one';
  readonly localhostNodePorts: boolean;
  readonly dropInvalid: boolean;
  readonly knowsRanges: boolean;
}

export const aNode: fc.Arbitrary<NodeValue> = fc.record({
  detector: fc.constantFrom('none', 'cidr', 'cidr', 'everybody', 'interface'),
  masqueradeAll: fc.constantFrom(false, false, true),
  nodePorts: fc.constantFrom('all', 'one'),
  localhostNodePorts: fc.boolean(),
  dropInvalid: fc.boolean(),
  knowsRanges: fc.boolean(),
});

export interface World {
  readonly rig: Rig;
  mode(family: Family): ModeSettings;
  /** Names of the memories that know a client of this backend. */
  memories(port: ServicePort, backend: Backend): ReadonlySet<string>;
}

export const WORLDS = { iptables: iptablesWorld, nftables: nftablesWorld, ipvs: ipvsWorld } as const;

function iptablesWorld(value: NodeValue): World {
  const kernel = new FakeIptables();
  const own = (family: Family) => ({
    ...shared(value, family),
    nodePortAddresses: nodePortAddresses(value, family),
    localhostNodePorts: family === 'IPv4' && value.nodePorts === 'all' && value.localhostNodePorts,
    dropInvalid: value.dropInvalid,
  });
  return {
    rig: new Rig({ commands: kernel, settings: own }),
    mode: (family) => ({ mode: 'iptables', settings: { ...defaultSettings(family), ...own(family) } }),
    memories: ({ id, protocol }, { text }) => new Set([endpointChain(id, protocol, text)]),
  };
}

function nftablesWorld(value: NodeValue): World {
  const own = (family: Family) => ({
    ...shared(value, family),
    nodePortAddresses: nodePortAddresses(value, family),
    dropInvalid: value.dropInvalid,
    serviceCidrs: value.knowsRanges ? [net(family === 'IPv4' ? '10.96.0.0/24' : 'fd00:96::/112')] : undefined,
  });
  const { rig } = nftRig({ settings: own });
  return {
    rig,
    mode: (family) => ({ mode: 'nftables', settings: { ...nftSettings(family), ...own(family) } }),
    memories: ({ id, protocol }, { text }) => new Set([memorySet(ownId(id, protocol.toLowerCase(), text)).name]),
  };
}

function ipvsWorld(value: NodeValue): World {
  const kernel = new FakeIpvs();
  for (const address of [...NODE.IPv4, ...NODE.IPv6]) kernel.others.add(address as Address);
  const own = (family: Family) => {
    const width = family === 'IPv4' ? 32 : 128;
    const only = [net(`${NODE[family][0]}/${width}`)];
    return { ...shared(value, family), nodePortCidrs: value.nodePorts === 'all' ? ('all' as const) : only };
  };
  const { rig } = ipvsRig({ kernel, settings: own });
  return {
    rig,
    mode: (family) => ({ mode: 'ipvs', settings: { ...defaultIpvsSettings(family), ...own(family) } }),
    memories: ({ id, protocol }, backend) =>
      new Set([...memoriesOf(kernel, [backend]), endpointChain(id, protocol, backend.text)]),
  };
}

function shared({ masqueradeAll, detector }: NodeValue, family: Family) {
  return { masqueradeAll, localDetector: detectorOf(detector, family), nodeAddresses: [NODE[family][0] as Address] };
}

function nodePortAddresses({ nodePorts }: NodeValue, family: Family): 'all' | readonly Address[] {
  return nodePorts === 'all' ? 'all' : [NODE[family][0] as Address];
}

function detectorOf(kind: NodeValue['detector'], family: Family): LocalDetector {
  const cidr = (v4: string, v6: string): LocalDetector => ({ kind: 'cidr', cidr: net(family === 'IPv4' ? v4 : v6) });
  if (kind === 'none') return { kind };
  if (kind === 'interface') return { kind, name: 'cni+' };
  return kind === 'everybody' ? cidr('0.0.0.0/0', '::/0') : cidr('10.244.0.0/16', 'fd00:244::/32');
}

function net(text: string): Cidr {
  return parseCidr(text) ?? assert.fail(text);
}
