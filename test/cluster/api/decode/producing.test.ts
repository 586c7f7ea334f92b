/** What those that make slices get to know of Pods, Services and Nodes, and what stays of slices and Endpoints that others wrote. */
import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import type { Decoded } from '../../../../src/cluster/api/decode/checks.ts';
import {
  decodeEndpointsObject,
  decodePod,
  decodeSelectingService,
  decodeSliceObject,
  decodeZonedNode,
} from '../../../../src/cluster/api/decode/producing.ts';
import type { PodView, SelectingService, ZonedNode } from '../../../../src/cluster/producers/api-objects.ts';
import { faultText } from '../../../../src/proxy/model/objects.ts';
import { MANIFESTS } from '../../../messages/manifests.ts';
import { OBJECTS } from '../../../messages/objects.ts';
import { problemIn } from '../../../messages/row.ts';

type Fields = Record<string, unknown>;

interface WithTexts<T> {
  readonly value: T | undefined;
  /** The faults as an operator reads them. */
  readonly texts: readonly string[];
}

function withTexts<T>({ value, faults }: Decoded<T>): WithTexts<T> {
  return { value, texts: faults.map(faultText) };
}

/** As the API server has it, which fills in the state. */
function pod(fields: Fields, { isHandWritten = false, metadata = {} } = {}): WithTexts<PodView> {
  return withTexts(decodePod({ metadata: { name: 'web-1', ...metadata }, ...fields }, 'shop/web-1', { isHandWritten }));
}

function writtenPod(fields: Fields): WithTexts<PodView> {
  return pod(fields, { isHandWritten: true });
}

function service(spec: Fields, metadata: Fields = {}): WithTexts<SelectingService> {
  return withTexts(decodeSelectingService({ metadata: { name: 'web', ...metadata }, spec }, 'shop/web'));
}

function node(fields: Fields, labels: Fields = {}): WithTexts<ZonedNode> {
  return withTexts(decodeZonedNode({ metadata: { name: 'node-a', labels }, ...fields }, 'node-a'));
}

const NUMBER = problemIn(OBJECTS, 'Service shop/web: spec.ports[0].port: 70000');
const PROTOCOL = problemIn(OBJECTS, 'Service shop/web: spec.ports[0].protocol: HTTP');
const NAME = problemIn(OBJECTS, 'Service shop/web: spec.ports[0].name: HTTP');
const NO_ADDRESS = problemIn(MANIFESTS, 'Pod default/web-1: status.podIP', 'is missing');

describe('a Pod', () => {
  test('has every field that producers of slices read', () => {
    const { value, texts } = withTexts(
      decodePod(
        {
          metadata: { name: 'web-1', namespace: 'shop', uid: 'u1', labels: { app: 'web' }, deletionTimestamp: null },
          spec: {
            nodeName: 'node-a',
            hostname: 'web-1',
            subdomain: 'web',
            containers: [{ ports: [{ name: 'http', containerPort: 8080 }] }],
          },
          status: {
            phase: 'Running',
            podIP: '10.244.1.1',
            podIPs: [{ ip: '10.244.1.1' }, { ip: 'FD00:0::1' }],
            conditions: [
              { type: 'Initialized', status: 'False' },
              { type: 'Ready', status: 'True', lastTransitionTime: '2026-11-21T00:00:01Z' },
            ],
          },
        },
        'shop/web-1',
        { isHandWritten: false },
      ),
    );
    assert.deepEqual(texts, []);
    assert.deepEqual(value, {
      key: 'shop/web-1',
      namespace: 'shop',
      name: 'web-1',
      uid: 'u1',
      labels: { app: 'web' },
      addresses: ['10.244.1.1', 'fd00::1'],
      nodeName: 'node-a',
      hostname: 'web-1',
      subdomain: 'web',
      ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
      ready: true,
      readySince: Date.UTC(2026, 10, 21, 0, 0, 1),
      terminating: false,
      finished: false,
    });
  });

  test('that was only just created has no address, no node, and is not ready', () => {
    for (const fields of [{}, { spec: {}, status: {} }, { status: { podIP: '', podIPs: null, conditions: null } }]) {
      const { value, texts } = pod(fields);
      assert.deepEqual(texts, []);
      assert.deepEqual([value?.addresses, value?.nodeName, value?.ready, value?.readySince], [[], '', false, 0]);
    }
  });

  for (const [what, status, wanted] of [
    ['podIPs, and not podIP beside them', { podIP: '10.0.0.9', podIPs: [{ ip: '10.0.0.1' }] }, ['10.0.0.1']],
    ['podIP alone', { podIP: '10.0.0.9' }, ['10.0.0.9']],
    ['podIP where podIPs is empty', { podIP: '10.0.0.9', podIPs: [] }, ['10.0.0.9']],
  ] as [string, Fields, string[]][]) {
    test(`has the addresses of ${what}`, () => {
      const { value, texts } = pod({ status });
      assert.deepEqual([value?.addresses, texts], [wanted, []]);
    });
  }

  test('with addresses that are none has the others', () => {
    const { value, texts } = pod({ status: { podIPs: [{ ip: '10.0.0.256' }, { ip: 'fd00::1' }] } });
    assert.deepEqual(value?.addresses, ['fd00::1']);
    assert.deepEqual(texts, ['Pod shop/web-1: status.podIPs[0].ip: 10.0.0.256: must be an IP address (part left out)']);
    assert.deepEqual(pod({ status: { podIP: 'web.example' } }).texts, [
      'Pod shop/web-1: status.podIP: web.example: must be an IP address (part left out)',
    ]);
  });

  for (const [conditions, ready] of [
    [[{ type: 'Ready', status: 'True' }], true],
    [[{ type: 'Ready', status: 'False' }], false],
    [[{ type: 'Ready', status: 'Unknown' }], false],
    [[{ type: 'ContainersReady', status: 'True' }], false],
  ] as [Fields[], boolean][]) {
    test(`is ${ready ? '' : 'not '}ready by ${JSON.stringify(conditions)}`, () => {
      assert.equal(pod({ status: { conditions } }).value?.ready, ready);
      assert.equal(writtenPod({ status: { conditions } }).value?.ready, ready);
    });
  }

  test('of which nobody knows since when it is ready, is so since ever', () => {
    for (const lastTransitionTime of [null, 'yesterday']) {
      const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime }];
      assert.equal(pod({ status: { conditions } }).value?.readySince, 0);
    }
  });

  test('is finished when none of its containers runs again, and terminating when it is deleted', () => {
    for (const [phase, finished] of Object.entries({ Succeeded: true, Failed: true, Running: false, Pending: false }))
      assert.equal(pod({ status: { phase } }).value?.finished, finished, phase);
    const metadata = { deletionTimestamp: '2026-11-21T00:00:01Z' };
    assert.equal(pod({}, { metadata }).value?.terminating, true);
  });
});

describe("a Pod's ports", () => {
  const named = (name: string, containerPort: number, more: Fields = {}) => ({ name, containerPort, ...more });

  test('are the named ones of its containers, then of the init containers that go on (KEP-753)', () => {
    const { value, texts } = pod({
      spec: {
        initContainers: [
          { restartPolicy: 'Always', ports: [named('mesh', 15_001), named('http', 1)] },
          { ports: [named('setup', 2)] },
          { restartPolicy: 'OnFailure', ports: [named('once', 3)] },
        ],
        containers: [
          { ports: [named('http', 8080), { containerPort: 4 }, named('dns', 53, { protocol: 'UDP' })] },
          { ports: null },
          { ports: [named('admin', 9000, { protocol: 'SCTP' })] },
        ],
      },
    });
    assert.deepEqual(texts, []);
    assert.deepEqual(
      value?.ports.map(({ name, protocol, port }) => `${name} ${protocol} ${port}`),
      ['http TCP 8080', 'dns UDP 53', 'admin SCTP 9000', 'mesh TCP 15001', 'http TCP 1'],
    );
  });

  test('that cannot be are left out', () => {
    const { value, texts } = pod({
      spec: {
        containers: [{ ports: [named('a', 0), named('b', 80, { protocol: 'tcp' }), named('c', 80)] }],
        initContainers: [{ restartPolicy: 'Always', ports: [named('d', 70_000)] }],
      },
    });
    assert.deepEqual(
      value?.ports.map(({ name }) => name),
      ['c'],
    );
    assert.deepEqual(texts, [
      `Pod shop/web-1: spec.containers[0].ports[0].containerPort: 0: ${NUMBER} (part left out)`,
      `Pod shop/web-1: spec.containers[0].ports[1].protocol: tcp: ${PROTOCOL} (part left out)`,
      `Pod shop/web-1: spec.initContainers[0].ports[0].containerPort: 70000: ${NUMBER} (part left out)`,
    ]);
  });
});

describe('a Pod that a person wrote', () => {
  test('runs and is ready where it says nothing of its state', () => {
    const { value, texts } = writtenPod({ status: { podIP: '10.0.0.1' } });
    assert.deepEqual([value?.ready, value?.addresses, texts], [true, ['10.0.0.1'], []]);
  });

  test('without an address is no endpoint, which is reported', () => {
    for (const fields of [{}, { status: null }, { status: { podIPs: [] } }]) {
      assert.deepEqual(writtenPod(fields).texts, [`Pod shop/web-1: status.podIP: ${NO_ADDRESS} (no effect here)`]);
    }
  });

  test('that is finished needs no address', () => {
    assert.deepEqual(writtenPod({ status: { phase: 'Succeeded' } }).texts, []);
  });
});

describe('a Service', () => {
  test('has every field that producers of slices read', () => {
    const { value, texts } = withTexts(
      decodeSelectingService(
        {
          metadata: {
            name: 'web',
            namespace: 'shop',
            uid: 'u1',
            labels: { team: 'a' },
            creationTimestamp: '2026-11-21T00:00:01Z',
            deletionTimestamp: '2026-11-21T00:00:02Z',
          },
          spec: {
            type: 'ClusterIP',
            selector: { app: 'web' },
            clusterIP: '10.96.0.1',
            clusterIPs: ['10.96.0.1'],
            ipFamilies: ['IPv4'],
            publishNotReadyAddresses: true,
            trafficDistribution: 'PreferClose',
            ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, appProtocol: 'h2c' }],
          },
        },
        'shop/web',
      ),
    );
    assert.deepEqual(texts, []);
    assert.deepEqual(value, {
      key: 'shop/web',
      namespace: 'shop',
      name: 'web',
      uid: 'u1',
      labels: { team: 'a' },
      createdAt: Date.UTC(2026, 10, 21, 0, 0, 1),
      terminating: true,
      selector: { app: 'web' },
      takesEndpoints: false,
      ports: [{ name: 'http', protocol: 'TCP', target: 8080, appProtocol: 'h2c' }],
      families: ['IPv4'],
      isHeadless: false,
      publishNotReady: true,
      wantsTopology: false,
      distribution: 'PreferClose',
    });
  });

  test('has the defaults where it has the fewest fields', () => {
    const { value, texts } = withTexts(decodeSelectingService({ metadata: { name: 'web' } }, 'default/web'));
    assert.deepEqual(texts, []);
    assert.deepEqual(value, {
      key: 'default/web',
      namespace: 'default',
      name: 'web',
      uid: '',
      labels: {},
      createdAt: 0,
      terminating: false,
      selector: undefined,
      takesEndpoints: true,
      ports: [],
      families: ['IPv4', 'IPv6'],
      isHeadless: true,
      publishNotReady: false,
      wantsTopology: false,
      distribution: undefined,
    });
  });

  test('selects Pods by its selector, unless that is empty or a name is its endpoint', () => {
    const selector = { app: 'web' };
    assert.deepEqual(service({ selector }).value?.selector, selector);
    for (const spec of [{}, { selector: null }, { selector: {} }, { type: 'ExternalName', selector }])
      assert.equal(service(spec).value?.selector, undefined, JSON.stringify(spec));
  });

  test('of type ExternalName has no ports, whatever is wrong with them', () => {
    const { value, texts } = service({ type: 'ExternalName', ports: [{ port: 0 }, { port: 80, targetPort: 70_000 }] });
    assert.deepEqual([value?.ports, texts], [[], []]);
  });
});

describe("a Service's port leads to", () => {
  for (const [what, port, target] of [
    ['the number of targetPort', { targetPort: 8080 }, 8080],
    ['the name of targetPort', { targetPort: 'http' }, 'http'],
    ['its own number without targetPort', {}, 80],
    ['its own number where targetPort is null', { targetPort: null }, 80],
    ['its own number where targetPort is 0', { targetPort: 0 }, 80],
    ['its own number where targetPort is empty', { targetPort: '' }, 80],
    ['the number of targetPort, though its own is none', { port: 70_000, targetPort: 8080 }, 8080],
  ] as [string, Fields, number | string][]) {
    test(what, () => {
      const { value, texts } = service({ ports: [{ port: 80, ...port }] });
      assert.deepEqual([value?.ports, texts], [[{ name: '', protocol: 'TCP', target, appProtocol: undefined }], []]);
    });
  }

  for (const [port, text] of [
    [{ targetPort: 70_000 }, `targetPort: 70000: ${NUMBER}`],
    [{ targetPort: -1 }, `targetPort: -1: ${NUMBER}`],
    [{ targetPort: 80.5 }, `targetPort: 80.5: ${NUMBER}`],
    [{ targetPort: 'a b' }, `targetPort: a b: ${NAME}`],
    [{ targetPort: '8080' }, 'targetPort: 8080: must be a number without quotes, or a port name with a letter'],
    [{ port: 0 }, `port: 0: ${NUMBER}`],
    [{ port: 70_000, targetPort: 0 }, `port: 70000: ${NUMBER}`],
    [{ protocol: 'ICMP' }, `protocol: ICMP: ${PROTOCOL}`],
  ] as [Fields, string][]) {
    test(`nothing where ${text}`, () => {
      const { value, texts } = service({ clusterIP: 'None', ports: [{ port: 80, ...port }, { port: 81 }] });
      assert.deepEqual(texts, [`Service shop/web: spec.ports[0].${text} (part left out)`]);
      assert.deepEqual(
        value?.ports.map(({ target }) => target),
        [81],
      );
    });
  }
});

describe("a Service's families", () => {
  for (const [what, spec, wanted] of [
    ['are those of ipFamilies', { ipFamilies: ['IPv6', 'IPv4'], clusterIP: '10.96.0.1' }, ['IPv6', 'IPv4']],
    ['are each once, however often they are named', { ipFamilies: ['IPv4', 'IPv4'] }, ['IPv4']],
    [
      'are else those of its cluster IPs',
      { clusterIP: 'fd00::1', clusterIPs: ['fd00::1', '10.96.0.1'] },
      ['IPv6', 'IPv4'],
    ],
    ['are else that of its cluster IP', { clusterIP: 'fd00::1', clusterIPs: [] }, ['IPv6']],
    ['are else both, of a headless one', { clusterIP: 'None', clusterIPs: ['None'] }, ['IPv4', 'IPv6']],
  ] as [string, Fields, string[]][]) {
    test(what, () => {
      const { value, texts } = service(spec);
      assert.deepEqual([value?.families, texts], [wanted, []]);
    });
  }

  test('that there are not are left out', () => {
    const { value, texts } = service({ ipFamilies: ['IPv5', 'IPv6'], clusterIP: '10.96.0.1' });
    assert.deepEqual(value?.families, ['IPv6']);
    assert.deepEqual(texts, ['Service shop/web: spec.ipFamilies[0]: IPv5: must be IPv4 or IPv6 (part left out)']);
    assert.deepEqual(service({ ipFamilies: ['IPv5'], clusterIP: '10.96.0.1' }).value?.families, ['IPv4']);
  });
});

describe('a Service is headless', () => {
  for (const [spec, isHeadless] of [
    [{ clusterIP: 'None', clusterIPs: ['None'] }, true],
    [{ clusterIP: 'None' }, true],
    [{ clusterIPs: ['None'] }, true],
    [{ clusterIP: '', clusterIPs: null }, true],
    [{ clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1'] }, false],
    [{ clusterIP: '10.96.0.1' }, false],
    [{ clusterIPs: ['10.96.0.1'] }, false],
  ] as [Fields, boolean][]) {
    test(`${isHeadless ? '' : 'not '}with ${JSON.stringify(spec)}`, () => {
      assert.equal(service(spec).value?.isHeadless, isHeadless);
    });
  }
});

describe('a Service wants its endpoints near', () => {
  const OLD = 'service.kubernetes.io/topology-aware-hints';
  const NEW = 'service.kubernetes.io/topology-mode';
  for (const [annotations, wanted] of [
    [{ [NEW]: 'Auto' }, true],
    [{ [NEW]: 'auto' }, true],
    [{ [OLD]: 'Auto' }, true],
    [{ [NEW]: 'AUTO' }, false],
    [{ [NEW]: 'Disabled' }, false],
    [{ [OLD]: 'Disabled', [NEW]: 'Auto' }, false],
    [{ [OLD]: '', [NEW]: 'Auto' }, false],
    [{ [OLD]: 'Auto', [NEW]: 'Disabled' }, true],
    [null, false],
  ] as [Fields | null, boolean][]) {
    test(`${wanted ? '' : 'not '}by the annotations ${JSON.stringify(annotations)}`, () => {
      assert.equal(service({}, { annotations }).value?.wantsTopology, wanted);
    });
  }

  test('where spec.trafficDistribution says so', () => {
    for (const trafficDistribution of ['PreferClose', 'PreferSameZone', 'PreferSameNode']) {
      const { value, texts } = service({ trafficDistribution });
      assert.deepEqual([value?.distribution, texts], [trafficDistribution, []]);
    }
    for (const trafficDistribution of [null, '']) {
      const { value, texts } = service({ trafficDistribution });
      assert.deepEqual([value?.distribution, texts], [undefined, []]);
    }
  });

  test('nowhere where the distribution is not known', () => {
    const { value, texts } = service({ trafficDistribution: 'preferclose' });
    assert.equal(value?.distribution, undefined);
    assert.deepEqual(texts, [
      'Service shop/web: spec.trafficDistribution: preferclose: must be one of PreferClose, PreferSameZone, PreferSameNode (part left out)',
    ]);
  });
});

describe('a Node', () => {
  test('has every field that producers of slices read', () => {
    const { value, texts } = node(
      {
        status: {
          allocatable: { cpu: '3920m', memory: '16Gi' },
          conditions: [
            { type: 'MemoryPressure', status: 'False' },
            { type: 'Ready', status: 'True' },
          ],
        },
      },
      { 'topology.kubernetes.io/zone': 'a', 'node-role.kubernetes.io/control-plane': '' },
    );
    assert.deepEqual(texts, []);
    assert.deepEqual(value, { name: 'node-a', zone: 'a', ready: true, milliCpu: 3920, isControlPlane: true });
  });

  test('has the defaults where it has the fewest fields', () => {
    const nulls = { status: { allocatable: null, conditions: null } };
    for (const fields of [{}, { status: null }, nulls, { status: { allocatable: { cpu: null } } }]) {
      const { value, texts } = node(fields);
      assert.deepEqual(texts, []);
      assert.deepEqual(value, { name: 'node-a', zone: '', ready: false, milliCpu: 0, isControlPlane: false });
    }
  });

  test('is not ready when nobody knows, and of the control plane by its old label as well', () => {
    const status = { conditions: [{ type: 'Ready', status: 'Unknown' }] };
    const { value } = node({ status }, { 'node-role.kubernetes.io/master': 'true' });
    assert.deepEqual([value?.ready, value?.isControlPlane], [false, true]);
  });

  for (const [cpu, milliCpu] of [
    ['4', 4000],
    [4, 4000],
    ['0.5', 500],
    ['.5', 500],
    ['4.', 4000],
    [2.007, 2007],
    ['2.007', 2007],
    ['0.0001', 1],
    ['3920m', 3920],
    ['1500u', 2],
    ['2000000n', 2],
    ['1k', 1_000_000],
    ['0', 0],
  ] as [string | number, number][]) {
    test(`of cpu: ${JSON.stringify(cpu)} has ${milliCpu} thousandths`, () => {
      const { value, texts } = node({ status: { allocatable: { cpu } } });
      assert.deepEqual([value?.milliCpu, texts], [milliCpu, []]);
    });
  }

  for (const cpu of ['four', '-1', '4 m', '4\nm', '.', 'm']) {
    test(`of cpu: ${JSON.stringify(cpu)} has none, and the rest stays`, () => {
      const { value, texts } = node({ status: { allocatable: { cpu } } }, { 'topology.kubernetes.io/zone': 'a' });
      assert.deepEqual([value?.milliCpu, value?.zone], [0, 'a']);
      const shown = cpu.replace('\n', '?');
      assert.deepEqual(texts, [
        `Node node-a: status.allocatable.cpu: ${shown}: must be a quantity such as 4 or 3920m (part left out)`,
      ]);
    });
  }
});

describe('a slice that others write as well', () => {
  const slice = (fields: Fields, metadata: Fields = {}) =>
    withTexts(
      decodeSliceObject({ metadata: { name: 'web-x', ...metadata }, addressType: 'IPv4', ...fields }, 'shop/web-x'),
    );

  test('keeps all its fields except managedFields', () => {
    const whole = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: 'web-x',
        generateName: 'web-',
        namespace: 'shop',
        uid: 'u1',
        resourceVersion: '7',
        generation: 3,
        creationTimestamp: '2026-11-21T00:00:01Z',
        labels: { 'kubernetes.io/service-name': 'web' },
        annotations: { note: 'x' },
        finalizers: ['example.com/wait'],
        ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: 'u2', controller: true, later: 1 }],
      },
      addressType: 'IPv4',
      endpoints: [
        {
          addresses: ['10.244.1.1'],
          conditions: { ready: true, serving: null, later: true },
          hostname: 'web-1',
          targetRef: { kind: 'Pod', namespace: 'shop', name: 'web-1', uid: 'u3', resourceVersion: '5' },
          nodeName: 'node-a',
          zone: null,
          hints: { forZones: [{ name: 'a', weight: 2 }], later: [] },
          deprecatedTopology: { rack: '1' },
        },
      ],
      ports: [{ name: 'http', port: 8080, protocol: 'TCP', appProtocol: null, later: 'x' }],
      later: { deep: [1] },
    };
    const managedFields = [{ manager: 'kubectl' }];
    const { value, texts } = withTexts(
      decodeSliceObject({ ...whole, metadata: { ...whole.metadata, managedFields } }, 'shop/web-x'),
    );
    assert.deepEqual([value, texts], [whole, []]);
  });

  test('has empty lists where the API server says null, and the namespace of its key', () => {
    const { value, texts } = slice({ endpoints: null, ports: null }, { labels: null, ownerReferences: null });
    assert.deepEqual(texts, []);
    assert.deepEqual(value, {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'web-x', namespace: 'shop', labels: null, ownerReferences: null },
      addressType: 'IPv4',
      endpoints: [],
      ports: [],
    });
  });

  test('of another shape is set aside', () => {
    for (const [fields, says] of [
      [{ addressType: undefined }, 'addressType: is missing; it must be a string'],
      [{ endpoints: [{}] }, 'endpoints[0].addresses: is missing; it must be a list'],
      [
        { endpoints: [{ addresses: ['10.0.0.1'], hints: { forZones: [{}] } }] },
        'endpoints[0].hints.forZones[0].name: is missing; it must be a string',
      ],
      [{ ports: [{ port: '80' }] }, 'ports[0].port: 80: must be a number, not a string; write it without quotes'],
    ] as [Fields, string][]) {
      const { value, texts } = slice(fields);
      assert.deepEqual([value, texts], [undefined, [`EndpointSlice shop/web-x: ${says} (object set aside)`]]);
    }
  });
});

describe('Endpoints', () => {
  const endpoints = (subsets: unknown, metadata: Fields = {}) =>
    withTexts(decodeEndpointsObject({ metadata: { name: 'web', ...metadata }, subsets }, 'shop/web'));

  test('keep all fields of their metadata and subsets except managedFields', () => {
    const subsets = [
      {
        addresses: [
          { ip: '10.244.1.1', hostname: 'a', nodeName: 'n', targetRef: { kind: 'Pod', fieldPath: 'x' }, later: 1 },
        ],
        notReadyAddresses: [{ ip: '192.0.2.9' }],
        ports: [{ name: 'http', port: 80, protocol: 'TCP', appProtocol: 'h2c', later: 2 }],
        later: 3,
      },
    ];
    const metadata = { name: 'web', namespace: 'shop', uid: 'u1', resourceVersion: '7', generation: 3 };
    const { value, texts } = endpoints(subsets, { ...metadata, managedFields: [{ manager: 'kubectl' }] });
    assert.deepEqual([value, texts], [{ apiVersion: 'v1', kind: 'Endpoints', metadata, subsets }, []]);
  });

  test('without subsets have an empty list of them', () => {
    const metadata = { name: 'web', namespace: 'shop' };
    for (const fields of [{}, { subsets: null }, { subsets: [] }]) {
      const { value, texts } = withTexts(decodeEndpointsObject({ metadata, ...fields }, 'shop/web'));
      assert.deepEqual([value, texts], [{ apiVersion: 'v1', kind: 'Endpoints', metadata, subsets: [] }, []]);
    }
  });

  test('that a person wrote may leave a value empty', () => {
    const { value, texts } = endpoints([
      {
        addresses: [{ ip: '10.0.0.1', hostname: null, nodeName: null, targetRef: null }],
        notReadyAddresses: null,
        ports: [{ name: null, port: 80, protocol: null, appProtocol: null }],
      },
      { addresses: [{ ip: '10.0.0.2', targetRef: { kind: 'Pod', uid: null } }], ports: null },
    ]);
    assert.deepEqual(texts, []);
    assert.deepEqual(value?.subsets, [
      { addresses: [{ ip: '10.0.0.1' }], ports: [{ port: 80 }] },
      { addresses: [{ ip: '10.0.0.2', targetRef: { kind: 'Pod' } }] },
    ]);
  });

  test('of another shape are set aside', () => {
    const { value, texts } = endpoints([{ addresses: [{ ip: 1 }], ports: [{ port: null }] }]);
    assert.equal(value, undefined);
    assert.deepEqual(texts, [
      'Endpoints shop/web: subsets[0].addresses[0].ip: 1: must be a string, not a number; write it in quotes (object set aside)',
      'Endpoints shop/web: subsets[0].ports[0].port: null: must be a number, not null (object set aside)',
    ]);
  });
});

describe('an object of another shape is set aside, and its fault carries the uid', () => {
  for (const [what, decoded, text] of [
    [
      'a Pod',
      decodePod({ metadata: { name: 'web-1', uid: 'u1' }, spec: { containers: {} } }, 'shop/web-1', {
        isHandWritten: true,
      }),
      'Pod shop/web-1: spec.containers: {}: must be a list, not a map (object set aside)',
    ],
    [
      'a Service',
      decodeSelectingService({ metadata: { name: 'web', uid: 'u1' }, spec: { selector: { a: 1 } } }, 'shop/web'),
      'Service shop/web: spec.selector.a: 1: must be a string, not a number; write it in quotes (object set aside)',
    ],
    [
      'a Node',
      decodeZonedNode({ metadata: { name: 'node-a', uid: 'u1', labels: [] } }, 'node-a'),
      'Node node-a: metadata.labels: []: must be a map of names to values, not a list (object set aside)',
    ],
  ] as [string, Decoded<unknown>, string][]) {
    test(what, () => {
      assert.deepEqual(withTexts(decoded), { value: undefined, texts: [text] });
      assert.equal(decoded.faults[0]?.uid, 'u1');
    });
  }
});
