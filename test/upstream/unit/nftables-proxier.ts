/** Cases of kube-proxy's nftables proxier. */
import type { UpstreamFile } from '../cases.ts';
import { notHere, tested, told } from '../held.ts';
import { EVERY_SENDER, endpointRows, metricRows, PACKET_CASES, SERVICE_MAPS } from './packet-cases.ts';

const EVERY_ADDRESS = 'a node port is served on every address of the node, to endpoints of known and of unknown nodes';
const CHOSEN = 'node ports on chosen addresses only';
const SEVERAL = 'node ports on several chosen addresses';
const NAMES = 'it tests kube-proxy’s names of chains in nftables; slicewire’s table has names of its own';
const CLUSTER_IPS = {
  'test/proxy/modes/nftables/cluster-ips.test.ts': [
    'are distinguished from those that a Service has, and from all other addresses',
  ],
  'test/netns/nftables-agent.test.ts': [
    'drops what goes to a cluster IP that nobody has once a ServiceCIDR names the range',
  ],
};

export const NFTABLES_PROXIER: UpstreamFile = {
  path: 'pkg/proxy/nftables/proxier_test.go',
  cases: [
    {
      title: 'TestOverallNFTablesRules',
      stories: [EVERY_SENDER],
      not: 'it compares the text of the whole table; slicewire’s table is another one, and packets decide',
    },
    ...PACKET_CASES,
    { title: 'TestClusterIPGeneral/packet to unallocated cluster ip', tests: CLUSTER_IPS },
    {
      title: 'TestNodePorts/ipv4',
      stories: [CHOSEN],
      tests: {
        'test/config/config.test.ts': [
          'in nftables mode goes by the section of that mode, and serves node ports on the primary address',
        ],
      },
    },
    told('TestNodePorts/ipv4, multiple nodeport-addresses', SEVERAL),
    told('TestNodePorts/ipv6', CHOSEN),
    told('TestNodePorts/ipv6, multiple nodeport-addresses', SEVERAL),
    told('TestNodePorts/pod to cluster IP', EVERY_ADDRESS),
    told('TestNodePorts/external to nodePort', EVERY_ADDRESS, SEVERAL),
    told('TestNodePorts/node to nodePort', EVERY_ADDRESS, SEVERAL),
    told('TestNodePorts/external to nodePort on secondary IP', SEVERAL),
    told('TestNodePorts/secondary nodeIP ignores NodePorts', CHOSEN),
    ...SERVICE_MAPS,
    ...endpointRows('TestUpdateEndpointsMap', 'unnamed'),
    {
      title: 'TestHealthCheckNodePortWhenTerminating',
      tests: {
        'test/upstream/unit/endpoints-map.test.ts': [
          'ready endpoints on this node are counted by address, and those that drain are not',
        ],
      },
    },
    {
      title: 'TestSyncProxyRulesRepeated',
      tests: {
        'test/proxy/modes/nftables/desire.test.ts': [
          'ends in the same state whether built step by step or at once (invariant 12), and a restart writes nothing',
          'writes the elements of one endpoint and of its frontend, however many Services there are',
        ],
        'test/proxy/modes/nftables/faults.test.ts': ['keeps an unused chain for a while, because packets may be in it'],
      },
    },
    {
      title: 'TestSyncProxyRulesStartup',
      tests: {
        'test/proxy/modes/nftables/groups.test.ts': [
          'replaces elements of a Service even when a restart lost their owner',
        ],
        'test/netns/nftables-agent.test.ts': [
          'stops with its table in place, and a restart writes nothing (invariant 10)',
        ],
      },
    },
    ...metricRows('both'),
    notHere('Test_servicePortChainNameBase', NAMES),
    notHere('Test_servicePortEndpointChainNameBase', NAMES),
    { title: 'TestProxier_OnServiceCIDRsChanged', tests: CLUSTER_IPS },
  ],
};

export const NFTABLES_HELPERS: UpstreamFile = {
  path: 'pkg/proxy/nftables/helpers_test.go',
  cases: [
    ...['Test_sortNFTablesTransaction', 'Test_diffNFTablesTransaction', 'Test_diffNFTablesChain'].map((title) =>
      notHere(title, 'it tests helpers that compare the text of kube-proxy’s table in its own tests'),
    ),
    ...['TestTracePacketV4', 'TestTracePacketV6'].map((title) => ({
      title,
      tests: { 'test/inspect/explain/walk.test.ts': ['has the elements of nftables that were found, and the draw'] },
      not: 'it tests the walk of packets in kube-proxy’s own tests; here the engine of `explain` walks, and kernels confirm it',
    })),
  ],
};

/** Newer than 1.36. */
export const NFTABLES_CLEANUP: UpstreamFile = {
  path: 'pkg/proxy/nftables/cleanup_test.go',
  cases: [
    ...['TestCleanupLeftoversDeletesExistingTables', 'TestCleanupLeftoversNotFoundIgnored'].map((title) =>
      tested(title, 'test/netns/nftables-agent.test.ts', 'cleans up all that is ours and nothing else (k8s#55857)'),
    ),
    tested(
      'TestCleanupLeftoversRunErrorSetsEncountered',
      'test/netns/user-namespace.test.ts',
      'says which capability is missing where its rights end, and what stays, and fails',
    ),
    ...['TestCleanupLeftoversNewClientFails', 'TestCleanupLeftoversPartialNewFailure'].map((title) =>
      notHere(title, 'it tests what happens without the tool nft; slicewire speaks netlink'),
    ),
  ],
};

/** Newer than 1.36. */
export const USER_NAMESPACE: UpstreamFile = {
  path: 'pkg/proxy/nftables/proxy_userns_test.go',
  cases: [
    tested(
      'TestProxyRulesInUserNS',
      'test/netns/user-namespace.test.ts',
      'writes ten thousand elements as its root, takes over from kube-proxy, and cleans up',
    ),
  ],
};
