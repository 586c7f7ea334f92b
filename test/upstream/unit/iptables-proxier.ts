/** Cases of kube-proxy's iptables proxier. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';
import { notHere, rows, tested, told } from '../held.ts';
import {
  EVERY_SENDER,
  endpointRows,
  FROM_LOOPBACK,
  metricRows,
  PACKET_CASES,
  SERVICE_MAPS,
  TWO_SERVICES,
} from './packet-cases.ts';

const NO_LOOPBACK = 'no node port on a loopback address when that is not wanted, and never on ::1';
const EVERY_ADDRESS = 'a node port is served on every address of the node, to endpoints of known and of unknown nodes';
const CHOSEN = 'node ports on chosen addresses only';
const SEVERAL = 'node ports on several chosen addresses';
const BY_LOOPBACK = 'the node reaches a node port by 127.0.0.1';
const NEIGHBOUR = 'any loopback address will do, and a neighbour reaches none of them (CVE-2020-8558)';
const SETTINGS = 'test/agent/mode-settings.test.ts';

const NODE_PORTS: readonly UpstreamCase[] = [
  told('TestNodePorts/ipv4, localhost-nodeports enabled', BY_LOOPBACK, NEIGHBOUR, EVERY_ADDRESS),
  told('TestNodePorts/ipv4, localhost-nodeports disabled', NO_LOOPBACK, EVERY_ADDRESS),
  {
    title: 'TestNodePorts/ipv4, localhost-nodeports disabled, localhost in nodeport-addresses',
    stories: [CHOSEN],
    tests: { [SETTINGS]: ['serves no node port on loopback when that is switched off'] },
  },
  {
    title: 'TestNodePorts/ipv4, localhost-nodeports enabled, multiple nodeport-addresses',
    stories: [SEVERAL],
    tests: { 'test/upstream/unit/node-settings.test.ts': ['TestGetNodeIPs > IPv4 multiple'] },
  },
  told('TestNodePorts/ipv6, localhost-nodeports enabled', NO_LOOPBACK, EVERY_ADDRESS),
  told('TestNodePorts/ipv6, localhost-nodeports disabled', NO_LOOPBACK, EVERY_ADDRESS),
  told('TestNodePorts/ipv6, localhost-nodeports disabled, multiple nodeport-addresses', CHOSEN),
  told('TestNodePorts/pod to cluster IP', EVERY_ADDRESS),
  told('TestNodePorts/external to nodePort', EVERY_ADDRESS, SEVERAL),
  told('TestNodePorts/node to nodePort', EVERY_ADDRESS, SEVERAL),
  told('TestNodePorts/localhost to nodePort gets masqueraded', BY_LOOPBACK),
  told('TestNodePorts/localhost to nodePort is ignored', NO_LOOPBACK),
  told('TestNodePorts/external to nodePort on secondary IP', EVERY_ADDRESS, SEVERAL),
  told('TestNodePorts/secondary nodeIP ignores NodePorts', CHOSEN),
];

const TEXT = 'it tests the parser of rules that kube-proxy’s own tests use';
const COMMITS = 'test/proxy/modes/iptables/commits.test.ts';

export const IPTABLES_PROXIER: UpstreamFile = {
  path: 'pkg/proxy/iptables/proxier_test.go',
  cases: [
    ...['TestParseIPTablesData', 'TestCheckIPTablesRuleJumps', 'TestSortIPTablesRules'].map((title) =>
      notHere(title, TEXT),
    ),
    {
      title: 'TestTracePacket',
      tests: {
        'test/inspect/explain/walk.test.ts': ['has the rules of iptables that did something, and their Service'],
      },
      not: 'it tests the walk of packets in kube-proxy’s own tests; here the engine of `explain` walks, and kernels confirm it',
    },
    {
      title: 'TestOverallIPTablesRules',
      stories: [EVERY_SENDER],
      not: 'it compares the text of all rules; here packets decide, and the rules may be others',
    },
    ...PACKET_CASES,
    told('TestClusterIPGeneral/clusterIP with TCP, UDP, and SCTP on same port (UDP)', TWO_SERVICES),
    ...NODE_PORTS,
    ...FROM_LOOPBACK,
    ...rows(
      'TestHealthCheckNodePort',
      ['firewall accepts HealthCheckNodePort', 'HealthCheckNodePort no longer has any rule'],
      (title) =>
        told(
          title,
          'the health check of a load balancer passes a closed firewall, with and without endpoints here',
          'the health check port passes a closed firewall on addresses that take no node ports',
        ),
    ),
    {
      title: 'TestDropInvalidRule',
      stories: [
        'a packet that conntrack finds invalid is not forwarded: it would leave untranslated',
        'where conntrack is to be liberal such a packet passes',
      ],
      tests: { 'test/netns/packet-counts.test.ts': ['report invalid packets that were dropped'] },
      differs: 'the counters of the rules themselves count, without the match nfacct',
    },
    told(
      'TestMasqueradeRule',
      'another bit of the mark asks for masquerading',
      'all traffic is masqueraded on request',
    ),
    {
      title: 'TestComputeProbability',
      stories: ['a pod is balanced over all endpoints and keeps its address'],
      tests: { 'test/proxy/modes/netfilter/endpoint-groups.test.ts': ['balances evenly over 700'] },
    },
    ...SERVICE_MAPS,
    ...endpointRows('TestUpdateEndpointsMap', 'unnamed'),
    tested(
      'TestHealthCheckNodePortWhenTerminating',
      'test/upstream/unit/endpoints-map.test.ts',
      'ready endpoints on this node are counted by address, and those that drain are not',
    ),
    {
      title: 'TestProxierMetricsIPTablesTotalRules',
      tests: {
        'test/telemetry/metrics.test.ts': ['of rules exist in iptables mode alone', 'count what happened'],
        'test/netns/operating.test.ts': ['starts with the file of kubeadm as it is, and answers on kube-proxy’s ports'],
      },
      not: 'the numbers are those of slicewire’s own rules, which are others',
    },
    {
      title: 'TestSyncProxyRulesLargeClusterMode',
      tests: {
        [COMMITS]: ['are one of nat for an endpoint that is changed or added'],
        'test/proxy/modes/iptables/desire.test.ts': [
          'writes a few chains for one endpoint, however many Services there are (invariant 11)',
        ],
      },
      not: 'there is no mode of large clusters: every write is a difference, however large the cluster is, and no comment is left out',
    },
    {
      title: 'TestSyncProxyRulesRepeated',
      tests: {
        [COMMITS]: [
          'are one of nat for an endpoint that is changed or added',
          'are one of nat for a Service that is added, with its endpoints, and two when it is removed',
          'are another of nat, which adds no rule, where a chain is deleted',
        ],
        'test/proxy/modes/iptables/desire.test.ts': [
          'ends in the same state whether built step by step or at once (invariant 12)',
        ],
        'test/netns/agent.test.ts': ['stops with its rules in place, and a restart finds nothing to do (invariant 10)'],
      },
    },
    ...metricRows('both'),
  ],
};
