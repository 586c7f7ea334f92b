/** The ports that are served of a Service, as kube-proxy's tests of its map of Services have them; rows have their names. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAMILIES, type Family } from '../../../src/base/address.ts';
import type { ServicePort } from '../../../src/proxy/model/service-port.ts';
import { service } from '../../helpers/cluster/objects.ts';
import { FakeIptables } from '../../helpers/kernel/fake-iptables.ts';
import { Rig } from '../../helpers/proxy/rig.ts';

const [V4, V6] = ['10.0.0.1', '2001:db8:85a3::8a2e:370:7334'];
const [EXTERNAL_4, EXTERNAL_6] = ['8.8.8.8', '2001:db8:85a3::8a2e:370:7335'];
const [RANGE_4, RANGE_6] = ['0.0.0.0/1', '2001:db8::/32'];
const BOTH_INGRESS = { loadBalancer: { ingress: [{ ip: EXTERNAL_4 }, { ip: EXTERNAL_6 }] } };

type Ports = readonly (readonly [name: string, protocol: string, port: number, nodePort?: number])[];

function made(spec: Record<string, unknown>, ports: Ports, status?: Record<string, unknown>): object {
  const list = ports.map(([name, protocol, port, nodePort = 0]) => ({ name, protocol, port, nodePort }));
  const whole = { ...spec, ports: list };
  return service({ name: 'svc', namespace: 'ns', spec: whole, ...(status === undefined ? {} : { status }) });
}

function balancer(ip: object, spec: Record<string, unknown> = {}): object {
  const base = { type: 'LoadBalancer', clusterIP: '172.16.55.11', loadBalancerIP: '5.6.7.8' };
  const ports: Ports = [
    ['port3', 'UDP', 8675, 30_061],
    ['port4', 'UDP', 8676, 30_062],
  ];
  return made({ ...base, ...spec }, ports, { loadBalancer: { ingress: [ip] } });
}

function textOf({ id, protocol, frontends, sourceRanges, healthCheckNodePort }: ServicePort): string {
  const places = frontends.map(({ role, address, port }) => `${role} ${address ?? '*'} ${port}`);
  const ranges = sourceRanges === undefined ? [] : [`from ${sourceRanges.join(',')}`];
  const health = healthCheckNodePort === 0 ? [] : [`health ${healthCheckNodePort}`];
  return `${id.split(':')[1]}/${protocol}: ${[...places, ...ranges, ...health].join(', ')}`;
}

function portsOf({ model }: Rig, family: Family): string[] {
  return [...model.ports.values()].filter((port) => port.family === family).map(textOf);
}

async function rigWith(...objects: object[]): Promise<Rig> {
  const rig = new Rig({ commands: new FakeIptables(), families: FAMILIES }).put(...objects);
  assert.equal((await rig.sync()).outcome, 'complete');
  return rig;
}

const dual = (clusterIP: string, external: Record<string, unknown> = {}) =>
  made({ clusterIP, type: 'LoadBalancer', ...external }, [['p', 'TCP', 12_345]], BOTH_INGRESS);
const filtered = { externalIPs: [EXTERNAL_4, EXTERNAL_6], loadBalancerSourceRanges: [RANGE_4, RANGE_6] };
// An address that is both is one of the load balancer (docs/semantics.md 1.14).
const own = (clusterIP: string, ip: string, range: string) => [
  `p/TCP: cluster-ip ${clusterIP} 12345, load-balancer ${ip} 12345, from ${range}`,
];
const plain = (ip?: string) =>
  [8675, 8676].map((port, i) => {
    const address = ip === undefined ? '' : `, load-balancer ${ip} ${port}`;
    return `port${3 + i}/UDP: cluster-ip 172.16.55.11 ${port}${address}, node-port * ${30_061 + i}`;
  });

const ROWS: Readonly<Record<string, readonly [object, Family, readonly string[]]>> = {
  'headless service': [made({ clusterIP: 'None' }, [['rpc', 'UDP', 1234]]), 'IPv4', []],
  'headless sctp service': [made({ clusterIP: 'None' }, [['sip', 'SCTP', 7777]]), 'IPv4', []],
  'headless service without port': [made({ clusterIP: 'None' }, []), 'IPv4', []],
  'cluster ip service': [
    made({ clusterIP: '172.16.55.4' }, [
      ['p1', 'UDP', 1234],
      ['p2', 'UDP', 1235],
    ]),
    'IPv4',
    ['p1/UDP: cluster-ip 172.16.55.4 1234', 'p2/UDP: cluster-ip 172.16.55.4 1235'],
  ],
  'nodeport service': [
    made({ type: 'NodePort', clusterIP: '172.16.55.10' }, [
      ['port1', 'UDP', 345, 678],
      ['port2', 'TCP', 344, 677],
    ]),
    'IPv4',
    [
      'port1/UDP: cluster-ip 172.16.55.10 345, node-port * 678',
      'port2/TCP: cluster-ip 172.16.55.10 344, node-port * 677',
    ],
  ],
  'load balancer service': [balancer({ ip: '10.1.2.4' }), 'IPv4', plain('10.1.2.4')],
  'load balancer service ipMode VIP': [balancer({ ip: '10.1.2.4', ipMode: 'VIP' }), 'IPv4', plain('10.1.2.4')],
  'load balancer service ipMode Proxy': [balancer({ ip: '10.1.2.4', ipMode: 'Proxy' }), 'IPv4', plain()],
  'load balancer service with only local traffic policy': [
    balancer({ ip: '10.1.2.3' }, { externalTrafficPolicy: 'Local', healthCheckNodePort: 345 }),
    'IPv4',
    plain('10.1.2.3').map((text) => `${text}, health 345`),
  ],
  'external name service': [
    made({ type: 'ExternalName', clusterIP: '172.16.55.4', externalName: 'foo2.bar.com' }, [['portz', 'UDP', 1235]]),
    'IPv4',
    [],
  ],
  'service with ipv6 clusterIP under ipv4 mode, service should be filtered': [dual(V6), 'IPv4', []],
  'service with ipv4 clusterIP under ipv6 mode, service should be filtered': [dual(V4), 'IPv6', []],
  'service with ipv4 configurations under ipv4 mode': [
    dual(V4, { externalIPs: [EXTERNAL_4], loadBalancerSourceRanges: [RANGE_4] }),
    'IPv4',
    own(V4, EXTERNAL_4, RANGE_4),
  ],
  'service with ipv6 configurations under ipv6 mode': [
    dual(V6, { externalIPs: [EXTERNAL_6], loadBalancerSourceRanges: [RANGE_6] }),
    'IPv6',
    own(V6, EXTERNAL_6, RANGE_6),
  ],
  'service with both ipv4 and ipv6 configurations under ipv4 mode, ipv6 fields should be filtered': [
    dual(V4, filtered),
    'IPv4',
    own(V4, EXTERNAL_4, RANGE_4),
  ],
  'service with both ipv4 and ipv6 configurations under ipv6 mode, ipv4 fields should be filtered': [
    dual(V6, filtered),
    'IPv6',
    own(V6, EXTERNAL_6, RANGE_6),
  ],
  'service with extra space in LoadBalancerSourceRanges': [
    made({ clusterIP: V4, loadBalancerSourceRanges: [' 10.1.2.0/28'] }, [['p', 'TCP', 12_345]]),
    'IPv4',
    [`p/TCP: cluster-ip ${V4} 12345, from 10.1.2.0/28`],
  ],
};

describe('ports of a Service', () => {
  for (const [title, [object, family, ports]] of Object.entries(ROWS)) {
    it(title, async () => {
      assert.deepEqual(portsOf(await rigWith(object), family), ports);
    });
  }
});

describe('Services that come, change and go', () => {
  const named = (name: string, object: object) => {
    const whole = object as { metadata: Record<string, unknown> };
    return { ...whole, metadata: { ...whole.metadata, name } };
  };
  const local = { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 345 };
  const health = ({ model }: Rig) =>
    new Set(
      [...model.ports.values()].flatMap((port) => (port.healthCheckNodePort === 0 ? [] : [port.healthCheckNodePort])),
    );

  it('have a port of the map for each of theirs, and a health check port where policy Local asks for it', async () => {
    const clusterIP: Ports = [
      ['something', 'UDP', 1234, 4321],
      ['somethingelse', 'UDP', 1235, 5321],
      ['sctpport', 'SCTP', 1236, 6321],
    ];
    const nodePort: Ports = [
      ['blahblah', 'UDP', 345, 678],
      ['moreblahblah', 'TCP', 344, 677],
      ['muchmoreblah', 'SCTP', 343, 676],
    ];
    const rig = await rigWith(
      named('cluster-ip', made({ clusterIP: '172.30.55.4' }, clusterIP)),
      named('node-port', made({ type: 'NodePort', clusterIP: '172.30.55.10' }, nodePort)),
      named('load-balancer', balancer({ ip: '1.2.3.4' })),
      named(
        'only-local',
        made({ ...local, clusterIP: '172.30.55.12' }, [
          ['foobar2', 'UDP', 8677, 30_063],
          ['baz', 'UDP', 8678, 30_064],
        ]),
      ),
    );
    assert.equal(rig.model.ports.size, 10);
    assert.deepEqual(health(rig), new Set([345]));
    rig.put(named('cluster-ip', made({ clusterIP: '172.30.55.4' }, [['somethingelse', 'UDP', 1235, 5321]])));
    for (const name of ['node-port', 'load-balancer', 'only-local']) rig.remove('Service', `ns/${name}`);
    await rig.sync();
    assert.deepEqual(
      [...rig.model.ports.values()].map(({ id }) => id),
      ['ns/cluster-ip:somethingelse'],
    );
    assert.deepEqual(health(rig), new Set());
  });

  it('change their type and back, and an equal Service is no change', async () => {
    const ports: Ports = [
      ['something', 'UDP', 1234, 4321],
      ['somethingelse', 'TCP', 1235, 5321],
    ];
    const first = made({ clusterIP: '172.30.55.4' }, ports);
    const second = made({ ...local, clusterIP: '172.30.55.4' }, ports, {
      loadBalancer: { ingress: [{ ip: '1.2.3.4' }] },
    });
    const rig = await rigWith(first);
    const steps: readonly (readonly [object, boolean, number[]])[] = [
      [second, true, [345]],
      [second, false, [345]],
      [first, true, []],
    ];
    for (const [object, isChange, checks] of steps) {
      rig.put(object);
      assert.equal(rig.cache.hasChanges, isChange);
      await rig.sync();
      assert.equal(rig.model.ports.size, 2);
      assert.deepEqual(health(rig), new Set(checks));
    }
  });

  it('leave nothing when they come and go before a sync', async () => {
    const rig = await rigWith();
    rig.put(balancer({ ip: '1.2.3.4' })).remove('Service', 'ns/svc');
    await rig.sync();
    assert.equal(rig.model.ports.size, 0);
    assert.equal(rig.cache.serviceCount, 0);
    assert.equal(rig.cache.hasChanges, false);
  });
});
