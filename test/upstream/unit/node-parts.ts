/** Cases of what kube-proxy does beside its rules: health, connection tracking, helpers. */
import type { UpstreamFile } from '../cases.ts';
import { notHere, rows, sameRows, tested, told } from '../held.ts';

const SERVICE_HEALTH = 'test/serve/service-health.test.ts';
const HEALTH = 'test/serve/health.test.ts';
const SETTINGS = 'test/upstream/unit/node-settings.test.ts';
const FLOWS = 'test/upstream/unit/stale-flows.test.ts';
const SWEEPER = 'test/proxy/sync/flow-sweeper.test.ts';
const MESSAGES = 'test/native/netlink.test.ts';
const TRACKING = 'test/kernel/conntrack-settings.test.ts';

export const HEALTH_CHECKS: UpstreamFile = {
  path: 'pkg/proxy/healthcheck/healthcheck_test.go',
  cases: [
    tested(
      'TestServer',
      SERVICE_HEALTH,
      'count distinct addresses over all ports of the Service, and answer kube-proxy’s body',
      'answer 503 without an endpoint here, and are closed with the Service',
      'move with the Service’s port, and to another Service',
    ),
    tested(
      'TestHealthzServer',
      HEALTH,
      'answers as kube-proxy does: fields, their order, headers',
      'is alive before the first sync, but neither ready nor healthy, for every family (k8s#83263)',
      'is unhealthy when a change has not reached the kernel after the timeout, counted from the first, per family (k8s#105742)',
      'is unhealthy for a Node that is ineligible or unknown, and stays alive (docs/semantics.md 9.4)',
    ),
    {
      title: 'TestLivezServer',
      tests: {
        [HEALTH]: [
          'is alive before the first sync, but neither ready nor healthy, for every family (k8s#83263)',
          'is not alive when a sync does not end, and when a requested sync does not begin; a long sync is alive',
        ],
      },
      differs:
        '/livez says whether a restart would help: the agent is alive before its first sync, and while the kernel refuses writes',
    },
    tested(
      'TestServerWithSelectiveListeningAddress',
      SERVICE_HEALTH,
      'are many, and each sync asks once a family where to listen',
      'are of each family by itself',
    ),
  ],
};

export const CONNTRACK_CLEANUP: UpstreamFile = {
  path: 'pkg/proxy/conntrack/cleanup_test.go',
  cases: [
    {
      title: 'TestCleanStaleEntries',
      tests: {
        [FLOWS]: [
          'go on to that endpoint, and are deleted to one that does not serve and to one that is gone',
          'are deleted where the endpoint has another port now',
          'are deleted where nobody translated them',
          'to ports that the Service does not have stay, whoever answers',
        ],
        'test/netns/stale-flows.test.ts': [
          'nftables: connections that were answered, and those to an endpoint that is there, stay',
        ],
      },
      differs:
        'connections of TCP and SCTP that nobody ever answered are deleted too, where their endpoint is gone (docs/semantics.md 8.3)',
    },
    {
      title: 'TestPerformanceCleanStaleEntries',
      tests: {
        [SWEEPER]: ['deletes what is stale, part by part, and nothing else', 'lets others work after each part'],
        [MESSAGES]: ['sends deletes together, and matches each error to its flow'],
      },
      not: 'the number of requests is not counted: the table is read in parts, and deletes are sent together',
    },
    {
      title: 'TestServiceWithoutEndpoints',
      tests: { [FLOWS]: ['UDP flows of a Service without any endpoint are deleted (k8s#139628)'] },
      differs:
        'kube-proxy leaves the flows of a Service without endpoints; they go to a dead pod for as long as their client sends (k8s#139628)',
    },
  ],
};

export const CONNTRACK_DELETES: UpstreamFile = {
  path: 'pkg/proxy/conntrack/conntrack_test.go',
  cases: [
    ...rows(
      'TestConntracker_DeleteEntries',
      ['Delete single flow', 'Delete multiple flows', 'Delete all flows'],
      (title) =>
        tested(
          title,
          MESSAGES,
          'conntrack -D of one flow, by its tuple and its id',
          'sends deletes together, and matches each error to its flow',
        ),
    ),
    tested(
      'TestConntracker_DeleteEntries/Delete non-existent flow',
      MESSAGES,
      'sends deletes together, and matches each error to its flow',
    ),
    notHere(
      'TestConntracker_DeleteEntries/Delete flow with empty fields (should match nothing)',
      'a flow is deleted by its id and its whole tuple, as the kernel listed it: none has empty fields',
    ),
    tested(
      'TestConntracker_DeleteEntries/Delete with empty list',
      SWEEPER,
      'deletes what is stale, part by part, and nothing else',
    ),
  ],
};

export const CONNTRACK_FILTER: UpstreamFile = {
  path: 'pkg/proxy/conntrack/filter_test.go',
  cases: ['TestFlowFilter', 'TestFlowFilter_Exhaustive'].map((title) =>
    notHere(
      title,
      'it tests kube-proxy’s filter of a second listing; here flows are deleted by their ids, without one',
    ),
  ),
};

const ZERO = 'leaves settings of 0, and surplus buckets, unchanged';
const DIFFERS = 'writes settings that differ, the size before the buckets';

export const CONNTRACK_SETTINGS: UpstreamFile = {
  path: 'pkg/proxy/conntrack/sysctls_test.go',
  cases: [
    ...['TestGetConntrackMax', 'TestGetConntrackMax_Capped'].map((title) =>
      tested(
        title,
        TRACKING,
        'the table has so many entries for each core, at least the minimum, and at most a million by cores',
      ),
    ),
    ...rows(
      'TestSetupConntrack',
      [
        'do nothing if conntrack config is empty',
        'SetMax is not called if conntrack.maxPerCore is 0',
        'SetTCPEstablishedTimeout is not called if conntrack.tcpEstablishedTimeout is 0',
        'SetTCPCloseWaitTimeout is not called if conntrack.tcpCloseWaitTimeout is 0',
        'SetTCPBeLiberal is not called if conntrack.tcpBeLiberal is false',
        'SetUDPTimeout is called if conntrack.udpTimeout is zero',
        'SetUDPStreamTimeout is called if conntrack.udpStreamTimeout is zero',
      ],
      (title) => tested(title, TRACKING, ZERO),
    ),
    ...rows(
      'TestSetupConntrack',
      [
        'SetMax is called if conntrack.maxPerCore is specified',
        'SetTCPEstablishedTimeout is called if conntrack.tcpEstablishedTimeout is specified',
        'SetTCPCloseWaitTimeout is called if conntrack.tcpCloseWaitTimeout is specified',
        'SetTCPBeLiberal is called if conntrack.tcpBeLiberal is true',
        'SetUDPTimeout is called if conntrack.udpTimeout is specified',
        'SetUDPStreamTimeout is called if conntrack.udpStreamTimeout is specified',
      ],
      (title) => tested(title, TRACKING, DIFFERS, 'writes settings beyond the defaults'),
    ),
    {
      title: 'TestSetupConntrack/an error is returned if conntrack.SetTCPEstablishedTimeout fails',
      tests: {
        [TRACKING]: ['reports settings that cannot be written, and writes the others'],
        'test/netns/agent.test.ts': [
          'writes the settings of conntrack, lists them in a plan, and goes on where one cannot be written (k8s#141943)',
        ],
      },
      differs: 'a setting that cannot be written is reported, and the agent goes on; kube-proxy exits',
    },
  ],
};

export const NODE_PORT_ADDRESSES: UpstreamFile = {
  path: 'pkg/proxy/util/nodeport_addresses_test.go',
  cases: [
    ...sameRows(
      'TestGetNodeIPs',
      SETTINGS,
      [
        'IPv4 single',
        'IPv4 zero CIDR',
        'IPv6 zero CIDR',
        'IPv4 localhost exact',
        'IPv4 localhost subnet',
        'IPv4 multiple',
        'IPv4 multiple, no match',
        'empty list, IPv4 addrs',
        'empty list, IPv6 addrs',
        'IPv4 redundant CIDRs',
        'Dual-stack, redundant IPv4',
        'Dual-stack, redundant IPv6',
      ],
      'TestGetNodeIPs',
    ),
    {
      title: 'TestGetNodeIPs/IPv6 multiple',
      tests: { [SETTINGS]: ['TestGetNodeIPs > IPv6 multiple'] },
      differs: '::1 never takes node ports: no packet to it can leave the node (docs/semantics.md 6.9)',
    },
    ...sameRows(
      'TestContainsIPv4Loopback',
      SETTINGS,
      [
        'empty',
        'all zeros ipv4',
        'all zeros ipv6',
        'ipv4 loopback',
        'ipv6 loopback',
        'ipv4 loopback smaller range',
        'ipv4 loopback within larger range',
        'non loop loopback',
      ],
      'TestContainsIPv4Loopback',
    ),
  ],
};

export const LOCAL_DETECTOR: UpstreamFile = {
  path: 'pkg/proxy/util/localdetector_test.go',
  cases: [
    told('TestNoOpLocalDetector', 'every sender to every address of three policies, where pods cannot be told'),
    told('TestDetectLocalByCIDR', 'the node is masqueraded when a cluster CIDR is known, a pod is not'),
    ...['TestDetectLocalByBridgeInterface', 'TestDetectLocalNFTByBridgeInterface'].map((title) =>
      told(title, 'pods are told by their bridge'),
    ),
    ...['TestDetectLocalByInterfaceNamePrefix', 'TestDetectLocalNFTByInterfaceNamePrefix'].map((title) =>
      told(title, 'pods are told by the prefix of their interfaces'),
    ),
  ],
};

const OTHER_FAMILY = 'addresses of the other family stop nothing';
const DUAL_STACK = 'of a dual-stack Service each family has its own address and its own endpoints';
const PORTS = [
  'IPv4 all-zeros bind address has port',
  'non-zeros IPv4 config',
  'IPv6 "[::]" bind address has port',
  'IPv6 config',
  'Invalid IPv6 Config',
];

export const UTILS: UpstreamFile = {
  path: 'pkg/proxy/util/utils_test.go',
  cases: [
    told(
      'TestShouldSkipService',
      'a headless Service has no address',
      'a Service of type ExternalName is a name alone',
      'a Service of another service proxy is left to it',
    ),
    ...rows('TestAppendPortIfNeeded', PORTS, (title) =>
      tested(
        title,
        'test/config/file-fields.test.ts',
        'of ports alone are deprecated: they fill in the port, and a file makes them idle (docs/semantics.md 10.5)',
      ),
    ),
    told('TestMapIPsByIPFamily', OTHER_FAMILY),
    told(
      'TestMapCIDRsByIPFamily',
      'ranges of the other family alone let nobody of this one in',
      'source ranges let in whom they name and nobody else, on every address of the load balancer',
    ),
    told('TestGetClusterIPByFamily', 'a Service without an address of the family is not served in it', DUAL_STACK),
    notHere(
      'TestAddressSet',
      'it tests a set of addresses of kube-proxy; slicewire asks the kernel for those of its interfaces',
    ),
    told('TestIsZeroCIDR', 'a range of length 0 is no restriction'),
  ],
};

export const LINE_BUFFER: UpstreamFile = {
  path: 'pkg/proxy/util/linebuffer_test.go',
  cases: ['TestLineBufferWrite', 'TestLineBufferWritePanic', 'TestLineBufferWriteBytes', 'TestWriteCountLines'].map(
    (title) => notHere(title, 'it tests the buffer in which kube-proxy writes its rules'),
  ),
};

export const IP_PART: UpstreamFile = {
  path: 'pkg/proxy/util/endpoints_test.go',
  cases: [notHere('TestIPPart', 'it takes the address out of a text of address and port; slicewire keeps both apart')],
};

const NFACCT = 'slicewire reads the kernel’s own counters of its rules, and needs no nfacct';
export const COUNTERS: UpstreamFile = {
  path: 'pkg/proxy/util/nfacct/nfacct_linux_test.go',
  cases: ['TestRunner_Add', 'TestRunner_Get', 'TestRunner_Ensure', 'TestRunner_List', 'TestDecode'].map((title) =>
    notHere(title, NFACCT),
  ),
};
