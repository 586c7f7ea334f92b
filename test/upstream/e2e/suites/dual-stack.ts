/** Services and Pods of both families, from test/e2e/network/dual_stack.go and no_snat.go of Kubernetes. */
import assert from 'node:assert/strict';
import type { IpFamily, ServiceSpec } from '../allocation.ts';
import { at, type Jig, replies, type Suite, textOf } from '../jig.ts';

type Policy = NonNullable<ServiceSpec['ipFamilyPolicy']>;

/** The Service has cluster IPs of these families, its slices have endpoints of them alone, and each address is served. */
async function has(jig: Jig, families: readonly IpFamily[], policy: Policy, spec: ServiceSpec): Promise<void> {
  const ports = [
    { name: 'tcp-port', port: 80 },
    { name: 'udp-port', port: 80, protocol: 'UDP' as const },
  ];
  const service = await jig.service('ip-families', { ...spec, ports });
  assert.deepEqual([service.spec.ipFamilies, service.spec.ipFamilyPolicy], [families, policy]);
  const found = (service.spec.clusterIPs ?? []).map((address) => (address.includes(':') ? 'IPv6' : 'IPv4'));
  assert.deepEqual(found, families);
  await jig.servers('ip-families', 2);
  await jig.isReachable(service, await jig.client());
  const types = (await jig.slices('ip-families')).map(({ addressType }) => addressType);
  assert.deepEqual([...new Set(types)].sort(), [...families].sort());
}

export const dualStack: Suite = {
  'should create pod, add ipv6 and ipv4 ip to pod ips': async (jig) => {
    const { addresses } = await jig.client();
    const [pod] = await jig.cluster.api.list('Pod', jig.namespace);
    assert.deepEqual((pod as { status?: { podIPs?: object } }).status?.podIPs, [
      { ip: addresses.v4 },
      { ip: addresses.v6 },
    ]);
  },

  'should be able to reach pod on ipv4 and ipv6 ip': async (jig) => {
    const pods = await jig.servers('dualstack-server', 3);
    const clients = [await jig.client('node-1'), await jig.client('node-2')];
    for (const client of clients)
      for (const { addresses, name } of pods)
        for (const address of Object.values(addresses)) await replies(client, at(address, 80), name);
  },

  'should create a single stack service with cluster ip from primary service range': (jig) =>
    has(jig, ['IPv4'], 'SingleStack', {}),
  'should create service with ipv4 cluster ip': (jig) =>
    has(jig, ['IPv4'], 'SingleStack', { ipFamilies: ['IPv4'], ipFamilyPolicy: 'SingleStack' }),
  'should create service with ipv6 cluster ip': (jig) =>
    has(jig, ['IPv6'], 'SingleStack', { ipFamilies: ['IPv6'], ipFamilyPolicy: 'SingleStack' }),
  'should create service with ipv4,v6 cluster ip': (jig) =>
    has(jig, ['IPv4', 'IPv6'], 'RequireDualStack', {
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
    }),
  'should create service with ipv6,v4 cluster ip': (jig) =>
    has(jig, ['IPv6', 'IPv4'], 'RequireDualStack', {
      ipFamilies: ['IPv6', 'IPv4'],
      ipFamilyPolicy: 'RequireDualStack',
    }),
};

export const noSnat: Suite = {
  'Should be able to send traffic between Pods without SNAT': async (jig) => {
    const pods = await jig.servers('no-snat-test', 3);
    for (const source of pods)
      for (const target of pods.filter((pod) => pod !== source))
        for (const family of ['v4', 'v6'] as const) {
          const ask = { ...at(target.addresses[family], 80), path: 'clientip' };
          assert.equal(await textOf(source, ask), source.addresses[family]);
        }
  },
};

export const serviceCidrs: Suite = {
  'should create Services and serve on different Service CIDRs': async (jig) => {
    const spec = { cidrs: ['198.51.100.0/24'] };
    await jig.cluster.api.create({ kind: 'ServiceCIDR', metadata: { name: 'test-svc-cidr' }, spec });
    const service = await jig.service('cidr1-test', { type: 'NodePort', clusterIP: '198.51.100.10' });
    assert.equal(service.spec.clusterIP, '198.51.100.10');
    await jig.servers('cidr1-test', 2);
    await jig.isReachable(service, await jig.client());
    await jig.cluster.api.remove('ServiceCIDR', 'test-svc-cidr');
  },
};
