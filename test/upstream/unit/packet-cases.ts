/** Cases that the tests of kube-proxy's iptables and nftables proxiers have in common, by the same names. */
import type { UpstreamCase } from '../cases.ts';
import { rows, sameRows, told } from '../held.ts';

const NODE_PORT = 'a node port';
const EXTERNAL_IP = 'an external IP';
const BALANCER = 'an address of the load balancer';
const KINDS: Readonly<Record<string, string>> = { NodePort: NODE_PORT, 'external IP': EXTERNAL_IP, LB: BALANCER };

const refused = (kind: string) => `${kind}, policy Cluster, without endpoints: refused, whoever asks`;
const cluster = (kind: string) => `${kind}, policy Cluster: all endpoints, masqueraded, whoever asks`;
const local = (kind: string) =>
  `${kind}, policy Local: outside only endpoints here and seen by them; a pod and the node all`;
export const EVERY_SENDER = 'every sender to every address of Services of three policies';
const NOBODY_KNOWN = 'every sender to every address of three policies, where pods cannot be told';
const ALL_MASQUERADED = 'every sender to every address of three policies, where all traffic is masqueraded';
const BOTH_SETTINGS =
  'every sender to every address of three policies, where pods cannot be told and all is masqueraded';
export const TWO_SERVICES = 'two Services before one pod: each port has its own number behind it, in TCP, UDP and SCTP';
const ON_LOOPBACK = 'the node reaches node ports of three policies by 127.0.0.1';
const BYPASS = 'source ranges do not hold for the cluster IP, external IPs and node ports';
const RANGES = 'source ranges let in whom they name and nobody else, on every address of the load balancer';
const NODE_IN_RANGE = 'a range that holds the node lets the node in, on every address';
const NODE_HAS_ADDRESS = 'so it is where the node has the address itself, and the packet has it as its source';
const INTERNAL = 'internal policy Local: only endpoints of this node';
const INTERNAL_ALL = 'internal policy Local: every endpoint of this node, and no other; without any: refused';

const NO_ENDPOINTS: readonly UpstreamCase[] = [
  told(
    'TestNoEndpointsReject/pod to cluster IP with no endpoints',
    'a Service without endpoints refuses at once, pods, the node and outside',
  ),
  told('TestNoEndpointsReject/external to external IP with no endpoints', refused(EXTERNAL_IP)),
  told('TestNoEndpointsReject/pod to NodePort with no endpoints', refused(NODE_PORT)),
  told('TestNoEndpointsReject/external to NodePort with no endpoints', refused(NODE_PORT)),
  told('TestNoEndpointsReject/pod to LoadBalancer IP with no endpoints', refused(BALANCER)),
  told('TestNoEndpointsReject/external to LoadBalancer IP with no endpoints', refused(BALANCER)),
];

const CLUSTER_IP = rows(
  'TestClusterIPGeneral',
  [
    'simple clusterIP',
    'hairpin to cluster IP',
    'clusterIP with multiple endpoints',
    'clusterIP with TargetPort',
    'clusterIP with TCP, UDP, and SCTP on same port (TCP)',
    'clusterIP with TCP, UDP, and SCTP on same port (SCTP)',
    'TCP-only port does not match UDP traffic',
    "svc1 does not accept svc2's ports",
  ],
  (title) => told(title, TWO_SERVICES),
);

const LOAD_BALANCER: readonly UpstreamCase[] = [
  ...rows(
    'TestLoadBalancer',
    ['pod to cluster IP', 'external to nodePort', 'nodePort bypasses LoadBalancerSourceRanges'],
    (title) => told(title, BYPASS),
  ),
  ...rows(
    'TestLoadBalancer',
    [
      'accepted external to LB1',
      'accepted external to LB2',
      'blocked external to LB1',
      'blocked external to LB2',
      'pod to LB1 (blocked by LoadBalancerSourceRanges)',
      'pod to LB2 (blocked by LoadBalancerSourceRanges)',
    ],
    (title) => told(title, RANGES),
  ),
  ...[1, 2].map((n) => told(`TestLoadBalancer/node to LB${n} (allowed by LoadBalancerSourceRanges)`, NODE_IN_RANGE)),
  ...[1, 2].map((n) =>
    told(`TestLoadBalancer/same node to LB${n}, SNATted to LB${n} (implicitly allowed)`, NODE_HAS_ADDRESS),
  ),
];

const EXTERNAL_POLICIES: readonly UpstreamCase[] = [
  told('TestExternalTrafficPolicyLocal/pod to cluster IP hits both endpoints, unmasqueraded', EVERY_SENDER),
  told('TestExternalTrafficPolicyLocal/pod to LB IP hits only both endpoints, unmasqueraded', local(BALANCER)),
  told('TestExternalTrafficPolicyLocal/pod to external IP hits both endpoints, unmasqueraded', local(EXTERNAL_IP)),
  told('TestExternalTrafficPolicyLocal/pod to NodePort hits both endpoints, unmasqueraded', local(NODE_PORT)),
  told('TestExternalTrafficPolicyCluster/pod to cluster IP hits both endpoints, unmasqueraded', EVERY_SENDER),
  ...Object.entries(KINDS).flatMap(([name, kind]) => {
    const to = name === 'LB' ? 'LB IP' : name;
    return [
      told(`TestExternalTrafficPolicyLocal/external to ${to} hits only local endpoint, unmasqueraded`, local(kind)),
      told(`TestExternalTrafficPolicyCluster/pod to ${to} hits both endpoints, masqueraded`, cluster(kind)),
      told(`TestExternalTrafficPolicyCluster/external to ${to} hits both endpoints, masqueraded`, cluster(kind)),
    ];
  }),
];

const INTERNAL_POLICY: readonly UpstreamCase[] = [
  told(
    'TestInternalTrafficPolicy/internalTrafficPolicy is cluster/pod to ClusterIP hits all endpoints',
    'a pod is balanced over all endpoints and keeps its address',
  ),
  told('TestInternalTrafficPolicy/internalTrafficPolicy is local and there is one local endpoint', INTERNAL),
  told('TestInternalTrafficPolicy/internalTrafficPolicy is local and there are multiple local endpoints', INTERNAL_ALL),
  told('TestInternalTrafficPolicy/internalTrafficPolicy is local and there are no local endpoints', INTERNAL_ALL),
  told('TestInternalTrafficPolicy/endpoints deleted', INTERNAL_ALL),
];

const DRAINING = (['Local', 'Cluster'] as const).flatMap((policy) =>
  rows(
    `TestTerminatingEndpointsTrafficPolicy${policy}`,
    [
      'ready endpoints exist',
      'only terminating endpoints exist',
      'terminating endpoints on remote node',
      'no usable endpoints on any node',
      'pod to clusterIP after endpoints deleted',
      'external to LB after endpoints deleted',
    ],
    (title) =>
      told(title, `a load balancer of policy ${policy}: endpoints are ready, drain, drain elsewhere, and are gone`),
  ),
);

/** From whom, to which address, of a Service of which policy. */
function masquerading(senders: readonly string[]): UpstreamCase[] {
  return senders.flatMap((sender) =>
    ['', ' with eTP:Local', ' with iTP:Local'].flatMap((policy) =>
      ['ClusterIP', 'NodePort', 'LB'].map((to) =>
        told(`TestInternalExternalMasquerade/${sender} to ${to}${policy}`, EVERY_SENDER),
      ),
    ),
  );
}

const MASQUERADING: readonly UpstreamCase[] = [
  ...masquerading(['pod', 'node', 'external']),
  told('TestInternalExternalMasquerade/base', EVERY_SENDER),
  told('TestInternalExternalMasquerade/no LocalTrafficDetector', NOBODY_KNOWN),
  told('TestInternalExternalMasquerade/masqueradeAll', ALL_MASQUERADED),
  told('TestInternalExternalMasquerade/masqueradeAll, no LocalTrafficDetector', BOTH_SETTINGS),
];

export const FROM_LOOPBACK: readonly UpstreamCase[] = ['', ' with eTP:Local', ' with iTP:Local'].map((policy) =>
  told(`TestInternalExternalMasquerade/localhost to NodePort${policy}`, ON_LOOPBACK),
);

const MODES = 'ipMode VIP, and none at all: the node serves the address; ipMode Proxy: it does not';

/** Rows of kube-proxy's metric of ServicePorts without a local endpoint; the last two begin otherwise in its IPVS proxier. */
export function metricRows(both: 'both' | 'Both'): UpstreamCase[] {
  const file = 'test/upstream/unit/node-settings.test.ts';
  const titles = [
    'internalTrafficPolicy is set and there are local endpoints',
    'externalTrafficPolicy is set and there are local endpoints',
    'both policies are set and there are local endpoints',
    'internalTrafficPolicy is set and there are no local endpoints',
    'externalTrafficPolicy is set and there are no local endpoints',
  ];
  const last = [
    'policies are set and there are no local endpoints',
    'policies are set and there are no endpoints at all',
  ];
  return [
    ...sameRows('TestNoEndpointsMetric', file, titles),
    ...last.map((row) => ({ title: `TestNoEndpointsMetric/${both} ${row}`, tests: { [file]: [`both ${row}`] } })),
  ];
}

export const ROUTE_TYPES = rows(
  'TestLoadBalancerIngressRouteTypeProxy',
  ['ipMode Proxy', 'ipMode VIP', 'ipMode nil'],
  (title) => told(title, MODES),
);

/** Rows of the map of endpoints; the last one has another name in the IPVS proxier. */
export function endpointRows(name: string, last: 'unnamed' | 'named'): UpstreamCase[] {
  const file = 'test/upstream/unit/endpoints-map.test.ts';
  const titles = [
    'nothing',
    'no change, named port, local',
    'no change, multiple subsets',
    'no change, multiple subsets, multiple ports, local',
    'no change, multiple endpoints, subsets, IPs, and ports',
    'add an Endpoints',
    'remove an Endpoints',
    'add an IP and port',
    'remove an IP and port',
    'add a subset',
    'remove a subset',
    'rename a port',
    'renumber a port',
    'complex add and remove',
  ];
  const unnamed = 'change from 0 endpoint address to 1 unnamed port';
  return [
    ...sameRows(name, file, titles),
    { title: `${name}/change from 0 endpoint address to 1 ${last} port`, tests: { [file]: [unnamed] } },
  ];
}

const SERVICE_MAP = 'test/upstream/unit/service-map.test.ts';
const CHANGES = 'change their type and back, and an equal Service is no change';
const COMES = 'have a port of the map for each of theirs, and a health check port where policy Local asks for it';
export const SERVICE_MAPS: readonly UpstreamCase[] = [
  { title: 'TestBuildServiceMapAddRemove', tests: { [SERVICE_MAP]: [COMES] } },
  {
    title: 'TestBuildServiceMapServiceHeadless',
    stories: ['a headless Service has no address'],
    tests: { [SERVICE_MAP]: ['headless service', 'headless service without port'] },
  },
  {
    title: 'TestBuildServiceMapServiceTypeExternalName',
    stories: ['a Service of type ExternalName is a name alone'],
    tests: { [SERVICE_MAP]: ['external name service'] },
  },
  { title: 'TestBuildServiceMapServiceUpdate', tests: { [SERVICE_MAP]: [CHANGES] } },
];

export const PACKET_CASES: readonly UpstreamCase[] = [
  ...NO_ENDPOINTS,
  ...CLUSTER_IP,
  ...LOAD_BALANCER,
  ...EXTERNAL_POLICIES,
  ...INTERNAL_POLICY,
  ...DRAINING,
  ...MASQUERADING,
  ...ROUTE_TYPES,
  told('TestBadIPs', 'addresses that are not in canonical text mean what they always meant: leading zeros are decimal'),
];
