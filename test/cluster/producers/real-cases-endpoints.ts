/** Recorded cases of Endpoints: those with very many addresses, and those that are mirrored. */
import { endpointsOf, type GoldenCase, namedPort, podWith, serviceOf } from './real-objects.ts';

const MANY = 1005;

const overCapacity: GoldenCase = {
  name: 'over-capacity',
  isRewritten: true,
  steps: [
    {
      title: 'more than 1,000 Pods, some of them not ready',
      put: [
        ...Array.from({ length: MANY }, (_, n) =>
          podWith(`p-${n}`, { node: 'node-a', n: n + 1, ready: n % 100 !== 0 }),
        ),
        serviceOf('web', {}),
      ],
    },
    {
      title: 'exactly 1,000 are left',
      remove: Array.from({ length: MANY - 1000 }, (_, n) => `pods/p-${n + 1}`),
      isDeletedAtOnce: true,
    },
  ],
};

/** Ports that all but one Pod have: each has a subset of its own. */
const PORTS = 20;
const PODS = 60;

const manySubsets: GoldenCase = {
  name: 'over-capacity-in-subsets',
  isRewritten: true,
  steps: [
    {
      title: '20 subsets of 59 addresses each: every one keeps its share of 50',
      put: [
        ...Array.from({ length: PODS }, (_, n) =>
          podWith(`p-${n}`, {
            ...{ node: 'node-b', n: n + 1 },
            ports: Array.from({ length: PORTS }, (_, i) => namedPort(`p${i}`, 8000 + i)).filter((_, i) => i !== n),
          }),
        ),
        serviceOf('web', {
          ports: Array.from({ length: PORTS }, (_, i) => ({ name: `p${i}`, port: 80 + i, targetPort: `p${i}` })),
        }),
      ],
    },
  ],
};

const HTTP = { name: 'http', port: 8080 };
const HTTPS = { name: 'https', port: 8443 };
const none = { selector: null };
const ips = (...list: string[]) => list.map((ip) => ({ ip }));
const MIRRORED = 1005;

const mirrored: GoldenCase = {
  name: 'mirrored',
  steps: [
    {
      title: 'subsets that share addresses and ports, both families, all fields; some that are not mirrored',
      put: [
        ...['plain', 'shared', 'families', 'fields', 'same-ports', 'trumped', 'portless', 'empty', 'skipped'].map(
          (name) => serviceOf(name, none),
        ),
        ...['elected', 'labelled'].map((name) => serviceOf(name, none)),
        endpointsOf('plain', [{ addresses: ips('10.1.2.3'), ports: [{ port: 80 }] }]),
        endpointsOf('shared', [
          { addresses: ips('10.1.2.3', '10.1.2.4'), ports: [HTTP] },
          { addresses: ips('10.1.2.3', '10.1.2.4'), ports: [HTTPS] },
        ]),
        endpointsOf('same-ports', [
          { addresses: ips('10.1.2.3'), ports: [HTTP] },
          { addresses: ips('10.1.2.4'), notReadyAddresses: ips('10.1.2.5'), ports: [HTTP] },
        ]),
        endpointsOf('trumped', [
          { addresses: ips('10.1.2.3', '10.1.2.4'), ports: [HTTP] },
          { notReadyAddresses: ips('10.1.2.3'), ports: [HTTP] },
        ]),
        endpointsOf('families', [{ addresses: ips('10.1.2.3', 'fd00:1::3'), ports: [HTTP, HTTPS] }]),
        endpointsOf('portless', [{ addresses: ips('10.1.2.3') }]),
        endpointsOf('empty', []),
        endpointsOf('fields', [
          {
            addresses: [
              {
                ip: '10.1.2.3',
                hostname: 'one',
                nodeName: 'node-a',
                targetRef: { kind: 'Pod', namespace: 'mirrored', name: 'one', uid: 'u-1' },
              },
            ],
            ports: [{ ...HTTP, protocol: 'UDP', appProtocol: 'example.com/mine' }],
          },
        ]),
        endpointsOf('labelled', [{ addresses: ips('10.1.2.3'), ports: [HTTP] }], {
          labels: { team: 'x', 'endpointslice.kubernetes.io/managed-by': 'somebody' },
          annotations: {
            note: 'copied',
            'kubectl.kubernetes.io/last-applied-configuration': '{}',
            'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:00Z',
          },
        }),
        endpointsOf('skipped', [{ addresses: ips('10.1.2.3'), ports: [HTTP] }], {
          labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' },
        }),
        endpointsOf('elected', [{ addresses: ips('10.1.2.3'), ports: [HTTP] }], {
          annotations: { 'control-plane.alpha.kubernetes.io/leader': '{}' },
        }),
      ],
    },
    {
      title: 'addresses, labels and annotations change, and one is skipped now',
      patch: [
        ['endpoints/plain', { subsets: [{ addresses: ips('10.2.3.4'), ports: [{ port: 80 }] }] }],
        ['endpoints/shared', { subsets: [{ addresses: ips('10.1.2.3'), ports: [HTTPS] }] }],
        ['endpoints/labelled', { metadata: { labels: { team: 'y', more: 'z' }, annotations: { note: null } } }],
        ['endpoints/families', { metadata: { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } } }],
      ],
    },
    { title: 'Endpoints go', remove: ['endpoints/plain', 'endpoints/fields'] },
  ],
};

const tooMany: GoldenCase = {
  name: 'mirrored-too-many',
  steps: [
    {
      title: 'more than 1,000 addresses in a subset: ready ones come first, in the order of their text',
      put: [
        serviceOf('many', none),
        serviceOf('unready', none),
        endpointsOf('many', [
          {
            addresses: Array.from({ length: MIRRORED }, (_, n) => ({
              ip: `10.1.${Math.floor(n / 200)}.${(n % 200) + 1}`,
            })),
            ports: [HTTP],
          },
        ]),
        endpointsOf('unready', [
          {
            notReadyAddresses: Array.from({ length: MIRRORED - 2 }, (_, n) => ({
              ip: `10.1.${Math.floor(n / 200)}.${(n % 200) + 1}`,
            })),
            addresses: ips('10.9.9.9', '10.9.9.10'),
            ports: [HTTP],
          },
        ]),
      ],
    },
  ],
};

const selectorless: GoldenCase = {
  name: 'selector-comes-and-goes',
  steps: [
    {
      title: 'one Service has a selector, the other one Endpoints that a person wrote',
      put: [
        podWith('one', { node: 'node-a', n: 1 }),
        serviceOf('loses', {}),
        serviceOf('gains', none),
        endpointsOf('gains', [{ addresses: ips('10.1.2.3'), ports: [HTTP] }]),
      ],
    },
    {
      title: 'they change places',
      patch: [
        ['services/loses', { spec: { selector: null } }],
        ['services/gains', { spec: { selector: { app: 'web' } } }],
      ],
    },
  ],
};

export const CASES_OF_ENDPOINTS: readonly GoldenCase[] = [overCapacity, manySubsets, mirrored, tooMany, selectorless];
