/** Situations of Kubernetes' own packet tests that no other story has: several Services, policies and senders at once. */
import { service } from '../../helpers/cluster/objects.ts';
import type { BackendName, StoryCluster } from '../cluster.ts';
import {
  ACCEPTED,
  among,
  DROPPED,
  type Expected,
  type PacketFate,
  REJECTED,
  type Story,
  type StorySettings,
  UNSERVED,
  UNTOUCHED,
} from '../story.ts';
import {
  as,
  balancerWeb,
  clusterCidr,
  DRAINING,
  type EndpointInput,
  HEALTH_PORT,
  LOCAL_WHOEVER_ASKS,
  NODE_PORT,
  nodePortWeb,
  PORT,
  pods,
  podsWith,
  REFUSES_INTERNAL_LOCAL,
  told,
  vips,
  web,
} from './build.ts';

const GONE = { ready: false, serving: false, terminating: true };
const BOTH = ['pod-1', 'other'] as const;
const POLICIES: readonly Record<string, unknown>[] = [
  {},
  { externalTrafficPolicy: 'Local', healthCheckNodePort: HEALTH_PORT },
  { internalTrafficPolicy: 'Local' },
];

/** Load balancers with node ports: of policy Cluster, of external policy Local, of internal policy Local. */
function threeServices(w: StoryCluster): object[] {
  return POLICIES.flatMap((policy, i) => {
    const name = `web-${i}`;
    const ports = [{ port: PORT, nodePort: NODE_PORT + i }];
    return [
      service({
        name,
        spec: { type: 'LoadBalancer', clusterIP: w.clusterIP(10 + i), ports, ...policy },
        status: vips(w.vip(1 + i)),
      }),
      podsWith(w, { service: name, name: `${name}-1` }, BOTH),
    ];
  });
}

/** What pods, the node and others meet at every address of the three Services (docs/semantics.md 4.1 and chapter 7). */
function everySender(w: StoryCluster, { knowsPods, masqueradesAll }: Record<'knowsPods' | 'masqueradesAll', boolean>) {
  return POLICIES.flatMap((_, i): PacketFate[] => {
    const inside = i === 2 ? (['pod-1'] as const) : BOTH;
    const toClusterIP = (isPod: boolean) => among(inside, masqueradesAll || (knowsPods && !isPod) ? 'all' : 'none');
    const external = (from: 'pod-3' | 'node' | 'outside', expected: Expected) => [
      told(from, w.node, expected, { port: NODE_PORT + i }),
      told(from, w.vip(1 + i), expected),
    ];
    const all = among(BOTH, 'all');
    const local = i === 1;
    return [
      told('pod-3', w.clusterIP(10 + i), toClusterIP(true)),
      told('node', w.clusterIP(10 + i), toClusterIP(false)),
      told('outside', w.clusterIP(10 + i), toClusterIP(false)),
      ...external('pod-3', local ? among(knowsPods ? BOTH : ['pod-1']) : all),
      ...external('node', all),
      ...external('outside', local ? among(['pod-1']) : all),
    ];
  });
}

function matrixStory(id: string, title: string, facts: { knowsPods: boolean; masqueradesAll: boolean }): Story {
  const { knowsPods, masqueradesAll } = facts;
  return {
    id,
    title,
    field: 'spec.externalTrafficPolicy, spec.internalTrafficPolicy',
    covers: [
      ...['4.1.1', '4.1.2', '4.1.3', '4.1.4', '4.1.6', '4.1.7', '7.4', '7.5'],
      ...(knowsPods ? ['4.1.5', '5.1.1', '7.3'] : ['4.2', '5.1.5']),
      ...(masqueradesAll ? ['7.2'] : []),
    ],
    ...(knowsPods && !masqueradesAll
      ? {}
      : { onlyInterpreted: 'the story without these settings sends the same packets' }),
    kubeProxy: LOCAL_WHOEVER_ASKS,
    tell: (w) => ({
      objects: threeServices(w),
      settings: { ...(knowsPods ? clusterCidr(w) : {}), ...(masqueradesAll ? { masqueradeAll: true } : {}) },
      packets: everySender(w, facts),
    }),
  };
}

const matrixStories: readonly Story[] = [
  matrixStory('matrix', 'every sender to every address of Services of three policies', {
    knowsPods: true,
    masqueradesAll: false,
  }),
  matrixStory('matrix-pods-unknown', 'every sender to every address of three policies, where pods cannot be told', {
    knowsPods: false,
    masqueradesAll: false,
  }),
  matrixStory(
    'matrix-masquerade-all',
    'every sender to every address of three policies, where all traffic is masqueraded',
    {
      knowsPods: true,
      masqueradesAll: true,
    },
  ),
  matrixStory(
    'matrix-both',
    'every sender to every address of three policies, where pods cannot be told and all is masqueraded',
    {
      knowsPods: false,
      masqueradesAll: true,
    },
  ),
  {
    id: 'matrix-from-loopback',
    title: 'the node reaches node ports of three policies by 127.0.0.1',
    field: '--iptables-localhost-nodeports',
    covers: ['6.10', '4.1.6', '4.1.7'],
    families: ['IPv4'],
    tell: (w) => ({
      objects: threeServices(w),
      settings: { ...clusterCidr(w), localhostNodePorts: true },
      packets: POLICIES.map((_, i) => told('node', w.loopback, among(BOTH, 'all'), { port: NODE_PORT + i })),
    }),
  },
];

/** The endpoints of a load balancer drain and go: what a pod meets at the cluster IP, and outside at the load balancer. */
function drainingStory(policy: 'Cluster' | 'Local'): Story {
  const isLocal = policy === 'Local';
  const fate = (used: readonly BackendName[], left: Expected) => (used.length === 0 ? left : among(used));
  return {
    id: `draining-lb-${policy.toLowerCase()}`,
    title: `a load balancer of policy ${policy}: endpoints are ready, drain, drain elsewhere, and are gone`,
    field: 'endpoints.conditions',
    covers: ['3.1', '3.2', '3.4.4', '3.4.6', '4.1.3', '4.1.4', 'KEP-1669'],
    tell: (w) => {
      const state = (
        endpoints: readonly (BackendName | EndpointInput)[],
        inside: readonly BackendName[],
        here: readonly BackendName[],
      ) => {
        const outside = isLocal
          ? fate(here, inside.length === 0 ? REJECTED : DROPPED)
          : inside.length === 0
            ? REJECTED
            : among(inside, 'all');
        return {
          objects: [balancerWeb(w, { externalTrafficPolicy: policy }), pods(w, ...endpoints)],
          packets: [told('pod-3', w.clusterIP(10), fate(inside, REJECTED)), told('outside', w.vip(1), outside)],
        };
      };
      const deleted = state([], [], []);
      return {
        ...state(['pod-1', as('pod-2', DRAINING), 'other'], ['pod-1', 'other'], ['pod-1']),
        settings: clusterCidr(w),
        next: [
          deleted,
          state([as('pod-1', DRAINING), as('pod-2', GONE), 'other'], ['other'], ['pod-1']),
          state([as('pod-1', DRAINING), as('pod-2', GONE), as('other', DRAINING)], ['pod-1', 'other'], ['pod-1']),
          state([as('other', DRAINING)], ['other'], []),
          state([as('pod-1', GONE), as('other', GONE)], [], []),
          deleted,
        ],
      };
    },
  };
}

const TARGETS = { https: 8443, 'dns-tcp': 5353, 'dns-udp': 53, 'dns-sctp': 53 };

const portStories: readonly Story[] = [
  {
    id: 'two-services-one-pod',
    title: 'two Services before one pod: each port has its own number behind it, in TCP, UDP and SCTP',
    field: 'spec.ports.targetPort',
    covers: ['1.3', '1.4', '2.4', '7.7'],
    onlyInterpreted: 'the hosts of the lab answer on one port',
    tell: (w) => {
      const ports = (Object.keys(TARGETS) as (keyof typeof TARGETS)[]).map((name) => ({
        name,
        port: name === 'https' ? 443 : 53,
        protocol: name === 'dns-udp' ? 'UDP' : name === 'dns-sctp' ? 'SCTP' : 'TCP',
      }));
      const second = service({
        name: 'second',
        namespace: 'other',
        spec: { clusterIP: w.clusterIP(11), ports: [{ name: 'http', port: PORT }, ...ports] },
      });
      const slices = podsWith(w, { service: 'second', name: 'second-1', portName: 'http' }, BOTH) as {
        metadata: Record<string, unknown>;
        ports: object[];
      };
      slices.metadata = { ...slices.metadata, namespace: 'other' };
      slices.ports.push(...ports.map((port) => ({ ...port, port: TARGETS[port.name] })));
      const to = (name: keyof typeof TARGETS): Expected => ({
        kind: 'balanced',
        shares: { 'pod-1': 1 / 2, other: 1 / 2 },
        masqueraded: 'none',
        targetPort: TARGETS[name],
      });
      return {
        objects: [web(w), pods(w, 'pod-1'), second, slices],
        settings: clusterCidr(w),
        packets: [
          told('pod-3', w.clusterIP(10), among(['pod-1'])),
          told('pod-1', w.clusterIP(10), among(['pod-1'], 'all')),
          told('pod-3', w.clusterIP(11), among(BOTH)),
          told('pod-3', w.clusterIP(11), to('https'), { port: 443 }),
          told('pod-3', w.clusterIP(11), to('dns-tcp'), { port: 53 }),
          told('pod-3', w.clusterIP(11), to('dns-udp'), { port: 53, protocol: 'UDP' }),
          told('pod-3', w.clusterIP(11), to('dns-sctp'), { port: 53, protocol: 'SCTP' }),
          told('pod-3', w.clusterIP(11), UNSERVED, { protocol: 'UDP' }),
          told('pod-3', w.clusterIP(10), UNSERVED, { port: 443 }),
        ],
      };
    },
  },
  {
    id: 'node-port-every-address',
    title: 'a node port is served on every address of the node, to endpoints of known and of unknown nodes',
    field: '--nodeport-addresses',
    covers: ['6.7', '6.9'],
    tell: nodePortsOn(() => ({})),
  },
  {
    id: 'node-port-several-addresses',
    title: 'node ports on several chosen addresses',
    field: '--nodeport-addresses',
    covers: ['6.9'],
    tell: nodePortsOn((w) => ({ nodePortAddresses: [w.node, w.gateway] })),
  },
  {
    id: 'health-port-beside-chosen-addresses',
    title: 'the health check port passes a closed firewall on addresses that take no node ports',
    field: 'spec.healthCheckNodePort',
    covers: ['6.15'],
    tell: (w) => ({
      objects: [balancerWeb(w, POLICIES[1]), pods(w, 'pod-1')],
      settings: { nodePortAddresses: [w.gateway] },
      closed: true,
      packets: [told('outside', w.node, ACCEPTED, { port: HEALTH_PORT })],
      next: [{ objects: [], packets: [told('outside', w.node, DROPPED, { port: HEALTH_PORT })] }],
    }),
  },
];

/** A node port of endpoints of which one has no node, asked on two addresses of the node. */
function nodePortsOn(settings: (w: StoryCluster) => StorySettings): Story['tell'] {
  return (w) => {
    const port = { port: NODE_PORT };
    const used = ['pod-1', 'pod-2'] as const;
    return {
      objects: [nodePortWeb(w), pods(w, { at: 'pod-1', placeless: true }, 'pod-2')],
      settings: { ...clusterCidr(w), ...settings(w) },
      packets: [
        told('pod-3', w.clusterIP(10), among(used)),
        told('outside', w.node, among(used, 'all'), port),
        told('node', w.node, among(used, 'all'), port),
        told('pod-3', w.gateway, among(used, 'all'), port),
      ],
    };
  };
}

/** As no canonical text has it: IPv4 with leading zeros, IPv6 in full and in capitals. */
function unusual(address: string): string {
  if (!address.includes(':'))
    return address
      .split('.')
      .map((octet) => octet.padStart(3, '0'))
      .join('.');
  const [head = '', tail = ''] = address.split('::');
  const [before, after] = [head, tail].map((part) => part.split(':').filter((group) => group !== '')) as [
    string[],
    string[],
  ];
  const groups = [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after];
  return groups.map((group) => group.padStart(4, '0').toUpperCase()).join(':');
}

const otherStories: readonly Story[] = [
  {
    id: 'internal-local-every-endpoint',
    title: 'internal policy Local: every endpoint of this node, and no other; without any: refused',
    field: 'spec.internalTrafficPolicy',
    covers: ['4.1.2', 'KEP-2086'],
    kubeProxy: REFUSES_INTERNAL_LOCAL,
    tell: (w) => {
      const state = (endpoints: readonly BackendName[], expected: Expected) => ({
        objects: [web(w, { internalTrafficPolicy: 'Local' }), pods(w, ...endpoints)],
        packets: [told('pod-3', w.clusterIP(10), expected)],
      });
      const [gone, here] = [state([], REJECTED), among(['pod-1', 'pod-2'])];
      return { ...state(['pod-1', 'pod-2', 'other'], here), next: [gone, state(['other'], DROPPED), gone] };
    },
  },
  {
    id: 'ip-mode',
    title: 'ipMode VIP, and none at all: the node serves the address; ipMode Proxy: it does not',
    field: 'status.loadBalancer.ingress.ipMode',
    covers: ['1.7', 'KEP-1860'],
    tell: (w) => {
      const state = (ipMode: string | undefined, expected: Expected) => ({
        objects: [
          web(w, { type: 'LoadBalancer' }, { loadBalancer: { ingress: [{ ip: w.vip(1), ipMode }] } }),
          pods(w, { at: 'pod-1', placeless: true }),
        ],
        packets: [told('outside', w.vip(1), expected), told('pod-3', w.clusterIP(10), among(['pod-1']))],
      });
      const served = among(['pod-1'], 'all');
      return {
        ...state('VIP', served),
        next: [state('Proxy', UNTOUCHED), state(undefined, served), state('Proxy', UNTOUCHED)],
      };
    },
  },
  {
    id: 'addresses-not-canonical',
    title: 'addresses that are not in canonical text mean what they always meant: leading zeros are decimal',
    field: 'spec.clusterIP, spec.externalIPs, endpoints.addresses',
    covers: ['1.2', '1.6', '1.7', '1.8', 'KEP-4858'],
    tell: (w) => {
      const range = `${unusual(w.address('outside'))}/${w.family === 'IPv4' ? '032' : '128'}`;
      const spec = {
        type: 'LoadBalancer',
        clusterIP: unusual(w.clusterIP(10)),
        externalIPs: [unusual(w.externalIP(1))],
        loadBalancerSourceRanges: [range],
      };
      const slice = pods(w, 'pod-1') as { endpoints: { addresses: string[] }[] };
      for (const endpoint of slice.endpoints) endpoint.addresses = endpoint.addresses.map(unusual);
      return {
        objects: [web(w, spec, vips(unusual(w.vip(1)))), slice],
        settings: clusterCidr(w),
        packets: [
          told('pod-3', w.clusterIP(10), among(['pod-1'])),
          told('outside', w.externalIP(1), among(['pod-1'], 'all')),
          told('outside', w.vip(1), among(['pod-1'], 'all')),
          told('remote-pod', w.vip(1), DROPPED),
        ],
      };
    },
  },
];

export const kubernetesStories: readonly Story[] = [
  ...matrixStories,
  drainingStory('Cluster'),
  drainingStory('Local'),
  ...portStories,
  ...otherStories,
];
