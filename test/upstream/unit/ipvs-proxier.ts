/** Cases of kube-proxy's IPVS proxier. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';
import { notHere, rows, tested, told } from '../held.ts';
import { EVERY_SENDER, endpointRows, metricRows, ROUTE_TYPES, SERVICE_MAPS } from './packet-cases.ts';

const EVERY_ADDRESS = 'a node port is served on every address of the node, to endpoints of known and of unknown nodes';
const EMPTY = 'a Service without endpoints refuses at once, pods, the node and outside';
const BALANCED = 'a pod is balanced over all endpoints and keeps its address';
const NODE_PORT_LOCAL =
  'a node port, policy Local: outside only endpoints here and seen by them; a pod and the node all';
const SCTP = 'a node port of SCTP, on several addresses of the node and under policy Local';
const LB = 'an address of the load balancer';
const SETTINGS = 'test/agent/mode-settings.test.ts';
const FAULTS = 'test/proxy/modes/ipvs/faults.test.ts';
const DRAINING = 'test/proxy/modes/ipvs/draining.test.ts';
const STALE = [
  'are recognised on its device, and on node ports that no Service has any more',
  'keeps its servers and sets over runs and cleanup (k8s#55857), which removes our IPv6 sets too',
];

const nodePorts = (family: 4 | 6): UpstreamCase[] => [
  told(`TestNodePortIPv${family}/1 service with node port, has 2 endpoints`, EVERY_ADDRESS),
  told(
    `TestNodePortIPv${family}/1 UDP service with node port, has endpoints${family === 6 ? ' (no action on IPv6 Proxier)' : ''}`,
    'a node port of UDP',
  ),
  told(
    `TestNodePortIPv${family}/service has node port but no endpoints`,
    'a node port, policy Cluster, without endpoints: refused, whoever asks',
  ),
  told(`TestNodePortIPv${family}/node port service with protocol sctp on a node with multiple nodeIPs`, SCTP),
];

const clusterIPs = (family: 4 | 6): UpstreamCase[] => [
  told(
    `TestIPv${family}Proxier/2 services with Cluster IP, each with endpoints`,
    'two Services of one name in two namespaces are two',
    'of a dual-stack Service each family has its own address and its own endpoints',
  ),
  told(`TestIPv${family}Proxier/cluster IP service with no endpoints`, EMPTY),
];

const POLICIES: readonly UpstreamCase[] = [
  told('TestExternalIPsNoEndpoint', 'an external IP, policy Cluster, without endpoints: refused, whoever asks'),
  told('TestExternalIPs', 'an external IP, policy Cluster: all endpoints, masqueraded, whoever asks'),
  told(
    'TestOnlyLocalExternalIPs',
    'an external IP, policy Local: outside only endpoints here and seen by them; a pod and the node all',
  ),
  told('TestLoadBalancer', `${LB}, policy Cluster: all endpoints, masqueraded, whoever asks`, EVERY_SENDER),
  told('TestOnlyLocalNodePorts', NODE_PORT_LOCAL),
  told(
    'TestOnlyLocalLoadBalancing',
    `${LB}, policy Local: outside only endpoints here and seen by them; a pod and the node all`,
  ),
  ...['TestHealthCheckNodePort', 'TestHealthCheckNodePortE2E'].map((title) =>
    told(title, 'the health check of a load balancer passes a closed firewall, with and without endpoints here'),
  ),
  told(
    'TestLoadBalancerSourceRanges',
    'source ranges let in whom they name and nobody else, on every address of the load balancer',
  ),
  told('TestAcceptIPVSTraffic', 'node ports pass a firewall that forwards nothing by itself'),
  told('TestEndpointSliceE2E', 'an endpoint comes, drains, goes and comes back'),
  ...rows(
    'TestTestInternalTrafficPolicyE2E',
    [
      'internalTrafficPolicy is cluster with non-zero local endpoints',
      'internalTrafficPolicy is cluster with zero local endpoints',
    ],
    (title) => told(title, BALANCED, 'a ready endpoint here is used under both policies'),
  ),
  ...rows(
    'TestTestInternalTrafficPolicyE2E',
    [
      'internalTrafficPolicy is local with non-zero local endpoints',
      'internalTrafficPolicy is local with zero local endpoints',
    ],
    (title) => told(title, 'internal policy Local: every endpoint of this node, and no other; without any: refused'),
  ),
  ...['Test_EndpointSliceReadyAndTerminating', 'Test_EndpointSliceOnlyReadyAndTerminating'].flatMap((name) =>
    ['Cluster', 'Local'].map((policy) =>
      told(
        `${name}${policy}`,
        `a load balancer of policy ${policy}: endpoints are ready, drain, drain elsewhere, and are gone`,
      ),
    ),
  ),
];

const CLEANUP: readonly UpstreamCase[] = [
  ...['TestCleanLegacyService', 'TestCleanLegacyService6', 'TestCleanLegacyServiceWithRealServers'].map((title) => ({
    title,
    tests: { [FAULTS]: STALE },
  })),
  tested(
    'TestCleanLegacyRealServersExcludeCIDRs',
    FAULTS,
    'keeps servers in the excluded ranges, even on addresses of our device',
  ),
];

export const IPVS_PROXIER: UpstreamFile = {
  path: 'pkg/proxy/ipvs/proxier_test.go',
  cases: [
    {
      title: 'TestGetNodeIPs',
      tests: { [SETTINGS]: ['serve node ports on all addresses but loopback ones, or in the ranges of the list'] },
    },
    ...nodePorts(4),
    told('TestNodePortIPv4/node port service with protocol sctp and externalTrafficPolicy local', SCTP),
    ...nodePorts(6),
    {
      title: 'Test_syncEndpoint_updateWeightsOnRestart',
      tests: {
        [DRAINING]: [
          'goes on draining after a restart',
          'that comes back while it drains is served again without a lost connection',
        ],
      },
    },
    ...clusterIPs(4),
    ...clusterIPs(6),
    told(
      'TestMasqueradeRule',
      'all traffic is masqueraded on request',
      'another bit of the mark asks for masquerading',
    ),
    ...POLICIES,
    ...SERVICE_MAPS,
    {
      title: 'TestSessionAffinity',
      stories: ['a client that an endpoint knows goes to that endpoint'],
      tests: {
        'test/vm/mode.vm.ts': ['another scheduler, the three timeouts and persistence are as they are asked for'],
      },
    },
    ...endpointRows('Test_updateEndpointsMap', 'named'),
    tested(
      'Test_syncService',
      'test/proxy/modes/ipvs/desire.test.ts',
      'ends in the same state whether built step by step or at once (invariant 12), and a restart writes nothing',
    ),
    ...CLEANUP,
    tested(
      'TestMultiPortServiceBindAddr',
      'test/upstream/unit/ipvs.test.ts',
      'an address is on the device once, while a port of its Service is there',
    ),
    notHere('Test_getFirstColumn', 'it tests the parser of a list of kernel modules, which slicewire does not read'),
    {
      title: 'Test_HealthCheckNodePortWhenTerminating',
      tests: {
        'test/upstream/unit/endpoints-map.test.ts': [
          'ready endpoints on this node are counted by address, and those that drain are not',
        ],
      },
    },
    told(
      'TestFilterCIDRs',
      'source ranges let in whom they name and nobody else, on every address of the load balancer',
    ),
    tested(
      'TestCreateAndLinkKubeChain',
      'test/proxy/modes/netfilter/order.test.ts',
      'is right after a jump was missing, wherever it stands',
    ),
    {
      title: 'TestIpIsValidForSet',
      tests: {
        [SETTINGS]: ['serve node ports on all addresses but loopback ones, or in the ranges of the list'],
        'test/kernel/node-facts.test.ts': ['contain no IPv6 link-local address'],
      },
    },
    ...metricRows('Both'),
    {
      title: 'TestDismissLocalhostRuleExist',
      stories: ['no node port on a loopback address when that is not wanted, and never on ::1'],
    },
    ...ROUTE_TYPES,
  ],
};
