/**
 * Which endpoints each mode keeps something for, so that they reach themselves (docs/semantics.md 7.7): one rule, element or entry for each,
 * and nothing for those that cannot come to themselves by this node.
 */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Address, addressBytes, type Cidr } from '../../../src/base/address.ts';
import type { ModeName } from '../../../src/proxy/model/modes.ts';
import type { LocalDetector } from '../../../src/proxy/modes/netfilter/local-traffic.ts';
import { service, slice } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { ipvsRig } from '../../helpers/proxy/ipvs-rig.ts';
import { nftRig } from '../../helpers/proxy/nft-rig.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

interface Kept {
  readonly rig: Rig;
  /** The addresses of the endpoints that the kernel has something for. */
  readonly kept: () => string[];
}

const HERE = ['10.244.1.1'];
const AWAY = ['10.244.2.1', '10.244.2.2', '10.244.3.1'];
/** On the network of its node. */
const HOST = '192.168.77.3';

const MODES: Readonly<Record<ModeName, (localDetector: LocalDetector) => Kept>> = {
  iptables: (localDetector) => {
    const kernel = new FakeIptables();
    const rig = new Rig({ commands: kernel, families: ['IPv4'], settings: () => ({ localDetector }) });
    const own = /^-A KUBE-(?:HAIRPIN|DSM-\S+) -s (\S+)\/32 -d \S+ .*-j MASQUERADE/gm;
    return { rig, kept: () => [...kernel.save('IPv4').matchAll(own)].map(([, address = '']) => address) };
  },
  nftables: (localDetector) => {
    const { kernel, rig } = nftRig({ families: ['IPv4'], settings: () => ({ localDetector }) });
    const all = [...HERE, ...AWAY, HOST] as Address[];
    const keys = () => [...(kernel.tables.get('IPv4')?.sets.get('hairpin')?.elements.keys() ?? [])];
    const nameOf = (key: string) => all.find((one) => key === addressBytes(one) + addressBytes(one)) ?? key;
    return { rig, kept: () => keys().map(nameOf) };
  },
  ipvs: (localDetector) => {
    const { kernel, rig } = ipvsRig({ families: ['IPv4'], settings: () => ({ localDetector }) });
    const entry = /KUBE-LOOP-BACK (\S+),tcp:8080,\1$/;
    return { rig, kept: () => kernel.dump().flatMap((line) => entry.exec(line)?.[1] ?? []) };
  },
};

const CLUSTER: LocalDetector = { kind: 'cidr', cidr: '10.244.0.0/16' as Cidr };
const LOCAL = { externalTrafficPolicy: 'Local' };
const NODE_PORT = { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] };

interface Case {
  readonly title: string;
  readonly spec: object;
  readonly status?: Record<string, unknown>;
  readonly detector?: LocalDetector;
  readonly kept: readonly string[];
}

const CASES: readonly Case[] = [
  { title: 'a cluster IP alone: those of this node', spec: {}, kept: HERE },
  { title: 'policy Cluster, which masquerades all: those of this node', spec: NODE_PORT, kept: HERE },
  { title: 'a node port of policy Local: all pods', spec: { ...NODE_PORT, ...LOCAL }, kept: [...HERE, ...AWAY] },
  {
    title: 'an external IP of policy Local: all pods',
    spec: { ...LOCAL, externalIPs: ['192.0.2.1'] },
    kept: [...HERE, ...AWAY],
  },
  {
    title: 'an address of the load balancer of policy Local: all pods',
    spec: { ...LOCAL, type: 'LoadBalancer' },
    status: { loadBalancer: { ingress: [{ ip: '198.51.100.1' }] } },
    kept: [...HERE, ...AWAY],
  },
  {
    title: 'policy Local of a load balancer that has no address and no node port yet: those of this node',
    spec: { ...LOCAL, type: 'LoadBalancer' },
    kept: HERE,
  },
  {
    title: 'the range of the own pods: those of this node',
    spec: { ...NODE_PORT, ...LOCAL },
    detector: { kind: 'cidr', cidr: '10.244.1.0/24' as Cidr },
    kept: HERE,
  },
  {
    title: 'pods that are not recognised: those of this node',
    spec: { ...NODE_PORT, ...LOCAL },
    detector: { kind: 'none' },
    kept: HERE,
  },
  {
    title: 'a range that holds everybody: all endpoints',
    spec: { ...NODE_PORT, ...LOCAL },
    detector: { kind: 'cidr', cidr: '0.0.0.0/0' as Cidr },
    kept: [...HERE, ...AWAY, HOST],
  },
  {
    title: 'an interface, which may be a bridge over all nodes: all endpoints',
    spec: { ...NODE_PORT, ...LOCAL },
    detector: { kind: 'interface', name: 'cni0' },
    kept: [...HERE, ...AWAY, HOST],
  },
  {
    title: 'both policies Local: the external one sends pods to all endpoints all the same',
    spec: { ...NODE_PORT, ...LOCAL, internalTrafficPolicy: 'Local' },
    kept: [...HERE, ...AWAY],
  },
];

function web(spec: object, status?: Record<string, unknown>): object {
  const all = { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...spec };
  return service({ name: 'web', spec: all, ...(status === undefined ? {} : { status }) });
}

function endpoints(addresses: readonly string[]): object {
  const nodeOf = (address: string) => (HERE.includes(address) ? 'node' : 'other');
  const list = addresses.map((address) => ({ addresses: [address], nodeName: nodeOf(address) }));
  return slice({ name: 'web-1', service: 'web', endpoints: list });
}

for (const [mode, make] of Object.entries(MODES)) {
  describe(`endpoints that may reach themselves, ${mode} mode`, () => {
    for (const { title, spec, status, detector = CLUSTER, kept: wanted } of CASES) {
      it(title, async () => {
        const { rig, kept } = make(detector);
        await rig.put(web(spec, status), endpoints([...HERE, ...AWAY, HOST])).sync();
        assert.deepEqual(kept().sort(), [...wanted].sort());
      });
    }

    it('come and go with the endpoints and with the policy', async () => {
      const { rig, kept } = make(CLUSTER);
      await rig.put(web({ ...NODE_PORT, ...LOCAL }), endpoints(['10.244.2.1'])).sync();
      assert.deepEqual(kept(), ['10.244.2.1']);
      await rig.put(endpoints(['10.244.2.1', '10.244.3.1'])).sync();
      assert.deepEqual(kept().sort(), ['10.244.2.1', '10.244.3.1']);
      await rig.put(endpoints(['10.244.3.1'])).sync();
      await rig.sync();
      assert.deepEqual(kept(), ['10.244.3.1']);
      await rig.put(web(NODE_PORT)).sync();
      await rig.sync();
      assert.deepEqual(kept(), []);
    });
  });
}
