/**
 * The cases that are recorded from a real kube-controller-manager (`real-controller.ts`): each is a namespace of its name, whose
 * objects change step by step. The Nodes are the same for all.
 */
import { CASES_OF_ENDPOINTS } from './real-cases-endpoints.ts';
import { type GoldenCase, namedPort, nodeWith, podWith, readySince, serviceOf } from './real-objects.ts';

/** `node-x` has no zone and `node-y` an empty one; they are not ready, so that zones can have shares of the CPUs. */
export const NODES = [
  nodeWith('node-a', { zone: 'zone-a' }),
  nodeWith('node-b', { zone: 'zone-b' }),
  nodeWith('node-c', { zone: 'zone-c' }),
  nodeWith('node-x', { zone: undefined, ready: false }),
  nodeWith('node-y', { zone: '', ready: false }),
];

/** A Pod on each Node, one that is not ready, and one that terminates. */
const SPREAD = [
  ...['a', 'b', 'c', 'x', 'y'].map((letter, i) => podWith(`on-${letter}`, { node: `node-${letter}`, n: i + 1 })),
  podWith('unready', { node: 'node-a', n: 11, ready: false }),
  podWith('leaving', { node: 'node-b', n: 12 }),
];

const VALUES = ['PreferSameZone', 'PreferSameNode', 'PreferClose'] as const;

/** The name of the Service of each value of trafficDistribution. */
const named = (value: string) => value.toLowerCase();

const distribution: GoldenCase = {
  name: 'traffic-distribution',
  steps: [
    {
      title: 'a Service of each value; Nodes without a zone, and with an empty one',
      put: [...SPREAD, ...VALUES.map((value) => serviceOf(named(value), { trafficDistribution: value }))],
      remove: ['pods/leaving'],
    },
    {
      title: 'each takes the next value',
      patch: VALUES.map((value, i) => [
        `services/${named(value)}`,
        { spec: { trafficDistribution: VALUES[(i + 1) % VALUES.length] } },
      ]),
    },
    {
      title: 'none has a value',
      patch: VALUES.map((value) => [`services/${named(value)}`, { spec: { trafficDistribution: null } }]),
    },
  ],
};

const AUTO = { annotations: { 'service.kubernetes.io/topology-mode': 'Auto' } };

const topology: GoldenCase = {
  name: 'topology-mode',
  steps: [
    {
      title: 'Auto, with trafficDistribution beside it, by the older annotation, and with a Pod in no zone',
      put: [
        ...['a', 'b', 'c'].flatMap((letter, i) =>
          [0, 1].map((of) => podWith(`${letter}-${of}`, { node: `node-${letter}`, n: i * 10 + of + 1 })),
        ),
        podWith('nowhere', { node: 'node-x', n: 99, labels: { app: 'nowhere' } }),
        ...['a', 'b', 'c'].map((letter, i) =>
          podWith(`far-${letter}`, { node: `node-${letter}`, n: 90 + i, labels: { app: 'nowhere' } }),
        ),
        serviceOf('auto', {}, AUTO),
        serviceOf('both', { trafficDistribution: 'PreferSameNode' }, AUTO),
        serviceOf('older', {}, { annotations: { 'service.kubernetes.io/topology-aware-hints': 'auto' } }),
        serviceOf('other-value', {}, { annotations: { 'service.kubernetes.io/topology-mode': 'PreferZone' } }),
        serviceOf('without-zone', { selector: { app: 'nowhere' } }, AUTO),
      ],
    },
    {
      title: 'the annotation goes: trafficDistribution counts',
      patch: ['auto', 'both'].map((name) => [
        `services/${name}`,
        { metadata: { annotations: { 'service.kubernetes.io/topology-mode': null } } },
      ]),
    },
  ],
};

const dualStack: GoldenCase = {
  name: 'dual-stack',
  steps: [
    {
      title: 'Services of one and two families, Pods of one and two families',
      put: [
        podWith('both', { node: 'node-a', n: 1, families: 2 }),
        podWith('ipv4', { node: 'node-b', n: 2 }),
        podWith('ipv6', { node: 'node-c', n: 3, families: 6 }),
        serviceOf('single', {}),
        serviceOf('dual', { ipFamilyPolicy: 'PreferDualStack', trafficDistribution: 'PreferSameNode' }),
        serviceOf('six-first', { ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv6', 'IPv4'] }),
        serviceOf('six', { ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv6'] }),
        serviceOf('headless', { clusterIP: 'None', ipFamilyPolicy: 'RequireDualStack' }),
      ],
    },
    {
      title: 'a Service loses its second family, and another one gets it',
      patch: [
        ['services/dual', { spec: { ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv4'], clusterIPs: null } }],
        ['services/single', { spec: { ipFamilyPolicy: 'PreferDualStack' } }],
      ],
    },
  ],
};

const headless: GoldenCase = {
  name: 'headless',
  isRewritten: true,
  steps: [
    {
      title: 'with and without ports, with host names, without Pods',
      put: [
        podWith('plain', { node: 'node-a', n: 1 }),
        podWith('web-0', { node: 'node-b', n: 2, spec: { hostname: 'web-0', subdomain: 'with-ports' } }),
        podWith('web-1', { node: 'node-b', n: 3, ready: false, spec: { hostname: 'web-1', subdomain: 'other' } }),
        serviceOf('with-ports', { clusterIP: 'None' }),
        serviceOf('without-ports', { clusterIP: 'None', ports: [] }),
        serviceOf('without-pods', { clusterIP: 'None', ports: [], selector: { app: 'nobody' } }),
        serviceOf('labelled', { clusterIP: 'None' }, { labels: { 'service.kubernetes.io/headless': 'mine' } }),
      ],
    },
    { title: 'a Pod goes', remove: ['pods/plain'], isDeletedAtOnce: true },
  ],
};

const unready: GoldenCase = {
  name: 'publish-not-ready',
  steps: [
    {
      title: 'Pods that are not ready, that terminate, that finished, on a Node that does not exist, on none',
      put: [
        podWith('ready', { node: 'node-a', n: 1 }),
        podWith('unready', { node: 'node-a', n: 2, ready: false }),
        podWith('leaving', { node: 'node-b', n: 3 }),
        podWith('finished', { node: 'node-b', n: 4, phase: 'Succeeded' }),
        podWith('failed', { node: 'node-b', n: 5, phase: 'Failed', ready: false }),
        podWith('lost', { node: 'no-such-node', n: 6 }),
        podWith('pending', { n: 0, node: 'node-a', ready: false, phase: 'Pending' }),
        serviceOf('strict', {}),
        serviceOf('open', { publishNotReadyAddresses: true, trafficDistribution: 'PreferSameNode' }),
      ],
      remove: ['pods/leaving'],
    },
    { title: 'the open one becomes strict', patch: [['services/open', { spec: { publishNotReadyAddresses: false } }]] },
  ],
};

const ports: GoldenCase = {
  name: 'ports',
  steps: [
    {
      title: 'names of ports that differ, that a Pod lacks, of a sidecar; protocols and appProtocol',
      put: [
        podWith('one', { node: 'node-a', n: 1, ports: [namedPort('http', 8080), namedPort('dns', 53, 'UDP')] }),
        podWith('two', { node: 'node-b', n: 2, ports: [namedPort('http', 9090)] }),
        podWith('three', { node: 'node-c', n: 3, sidecarPorts: [namedPort('http', 7070)] }),
        podWith('four', { node: 'node-c', n: 4, initPorts: [namedPort('http', 6060)] }),
        serviceOf('named', {
          ports: [
            { name: 'web', port: 80, targetPort: 'http', appProtocol: 'kubernetes.io/h2c' },
            { name: 'dns', port: 53, targetPort: 'dns', protocol: 'UDP' },
            { name: 'fixed', port: 443, targetPort: 8443 },
          ],
        }),
        serviceOf('nobody-has-it', { ports: [{ port: 80, targetPort: 'nothing' }] }),
        serviceOf('none', { selector: { app: 'nobody' } }),
        serviceOf('outside', { type: 'ExternalName', externalName: 'example.com', selector: { app: 'web' } }),
      ],
    },
    {
      title: 'a port gets another target',
      patch: [['services/named', { spec: { ports: [{ name: 'web', port: 80, targetPort: 'dns', protocol: 'UDP' }] } }]],
    },
  ],
};

const labels: GoldenCase = {
  name: 'labels-and-annotations',
  isRewritten: true,
  steps: [
    {
      title: 'labels of Services, reserved ones among them',
      put: [
        podWith('one', { node: 'node-a', n: 1 }),
        serviceOf('labelled', {}, { labels: { team: 'x', tier: 'web' }, annotations: { note: 'kept from slices' } }),
        serviceOf(
          'reserved',
          {},
          {
            labels: {
              'endpointslice.kubernetes.io/managed-by': 'somebody',
              'kubernetes.io/service-name': 'other',
              'endpoints.kubernetes.io/managed-by': 'somebody',
              team: 'x',
            },
          },
        ),
        serviceOf('bare', {}),
      ],
    },
    {
      title: 'a label changes, another goes, one is new',
      patch: [
        ['services/labelled', { metadata: { labels: { team: 'y', tier: null } } }],
        ['services/bare', { metadata: { labels: { fresh: 'yes' } } }],
      ],
    },
  ],
};

const times: GoldenCase = {
  name: 'trigger-times',
  steps: [
    {
      title: 'the creation of the Service is the first change',
      put: [
        podWith('one', { node: 'node-a', n: 1 }),
        podWith('two', { node: 'node-b', n: 2, ready: false }),
        serviceOf('web', {}),
      ],
    },
    { title: 'a Pod becomes ready', status: [['pods/two', readySince('2030-01-01T00:00:01Z')]] },
    {
      title: 'two Pods are new: the earlier time counts',
      put: [
        podWith('three', { node: 'node-a', n: 3, since: '2030-01-01T00:00:03Z' }),
        podWith('four', { node: 'node-b', n: 4, since: '2030-01-01T00:00:02Z' }),
      ],
    },
    { title: 'a label of the Service has no time', patch: [['services/web', { metadata: { labels: { a: 'b' } } }]] },
  ],
};

export const CASES: readonly GoldenCase[] = [
  distribution,
  topology,
  dualStack,
  headless,
  unready,
  ports,
  labels,
  times,
  ...CASES_OF_ENDPOINTS,
];
