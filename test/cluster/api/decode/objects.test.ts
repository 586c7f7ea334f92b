/** What becomes of each field of an API object, and of what is wrong in it (docs/semantics.md 1 and 2). */
import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { objectKey } from '../../../../src/cluster/api/decode/checks.ts';
import { decodeNode } from '../../../../src/cluster/api/decode/node.ts';
import { decodeService } from '../../../../src/cluster/api/decode/service.ts';
import { decodeSlice } from '../../../../src/cluster/api/decode/slice.ts';
import { type Fault, faultText, type NodeView, type Service, type Slice } from '../../../../src/proxy/model/objects.ts';
import { OBJECTS } from '../../../messages/objects.ts';
import { problemIn } from '../../../messages/row.ts';

type Fields = Record<string, unknown>;

const SERVICE = 'Service shop/web: spec';
const SLICE = 'EndpointSlice shop/web-x:';
const NUMBER = problemIn(OBJECTS, `${SERVICE}.ports[0].port: 70000`);
const NAME = problemIn(OBJECTS, `${SERVICE}.ports[0].name: HTTP`);
const PROTOCOL = problemIn(OBJECTS, `${SERVICE}.ports[0].protocol: HTTP`);
const NO_PORT = problemIn(OBJECTS, `${SERVICE}.ports`, 'must list');
const SAME_FAMILY = problemIn(OBJECTS, `${SERVICE}.clusterIPs[1]: 10.96.0.2`);
const RANGE = problemIn(OBJECTS, `${SERVICE}.loadBalancerSourceRanges[0]: 10.0.0.1`);
const TYPE = problemIn(OBJECTS, `${SERVICE}.type: Balancer`);
const POLICY = problemIn(OBJECTS, `${SERVICE}.externalTrafficPolicy: local`);
const AFFINITY = problemIn(OBJECTS, `${SERVICE}.sessionAffinity: Cookie`);
const NO_TIMEOUT = problemIn(OBJECTS, `${SERVICE}.sessionAffinityConfig.clientIP.timeoutSeconds`, 'is missing');
const TIMEOUT = problemIn(OBJECTS, `${SERVICE}.sessionAffinityConfig.clientIP.timeoutSeconds: 0`);
const REPEATED = problemIn(OBJECTS, `${SERVICE}.ports[1]: b TCP 80`);
const SECOND_NODE_PORT = problemIn(OBJECTS, `${SERVICE}.ports[1].nodePort: 30000`);
const HOST_NAME = problemIn(OBJECTS, 'Service shop/web: status.loadBalancer.ingress[0].hostname: lb.example.com');
const HOST_NAMES = problemIn(OBJECTS, `${SLICE} addressType: FQDN`);
const OWNER = problemIn(OBJECTS, `${SLICE} metadata.labels[kubernetes.io/service-name]`);
const HINT = problemIn(OBJECTS, `${SLICE} endpoints[0].hints.forZones[0].name: -`);

interface Decoded<T> {
  readonly value: T | undefined;
  readonly faults: readonly Fault[];
  /** The faults as an operator reads them. */
  readonly texts: readonly string[];
}

const PORT = { name: 'http', port: 80 };

function decodedService(spec: Fields, more: Fields = {}): Decoded<Service> {
  const metadata = { name: 'web', namespace: 'default' };
  return decodedServiceObject({ metadata, spec: { clusterIP: '10.96.0.1', ports: [PORT], ...spec }, ...more });
}

function decodedServiceObject(object: unknown): Decoded<Service> {
  const event = decodeService(object, 'default/web');
  assert.ok(event.kind === 'service' && event.key === 'default/web');
  return { value: event.service, faults: event.faults, texts: event.faults.map(faultText) };
}

function withScheduler(text: string): Decoded<Service> {
  const annotations = { 'slicewire.dev/ipvs-scheduler': text };
  const metadata = { name: 'web', namespace: 'default', annotations };
  return decodedServiceObject({ metadata, spec: { clusterIP: '10.96.0.1', ports: [PORT] } });
}

test('the scheduler of a Service is an annotation', () => {
  assert.equal(withScheduler('mh').value?.ipvsScheduler, 'mh');
  assert.equal(withScheduler(' sh, sh-port ').value?.ipvsScheduler, 'sh,sh-port');
  assert.equal('ipvsScheduler' in (decodedService({}).value ?? {}), false);
  const { value, texts } = withScheduler('best');
  assert.equal(value?.ipvsScheduler, undefined);
  assert.deepEqual(texts, [
    'Service default/web: metadata.annotations["slicewire.dev/ipvs-scheduler"]: best: must begin with a scheduler of IPVS: rr, wrr, lc, wlc, lblc, lblcr, dh, sh, sed, nq, fo, ovf, mh, twos; the scheduler of the node is used (default used)',
  ]);
});

function decodedSlice(fields: Fields, labels: Fields = { 'kubernetes.io/service-name': 'web' }): Decoded<Slice> {
  const metadata = { name: 'web-1', namespace: 'default', labels };
  const event = decodeSlice({ metadata, addressType: 'IPv4', ports: [PORT], ...fields }, 'default/web-1');
  assert.ok(event.kind === 'slice' && event.key === 'default/web-1');
  return { value: event.slice, faults: event.faults, texts: event.faults.map(faultText) };
}

function decodedNode(fields: Fields, labels: Fields = {}): Decoded<NodeView> {
  const event = decodeNode({ metadata: { name: 'node-a', labels }, ...fields }, 'node-a');
  assert.ok(event.kind === 'node' && event.key === 'node-a');
  return { value: event.node, faults: event.faults, texts: event.faults.map(faultText) };
}

describe('a Service', () => {
  test('has every field that the proxy reads', () => {
    const { value, texts } = decodedServiceObject({
      metadata: { name: 'web', namespace: 'default', creationTimestamp: '2026-11-21T00:00:01Z' },
      spec: {
        type: 'LoadBalancer',
        clusterIP: '10.96.0.1',
        clusterIPs: ['10.96.0.1', 'FD00:0::1'],
        ipFamilies: ['IPv4', 'IPv6'],
        externalIPs: ['192.0.2.1', '2001:db8::1'],
        loadBalancerSourceRanges: ['192.0.2.7/24', ' 2001:db8::/32 '],
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
        internalTrafficPolicy: 'Local',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 32_000,
        ports: [
          { name: 'a', port: 80, nodePort: 30_080, targetPort: 8080 },
          { name: 'b', port: 80, protocol: 'UDP' },
          { name: 'c', port: 81, protocol: 'SCTP' },
        ],
      },
      status: { loadBalancer: { ingress: [{ ip: '198.51.100.1', ipMode: 'VIP' }, { ip: '2001:db8::2' }] } },
    });
    assert.deepEqual(texts, []);
    assert.deepEqual(value, {
      key: 'default/web',
      createdAt: Date.UTC(2026, 10, 21, 0, 0, 1),
      type: 'LoadBalancer',
      clusterIPs: ['10.96.0.1', 'fd00::1'],
      externalIPs: ['192.0.2.1', '2001:db8::1'],
      loadBalancerIPs: ['198.51.100.1', '2001:db8::2'],
      sourceRanges: ['192.0.2.0/24', '2001:db8::/32'],
      ports: [
        { name: 'a', protocol: 'TCP', port: 80, nodePort: 30_080 },
        { name: 'b', protocol: 'UDP', port: 80, nodePort: 0 },
        { name: 'c', protocol: 'SCTP', port: 81, nodePort: 0 },
      ],
      internalTrafficPolicy: 'Local',
      externalTrafficPolicy: 'Local',
      affinitySeconds: 60,
      healthCheckNodePort: 32_000,
    });
  });

  test('has the defaults where it has the fewest fields', () => {
    const { value, texts } = decodedServiceObject({
      metadata: { name: 'web' },
      spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }] },
    });
    assert.deepEqual(texts, []);
    assert.deepEqual(value, {
      key: 'default/web',
      createdAt: 0,
      type: 'ClusterIP',
      clusterIPs: ['10.96.0.1'],
      externalIPs: [],
      loadBalancerIPs: [],
      sourceRanges: undefined,
      ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      affinitySeconds: 0,
      healthCheckNodePort: 0,
    });
  });

  const label = (value: string, name = 'service-proxy-name') => ({
    metadata: { name: 'web', labels: { [`service.kubernetes.io/${name}`]: value } },
  });
  for (const [what, spec, more] of [
    ['headless', { clusterIP: 'None' }],
    ['headless, in clusterIPs', { clusterIP: 'None', clusterIPs: ['None'] }],
    ['headless without ports', { clusterIP: 'None', ports: undefined }],
    ['without a cluster IP yet', { clusterIP: '' }],
    ['without the field clusterIP', { clusterIP: undefined }],
    ['ExternalName', { type: 'ExternalName', externalName: 'example.com' }],
    ['ExternalName with a cluster IP of before', { type: 'ExternalName', ports: [{ port: 0 }] }],
    ["another proxy's", {}, label('other')],
    ["another proxy's, with an empty name", {}, label('')],
    ['labelled as headless, with a cluster IP', {}, label('', 'headless')],
    ['labelled as headless, whatever the value', {}, label('false', 'headless')],
  ] as [string, Fields, Fields?][]) {
    test(`${what} is skipped without a fault`, () => {
      assert.deepEqual(decodedService(spec, more), { value: undefined, faults: [], texts: [] });
    });
  }
});

describe('cluster IPs (docs/semantics.md 1.2)', () => {
  for (const [what, spec, wanted] of [
    [
      'come from clusterIPs when it is there',
      { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1', 'fd00::1'] },
      ['10.0.0.1', 'fd00::1'],
    ],
    ['of IPv6 first', { clusterIPs: ['fd00::1', '10.0.0.1'], ipFamilies: ['IPv6', 'IPv4'] }, ['fd00::1', '10.0.0.1']],
    ['come from clusterIP when clusterIPs is empty', { clusterIPs: [] }, ['10.96.0.1']],
    ['with leading zeros are read as decimal', { clusterIP: '010.096.0.01' }, ['10.96.0.1']],
    ['of mapped form are IPv4', { clusterIP: '::ffff:10.96.0.1' }, ['10.96.0.1']],
  ] as [string, Fields, string[]][]) {
    test(what, () => {
      const { value, texts } = decodedService(spec);
      assert.deepEqual(texts, []);
      assert.deepEqual(value?.clusterIPs, wanted);
    });
  }
});

describe('a Service is set aside with one fault', () => {
  const badPort = (port: Fields) => ({ ports: [{ ...PORT, ...port }] });
  test('an empty hint, which kube-controller-manager 1.32 writes, without a fault', () => {
    const hints = { forZones: [{ name: '' }, { name: 'a' }], forNodes: [{ name: '' }] };
    const { value, texts } = decodedSlice({ endpoints: [{ addresses: ['10.244.1.1'], hints }] });
    assert.deepEqual([value?.endpoints[0]?.zoneHints, value?.endpoints[0]?.nodeHints, texts], [['a'], [], []]);
  });

  const set = 'object set aside';
  for (const [spec, text] of [
    [badPort({ port: 0 }), `spec.ports[0].port: 0: ${NUMBER}`],
    [badPort({ port: 70_000 }), `spec.ports[0].port: 70000: ${NUMBER}`],
    [badPort({ port: -1 }), `spec.ports[0].port: -1: ${NUMBER}`],
    [badPort({ port: 1.5 }), `spec.ports[0].port: 1.5: ${NUMBER}`],
    [badPort({ nodePort: 70_000 }), `spec.ports[0].nodePort: 70000: ${NUMBER}`],
    [badPort({ nodePort: -3 }), `spec.ports[0].nodePort: -3: ${NUMBER}`],
    [badPort({ nodePort: 0.5 }), `spec.ports[0].nodePort: 0.5: ${NUMBER}`],
    [badPort({ protocol: 'ICMP' }), `spec.ports[0].protocol: ICMP: ${PROTOCOL}`],
    [badPort({ protocol: 'tcp' }), `spec.ports[0].protocol: tcp: ${PROTOCOL}`],
    [badPort({ protocol: 'constructor' }), `spec.ports[0].protocol: constructor: ${PROTOCOL}`],
    [badPort({ name: 'a;reboot' }), `spec.ports[0].name: a;reboot: ${NAME}`],
    [badPort({ name: '$(reboot)' }), `spec.ports[0].name: $(reboot): ${NAME}`],
    [badPort({ name: 'a b' }), `spec.ports[0].name: a b: ${NAME}`],
    [badPort({ name: 'a"' }), `spec.ports[0].name: a": ${NAME}`],
    [badPort({ name: 'a\n-A INPUT -j DROP' }), `spec.ports[0].name: a?-A INPUT -j DROP: ${NAME}`],
    [badPort({ name: 'a\n' }), `spec.ports[0].name: a?: ${NAME}`],
    [badPort({ name: 'a\u2028b\x1b[2J' }), `spec.ports[0].name: a?b?[2J: ${NAME}`],
    [badPort({ name: '-a' }), `spec.ports[0].name: -a: ${NAME}`],
    [badPort({ name: 'A' }), `spec.ports[0].name: A: ${NAME}`],
    [badPort({ name: 'a.b' }), `spec.ports[0].name: a.b: ${NAME}`],
    [badPort({ name: 'x'.repeat(64) }), `spec.ports[0].name: ${'x'.repeat(64)}: ${NAME}`],
    [badPort({ name: 'x'.repeat(500) }), `spec.ports[0].name: ${'x'.repeat(80)}…: ${NAME}`],
    [{ clusterIP: '10.96.0' }, 'spec.clusterIP: 10.96.0: must be an IP address'],
    [{ clusterIP: '10.96.0.256' }, 'spec.clusterIP: 10.96.0.256: must be an IP address'],
    [{ clusterIP: '10.96.0.1/24' }, 'spec.clusterIP: 10.96.0.1/24: must be an IP address'],
    [{ clusterIP: 'fe80::1%eth0' }, 'spec.clusterIP: fe80::1%eth0: must be an IP address'],
    [{ clusterIP: '10.96.0.1\n' }, 'spec.clusterIP: 10.96.0.1?: must be an IP address'],
    [{ clusterIP: 'web' }, 'spec.clusterIP: web: must be an IP address'],
    [{ clusterIPs: ['10.96.0.1', 'x'] }, 'spec.clusterIPs[1]: x: must be an IP address'],
    [{ clusterIPs: ['10.96.0.1', '10.96.0.2'] }, `spec.clusterIPs[1]: 10.96.0.2: ${SAME_FAMILY}`],
    [
      { clusterIP: 'fd00::1', ipFamilies: ['IPv4'] },
      'spec.clusterIP: fd00::1: must be an IPv4 address, as spec.ipFamilies[0] says',
    ],
    [{ ports: [] }, `spec.ports: ${NO_PORT}`],
    [{ ports: undefined }, `spec.ports: ${NO_PORT}`],
  ] as [Fields, string][]) {
    test(text, () => {
      const { value, texts } = decodedService(spec);
      assert.deepEqual(texts, [`Service default/web: ${text} (${set})`]);
      assert.equal(value, undefined);
    });
  }

  for (const [what, object, field, value] of [
    ['no object', null, '', 'null'],
    ['a text', 'web', '', 'web'],
    ['a list', [], '', '[]'],
    ['without metadata', { spec: {} }, 'metadata', ''],
    [
      'a port that is a text',
      { metadata: { name: 'web' }, spec: { ports: [{ port: '80' }] } },
      'spec.ports[0].port',
      '80',
    ],
    ['a port that is not there', { metadata: { name: 'web' }, spec: { ports: [{}] } }, 'spec.ports[0].port', ''],
    [
      'ports that are no list',
      { metadata: { name: 'web' }, spec: { ports: { port: 80 } } },
      'spec.ports',
      '{"port":80}',
    ],
    ['a label that is a number', { metadata: { name: 'web', labels: { a: 7 } } }, 'metadata.labels.a', '7'],
  ] as [string, unknown, string, string][]) {
    test(`of the shape: ${what}`, () => {
      const { value: service, faults } = decodedServiceObject(object);
      assert.equal(service, undefined);
      assert.deepEqual(
        faults.map((fault) => [fault.kind, fault.object, fault.field, fault.value, fault.effect]),
        [['Service', 'default/web', field, value, set]],
      );
    });
  }
});

describe('a part of a Service is left out with one fault, and the rest stays', () => {
  for (const [spec, text, field, wanted] of [
    [
      { externalIPs: ['192.0.2.1', 'x'] },
      'spec.externalIPs[1]: x: must be an IP address (part left out)',
      'externalIPs',
      ['192.0.2.1'],
    ],
    [
      { loadBalancerSourceRanges: ['192.0.2.0/33', '198.51.100.0/24'] },
      `spec.loadBalancerSourceRanges[0]: 192.0.2.0/33: ${RANGE} (part left out)`,
      'sourceRanges',
      ['198.51.100.0/24'],
    ],
    [
      { loadBalancerSourceRanges: ['192.0.2.1', '198.51.100.0/24'] },
      `spec.loadBalancerSourceRanges[0]: 192.0.2.1: ${RANGE} (part left out)`,
      'sourceRanges',
      ['198.51.100.0/24'],
    ],
    [{ type: 'Balancer' }, `spec.type: Balancer: ${TYPE} (default used)`, 'type', 'ClusterIP'],
    [
      { internalTrafficPolicy: 'local' },
      `spec.internalTrafficPolicy: local: ${POLICY} (default used)`,
      'internalTrafficPolicy',
      'Cluster',
    ],
    [
      { externalTrafficPolicy: 'None' },
      `spec.externalTrafficPolicy: None: ${POLICY} (default used)`,
      'externalTrafficPolicy',
      'Cluster',
    ],
    [{ sessionAffinity: 'Cookie' }, `spec.sessionAffinity: Cookie: ${AFFINITY} (default used)`, 'affinitySeconds', 0],
    ...[{}, { sessionAffinityConfig: {} }, { sessionAffinityConfig: { clientIP: { timeoutSeconds: null } } }].map(
      (config) => [
        { sessionAffinity: 'ClientIP', ...config },
        `spec.sessionAffinityConfig.clientIP.timeoutSeconds: ${NO_TIMEOUT} (default used)`,
        'affinitySeconds',
        10_800,
      ],
    ),
    ...[0, -1, 86_401, 1.5].map((seconds) => [
      { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: seconds } } },
      `spec.sessionAffinityConfig.clientIP.timeoutSeconds: ${seconds}: ${TIMEOUT} (default used)`,
      'affinitySeconds',
      10_800,
    ]),
    [
      { healthCheckNodePort: 70_000 },
      `spec.healthCheckNodePort: 70000: ${NUMBER} (part left out)`,
      'healthCheckNodePort',
      0,
    ],
    [
      { ports: [PORT, { name: 'b', port: 80 }] },
      `spec.ports[1]: b TCP 80: ${REPEATED} (part left out)`,
      'ports',
      [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 0 }],
    ],
    [
      { ports: [PORT, { name: 'http', port: 81 }] },
      `spec.ports[1]: http TCP 81: ${REPEATED} (part left out)`,
      'ports',
      [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 0 }],
    ],
  ] as [Fields, string, keyof Service, unknown][]) {
    test(text, () => {
      const { value, texts } = decodedService(spec);
      assert.deepEqual(texts, [`Service default/web: ${text}`]);
      assert.deepEqual(value, { ...decodedService({}).value, [field]: wanted });
    });
  }

  test('an ingress address that is none', () => {
    const ingress = [{ ip: 'x' }, { ip: '198.51.100.1' }];
    const { value, texts } = decodedService({}, { status: { loadBalancer: { ingress } } });
    assert.deepEqual(texts, [
      'Service default/web: status.loadBalancer.ingress[0].ip: x: must be an IP address (part left out)',
    ]);
    assert.deepEqual(value?.loadBalancerIPs, ['198.51.100.1']);
  });

  test('several faults are all reported', () => {
    const { value, texts } = decodedService({ externalIPs: ['x', 'y'], internalTrafficPolicy: 'z' });
    assert.equal(texts.length, 3);
    assert.notEqual(value, undefined);
  });

  test('each of several bad ports is reported', () => {
    const { value, texts } = decodedService({ ports: [{ port: 0 }, PORT, { name: 'b', port: 99_999 }] });
    assert.deepEqual(
      texts.map((text) => text.split(':')[1]?.trim()),
      ['spec.ports[0].port', 'spec.ports[2].port'],
    );
    assert.equal(value, undefined);
  });
});

describe('what is right though it looks wrong', () => {
  for (const [what, spec, field, wanted] of [
    [
      'a timeout without ClientIP is not used',
      { sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } },
      'affinitySeconds',
      0,
    ],
    ['an empty list of source ranges is none', { loadBalancerSourceRanges: [] }, 'sourceRanges', undefined],
    [
      'a source range of length 0 among others is kept: it opens its own family',
      { loadBalancerSourceRanges: ['10.0.0.0/8', '::/0'] },
      'sourceRanges',
      ['10.0.0.0/8', '::/0'],
    ],
    [
      'a nodePort is taken whatever the type is',
      { ports: [{ ...PORT, nodePort: 30_000 }] },
      'ports',
      [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30_000 }],
    ],
    ['one external IP twice is one', { externalIPs: ['192.0.2.1', '192.0.2.001'] }, 'externalIPs', ['192.0.2.1']],
    [
      'policies that are null or empty are Cluster',
      { internalTrafficPolicy: null, externalTrafficPolicy: '' },
      'externalTrafficPolicy',
      'Cluster',
    ],
    [
      'lists that are null are empty',
      { externalIPs: null, loadBalancerSourceRanges: null, clusterIPs: null },
      'externalIPs',
      [],
    ],
  ] as [string, Fields, keyof Service, unknown][]) {
    test(what, () => {
      const { value, texts } = decodedService(spec);
      assert.deepEqual(texts, []);
      assert.deepEqual(value?.[field], wanted);
    });
  }

  test('ingress with a host name, or of ipMode Proxy, is not programmed', () => {
    const ingress = [{ hostname: 'lb.example.com' }, { ip: '198.51.100.1', ipMode: 'Proxy' }, { ip: '' }, {}];
    const { value, texts } = decodedService({}, { status: { loadBalancer: { ingress } } });
    assert.deepEqual(value?.loadBalancerIPs, []);
    assert.deepEqual(texts, [
      `Service default/web: status.loadBalancer.ingress[0].hostname: lb.example.com: ${HOST_NAME} (no effect here)`,
    ]);
  });

  test('an ipMode that does not exist leaves the address out', () => {
    const ingress = [{ ip: '198.51.100.1', ipMode: 'Maybe' }, { ip: '198.51.100.2' }];
    const { value, texts } = decodedService({}, { status: { loadBalancer: { ingress } } });
    assert.deepEqual(value?.loadBalancerIPs, ['198.51.100.2']);
    assert.deepEqual(texts, [
      'Service default/web: status.loadBalancer.ingress[0].ipMode: Maybe: must be VIP or Proxy (part left out)',
    ]);
  });

  test('a node port that is there twice is left out the second time, but for another protocol', () => {
    const ports = ['TCP', 'TCP', 'UDP'].map((protocol, i) => ({
      name: `p${i}`,
      port: 80 + i,
      protocol,
      nodePort: 30_080,
    }));
    const { value, texts } = decodedService({ ports });
    assert.deepEqual(
      value?.ports.map(({ nodePort }) => nodePort),
      [30_080, 0, 30_080],
    );
    assert.deepEqual(texts, [
      `Service default/web: spec.ports[1].nodePort: 30080: ${SECOND_NODE_PORT} (part left out)`,
    ]);
  });

  test('source ranges without a valid one admit no client', () => {
    const { value } = decodedService({ loadBalancerSourceRanges: ['10.0.0.0/99'] });
    assert.deepEqual(value?.sourceRanges, []);
  });

  test('the annotation form of source ranges is not read', () => {
    const annotations = { 'service.beta.kubernetes.io/load-balancer-source-ranges': '10.0.0.0/8' };
    const { value, texts } = decodedService({}, { metadata: { name: 'web', annotations } });
    assert.deepEqual([value?.sourceRanges, texts], [undefined, []]);
  });

  test('a creation time that is none is unknown', () => {
    const { value } = decodedService({}, { metadata: { name: 'web', creationTimestamp: 'yesterday' } });
    assert.equal(value?.createdAt, 0);
  });

  test('a status without a load balancer, or null', () => {
    for (const status of [null, {}, { loadBalancer: null }, { loadBalancer: { ingress: null } }]) {
      assert.deepEqual(decodedService({}, { status }).texts, []);
    }
  });

  // The API takes null for a field that is not there; so does YAML with nothing after the colon.
  for (const field of ['type', 'clusterIP', 'sessionAffinity', 'healthCheckNodePort'] as const) {
    test(`the field ${field} that is null is a field that is not there`, () => {
      const spec = { clusterIPs: ['10.96.0.1'] };
      assert.deepEqual(decodedService({ ...spec, [field]: null }), decodedService({ ...spec, [field]: undefined }));
    });
  }
  for (const field of ['name', 'protocol', 'nodePort'] as const) {
    test(`the field ports.${field} that is null is a field that is not there`, () => {
      const { value, texts } = decodedService({ ports: [{ port: 80, [field]: null }] });
      assert.deepEqual([texts, value?.ports], [[], [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }]]);
    });
  }
});

describe('a slice', () => {
  test('has every field that the proxy reads', () => {
    const { value, texts } = decodedSlice({
      ports: [
        { name: 'http', port: 8080 },
        { name: 'dns', port: 53, protocol: 'UDP' },
        { name: '', port: 1, protocol: 'SCTP' },
      ],
      endpoints: [
        {
          addresses: ['10.0.0.1', '10.0.0.9'],
          conditions: { ready: false, serving: false, terminating: true },
          nodeName: 'node-a',
          zone: 'z',
          hints: { forZones: [{ name: 'z1' }, { name: 'z2' }], forNodes: [{ name: 'n1' }] },
        },
      ],
    });
    assert.deepEqual(texts, []);
    assert.deepEqual(value, {
      key: 'default/web-1',
      service: 'default/web',
      family: 'IPv4',
      ports: [
        { name: 'http', protocol: 'TCP', port: 8080 },
        { name: 'dns', protocol: 'UDP', port: 53 },
        { name: '', protocol: 'SCTP', port: 1 },
      ],
      endpoints: [
        {
          address: '10.0.0.1',
          ready: false,
          serving: false,
          terminating: true,
          nodeName: 'node-a',
          zoneHints: ['z1', 'z2'],
          nodeHints: ['n1'],
        },
      ],
    });
  });

  for (const conditions of [undefined, null, {}, { ready: null, serving: null, terminating: null }]) {
    test(`with conditions ${JSON.stringify(conditions)}: ready, serving, not terminating (docs/semantics.md 2.3)`, () => {
      const { value, texts } = decodedSlice({ endpoints: [{ addresses: ['10.0.0.1'], conditions }] });
      assert.deepEqual(texts, []);
      const [endpoint] = value?.endpoints ?? [];
      assert.deepEqual([endpoint?.ready, endpoint?.serving, endpoint?.terminating], [true, true, false]);
    });
  }

  test('of IPv6 has canonical addresses', () => {
    const { value, texts } = decodedSlice({ addressType: 'IPv6', endpoints: [{ addresses: ['FD00:0:0::A'] }] });
    assert.deepEqual([value?.family, value?.endpoints[0]?.address, texts], ['IPv6', 'fd00::a', []]);
  });

  test('without ports and endpoints is there, and empty', () => {
    for (const nothing of [undefined, null, []]) {
      const { value, texts } = decodedSlice({ ports: nothing, endpoints: nothing });
      assert.deepEqual([value?.ports, value?.endpoints, texts], [[], [], []]);
    }
  });

  test('of a headless Service or for another proxy is skipped without a fault, and of host names with a notice', () => {
    for (const mark of ['headless', 'service-proxy-name']) {
      const labels = { 'kubernetes.io/service-name': 'web', [`service.kubernetes.io/${mark}`]: '' };
      assert.deepEqual(decodedSlice({}, labels), { value: undefined, faults: [], texts: [] });
    }
    const names = { addressType: 'FQDN', endpoints: [{ addresses: ['example.com'] }] };
    const { value, texts } = decodedSlice(names);
    assert.equal(value, undefined);
    assert.deepEqual(texts, [`EndpointSlice default/web-1: addressType: FQDN: ${HOST_NAMES} (no effect here)`]);
  });

  const LABEL = 'metadata.labels[kubernetes.io/service-name]:';
  for (const [labels, shown] of [
    [{}, ''],
    [{ 'kubernetes.io/service-name': '' }, ''],
    [{ 'kubernetes.io/service-name': 'a/b' }, ' a/b:'],
    [{ 'kubernetes.io/service-name': 'a\nb' }, ' a?b:'],
    [{ 'kubernetes.io/service-name': 'web\n' }, ' web?:'],
    [{ 'kubernetes.io/service-name': '$(x)' }, ' $(x):'],
  ] as [Fields, string][]) {
    test(`with the labels ${JSON.stringify(labels)} is set aside`, () => {
      const { value, texts } = decodedSlice({}, labels);
      assert.deepEqual(texts, [`EndpointSlice default/web-1: ${LABEL}${shown} ${OWNER} (object set aside)`]);
      assert.equal(value, undefined);
    });
  }

  test('of another address type is set aside', () => {
    const { value, texts } = decodedSlice({ addressType: 'IPv5' });
    assert.deepEqual(texts, [
      'EndpointSlice default/web-1: addressType: IPv5: must be IPv4, IPv6 or FQDN (object set aside)',
    ]);
    assert.equal(value, undefined);
  });

  test('of the wrong shape is set aside', () => {
    for (const [fields, field] of [
      [{ addressType: undefined }, 'addressType'],
      [{ endpoints: [{ addresses: '10.0.0.1' }] }, 'endpoints[0].addresses'],
      [{ endpoints: [{ conditions: { ready: 'yes' } }] }, 'endpoints[0].conditions.ready'],
      [{ ports: [{ port: '80' }] }, 'ports[0].port'],
    ] as [Fields, string][]) {
      const { value, faults } = decodedSlice(fields);
      assert.equal(value, undefined);
      assert.deepEqual(
        faults.map(({ field: at, effect }) => [at, effect]),
        [[field, 'object set aside']],
      );
    }
  });
});

describe('a part of a slice is left out with one fault, and the rest stays', () => {
  test('a hint that no Node can have', () => {
    const hints = { forZones: [{ name: 'a' }, { name: '-' }], forNodes: [{ name: 'n\n' }] };
    const { value, texts } = decodedSlice({ endpoints: [{ addresses: ['10.244.1.1'], hints }] });
    assert.deepEqual([value?.endpoints[0]?.zoneHints, value?.endpoints[0]?.nodeHints], [['a'], []]);
    assert.deepEqual(texts, [
      `EndpointSlice default/web-1: endpoints[0].hints.forZones[1].name: -: ${HINT} (part left out)`,
      `EndpointSlice default/web-1: endpoints[0].hints.forNodes[0].name: n?: ${HINT} (part left out)`,
    ]);
  });

  for (const [port, text] of [
    [{ port: 0 }, `ports[0].port: 0: ${NUMBER}`],
    [{ port: 70_000 }, `ports[0].port: 70000: ${NUMBER}`],
    [{ port: 1.5 }, `ports[0].port: 1.5: ${NUMBER}`],
    [{ port: null }, `ports[0].port: null: ${NUMBER}`],
    [{ port: undefined }, `ports[0].port: ${NUMBER}`],
    [{ protocol: 'ICMP' }, `ports[0].protocol: ICMP: ${PROTOCOL}`],
    [{ name: 'a`id`' }, `ports[0].name: a\`id\`: ${NAME}`],
    [{ name: 'a\r\nb' }, `ports[0].name: a??b: ${NAME}`],
    [{ name: 'a.b' }, `ports[0].name: a.b: ${NAME}`],
  ] as [Fields, string][]) {
    test(text, () => {
      const fields = {
        ports: [
          { ...PORT, ...port },
          { name: 'good', port: 81 },
        ],
        endpoints: [{ addresses: ['10.0.0.1'] }],
      };
      const { value, texts } = decodedSlice(fields);
      assert.deepEqual(texts, [`EndpointSlice default/web-1: ${text} (part left out)`]);
      assert.deepEqual(value?.ports, [{ name: 'good', protocol: 'TCP', port: 81 }]);
      assert.equal(value?.endpoints.length, 1);
    });
  }

  for (const [endpoint, text] of [
    [{ addresses: ['10.0.0'] }, '10.0.0: must be an IP address'],
    [{ addresses: ['web.example'] }, 'web.example: must be an IP address'],
    [{ addresses: ['10.0.0.2\n'] }, '10.0.0.2?: must be an IP address'],
    [{ addresses: ['fd00::1'] }, 'fd00::1: must be an IPv4 address, as addressType says'],
    [{ addresses: [] }, 'must be an IP address'],
    [{ addresses: null }, 'must be an IP address'],
    [{}, 'must be an IP address'],
  ] as [Fields, string][]) {
    test(`endpoint ${JSON.stringify(endpoint)}`, () => {
      const { value, texts } = decodedSlice({ endpoints: [endpoint, { addresses: ['10.0.0.1'] }] });
      assert.deepEqual(texts, [`EndpointSlice default/web-1: endpoints[0].addresses[0]: ${text} (part left out)`]);
      assert.deepEqual(
        value?.endpoints.map(({ address }) => address),
        ['10.0.0.1'],
      );
    });
  }

  test('an IPv4 address in a slice of IPv6', () => {
    const { value, texts } = decodedSlice({ addressType: 'IPv6', endpoints: [{ addresses: ['::ffff:10.0.0.1'] }] });
    assert.equal(texts.length, 1);
    assert.match(texts[0] ?? '', /must be an IPv6 address, as addressType says/);
    assert.deepEqual(value?.endpoints, []);
  });
});

describe('a Node', () => {
  test('of every field: InternalIP first, then ExternalIP, in their order', () => {
    const { value, texts } = decodedNode(
      {
        spec: { podCIDR: '10.244.0.0/24', podCIDRs: ['10.244.0.0/24', 'fd00:1::/64'] },
        status: {
          addresses: [
            { type: 'ExternalIP', address: '198.51.100.1' },
            { type: 'Hostname', address: 'node-a' },
            { type: 'InternalIP', address: '192.0.2.1' },
            { type: 'InternalIP', address: 'FD00::1' },
          ],
        },
      },
      { 'topology.kubernetes.io/zone': 'zone-1' },
    );
    assert.deepEqual(texts, []);
    assert.deepEqual(value, {
      name: 'node-a',
      zone: 'zone-1',
      addresses: ['192.0.2.1', 'fd00::1', '198.51.100.1'],
      podCIDRs: ['10.244.0.0/24', 'fd00:1::/64'],
      isEligible: true,
    });
  });

  test('has the defaults where it has the fewest fields', () => {
    for (const fields of [{}, { spec: null, status: null }, { spec: {}, status: { addresses: null } }]) {
      const { value, texts } = decodedNode(fields);
      assert.deepEqual(
        [value, texts],
        [{ name: 'node-a', zone: '', addresses: [], podCIDRs: [], isEligible: true }, []],
      );
    }
  });

  test('is not for load balancers while an autoscaler is about to delete it (docs/semantics.md 9.4)', () => {
    const taints = (key: string) => decodedNode({ spec: { taints: [{ key: 'other' }, { key }] } }).value?.isEligible;
    assert.deepEqual(
      [taints('ToBeDeletedByClusterAutoscaler'), taints('node.kubernetes.io/unschedulable')],
      [false, true],
    );
  });

  test('with podCIDR alone has that range', () => {
    assert.deepEqual(decodedNode({ spec: { podCIDR: '10.244.1.0/24' } }).value?.podCIDRs, ['10.244.1.0/24']);
  });

  test('with bad values keeps the good ones', () => {
    const { value, texts } = decodedNode({
      spec: { podCIDRs: ['10.244.0.0', '10.244.1.0/24'] },
      status: {
        addresses: [
          { type: 'InternalIP', address: 'x' },
          { type: 'InternalIP', address: '192.0.2.1' },
        ],
      },
    });
    assert.deepEqual(texts, [
      'Node node-a: status.addresses[0]: x: must be an IP address (part left out)',
      'Node node-a: spec.podCIDRs[0]: 10.244.0.0: must be a CIDR (part left out)',
    ]);
    assert.deepEqual([value?.addresses, value?.podCIDRs], [['192.0.2.1'], ['10.244.1.0/24']]);
  });
});

describe('names', () => {
  for (const [metadata, key] of [
    [{ name: 'web' }, 'default/web'],
    [{ name: 'web', namespace: 'shop' }, 'shop/web'],
    [{ name: '9web-1.x', namespace: 'a' }, 'a/9web-1.x'],
    [{ name: 'x'.repeat(253) }, `default/${'x'.repeat(253)}`],
    [{ name: 'x'.repeat(254) }, undefined],
    [{ name: '' }, undefined],
    [{}, undefined],
    [{ name: 7 }, undefined],
    [{ name: 'Web' }, undefined],
    [{ name: 'a/b' }, undefined],
    [{ name: 'a b' }, undefined],
    [{ name: 'a\n' }, undefined],
    [{ name: 'a\n-j DROP' }, undefined],
    [{ name: 'a"; reboot' }, undefined],
    [{ name: '$(reboot)' }, undefined],
    [{ name: '-a' }, undefined],
    [{ name: 'web', namespace: '' }, undefined],
    [{ name: 'web', namespace: 'a/b' }, undefined],
    [{ name: 'web', namespace: '../x' }, undefined],
  ] as [Fields, string | undefined][]) {
    test(JSON.stringify(metadata).slice(0, 60), () => assert.equal(objectKey({ metadata }), key));
  }

  test('of what is no object there is none', () => {
    for (const object of [null, undefined, 7, 'x', [], {}]) assert.equal(objectKey(object), undefined);
  });
});

describe('a fault is one line that can be read', () => {
  test('a value keeps to the line whatever stands in it', () => {
    for (const { texts } of [
      decodedService({ clusterIP: 'a\nb\u0000\u001b[31m\u2028' }),
      decodedService({ ports: [{ port: 'a\nb' }] }),
      decodedServiceObject({ metadata: { name: 'web', labels: { 'a\nb': 7 } } }),
      decodedSlice({ endpoints: [{ addresses: ['a\nb'] }] }),
    ]) {
      for (const text of texts) assert.match(text, /^[\x20-\x7e…]+$/);
      assert.ok(texts.length > 0);
    }
  });

  test('a value is cut short however large it is', () => {
    const { texts } = decodedService({ ports: { a: 'x'.repeat(100_000) } });
    assert.ok((texts[0]?.length ?? 0) < 300);
  });

  test('a value that leads back to itself, as an alias in YAML can, is set aside', () => {
    const ports: Fields = {};
    ports.self = ports;
    const { value, texts } = decodedService({ ports });
    assert.equal(value, undefined);
    assert.match(texts[0] ?? '', /^Service default\/web: spec\.ports: .*\(object set aside\)$/);
  });
});
