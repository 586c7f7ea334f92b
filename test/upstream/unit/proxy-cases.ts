/** Unit tests of what all of kube-proxy's proxiers share. */
import { upstreamFile } from '../cases.ts';

export const proxyCases = [
  upstreamFile('pkg/proxy/conntrack/cleanup_test.go', {
    TestCleanStaleEntries: {
      by: ['test/upstream/unit/stale-flows.test.ts', 'test/netns/stale-flows.test.ts'],
      differs:
        'connections of TCP and SCTP that nobody ever answered are deleted too, where their endpoint is gone (docs/semantics.md 8.3)',
    },
    TestPerformanceCleanStaleEntries: {
      by: ['test/proxy/sync/flow-sweeper.test.ts', 'test/native/netlink.test.ts'],
      not: 'the number of requests is not counted: the table is read in parts, and deletes are sent together',
    },
    TestServiceWithoutEndpoints: {
      by: 'test/upstream/unit/stale-flows.test.ts',
      differs:
        'kube-proxy leaves the flows of a Service without endpoints; they go to a dead pod for as long as their client sends (k8s#139628)',
    },
  }),
  upstreamFile('pkg/proxy/conntrack/conntrack_test.go', {
    TestConntracker_DeleteEntries: { by: 'test/native/netlink.test.ts', rows: 4 },
    'TestConntracker_DeleteEntries/Delete flow with empty fields (should match nothing)': {
      not: 'a flow is deleted by its id and its whole tuple, as the kernel listed it: none has empty fields',
    },
    'TestConntracker_DeleteEntries/Delete with empty list': 'test/proxy/sync/flow-sweeper.test.ts',
  }),
  upstreamFile('pkg/proxy/conntrack/filter_test.go', {
    TestFlowFilter: {
      not: 'it tests kube-proxy’s filter of a second listing; here flows are deleted by their ids, without one',
    },
    TestFlowFilter_Exhaustive: {
      not: 'it tests kube-proxy’s filter of a second listing; here flows are deleted by their ids, without one',
    },
  }),
  upstreamFile('pkg/proxy/conntrack/sysctls_test.go', {
    TestGetConntrackMax: 'test/kernel/conntrack-settings.test.ts',
    TestGetConntrackMax_Capped: 'test/kernel/conntrack-settings.test.ts',
    TestSetupConntrack: { by: 'test/kernel/conntrack-settings.test.ts', rows: 13 },
    'TestSetupConntrack/an error is returned if conntrack.SetTCPEstablishedTimeout fails': {
      by: ['test/kernel/conntrack-settings.test.ts', 'test/netns/agent.test.ts'],
      differs: 'a setting that cannot be written is reported, and the agent goes on; kube-proxy exits',
    },
  }),
  upstreamFile('pkg/proxy/endpointschangetracker_test.go', {
    TestGetLocalEndpointIPs: 'test/upstream/unit/endpoints-map.test.ts',
    TestUpdateEndpointsMap: { by: 'test/upstream/unit/endpoints-map.test.ts', rows: 17 },
    'TestUpdateEndpointsMap/change from ready to terminating pod': {
      by: 'test/upstream/unit/endpoints-map.test.ts',
      differs: 'flows are not looked through for an endpoint that begins to drain: they go on',
    },
    TestLastChangeTriggerTime: { by: 'test/upstream/unit/endpoint-slices.test.ts', rows: 6 },
    'TestLastChangeTriggerTime/addEndpoints then deleteEndpoints': {
      by: 'test/upstream/unit/endpoint-slices.test.ts',
      differs:
        'a change counts although its slice is deleted before the sync; kube-proxy forgets the times of all slices of the Service then',
    },
    'TestLastChangeTriggerTime/add then delete then add again': {
      by: 'test/upstream/unit/endpoint-slices.test.ts',
      differs:
        'a change counts although its slice is deleted before the sync; kube-proxy forgets the times of all slices of the Service then',
    },
    TestEndpointSliceUpdate: { by: 'test/upstream/unit/endpoint-slices.test.ts', rows: 11 },
    'TestCheckoutChanges/empty slices': {
      not: 'it tests how kube-proxy keeps changes until a sync: nothing in, nothing out',
    },
    'TestCheckoutChanges/adding initial slice': 'test/upstream/unit/endpoint-slices.test.ts',
    'TestCheckoutChanges/removing port in update': 'test/upstream/unit/endpoint-slices.test.ts',
  }),
  upstreamFile('pkg/proxy/endpointslicecache_test.go', {
    TestEndpointsMapFromESC: { by: 'test/upstream/unit/endpoint-slices.test.ts', rows: 9 },
    'TestEndpointInfoByServicePort/simple use case with 3 endpoints': 'test/upstream/unit/endpoint-slices.test.ts',
    'TestEndpointInfoByServicePort/4 different slices with duplicate IPs': 'test/upstream/unit/endpoint-slices.test.ts',
    'TestEndpointInfoByServicePort/with duplicate Endpoints, prefer non-terminating': {
      by: ['endpoint-in-two-slices', 'test/upstream/unit/endpoint-slices.test.ts'],
      differs:
        'of equal ones the first slice by name counts; kube-proxy takes the last that is not terminating, in the order of a map',
    },
    TestEsDataChanged: { by: 'test/upstream/unit/endpoint-slices.test.ts', rows: 5 },
    'TestEsDataChanged/identical slices, ports out of order': {
      not: 'whether another order alone is looked at again is left open: endpoints are sorted afterwards, and the rules stay the same',
    },
    'TestEsDataChanged/identical with endpoints out of order': {
      not: 'whether another order alone is looked at again is left open: endpoints are sorted afterwards, and the rules stay the same',
    },
    TestEndpointSliceCacheClearedCorrectly: 'test/upstream/unit/endpoint-slices.test.ts',
    TestSameServiceEndpointSliceCacheClearedCorrectly: 'test/upstream/unit/endpoint-slices.test.ts',
  }),
  upstreamFile('pkg/proxy/healthcheck/healthcheck_test.go', {
    TestServer: 'test/serve/service-health.test.ts',
    TestHealthzServer: 'test/serve/health.test.ts',
    TestLivezServer: {
      by: 'test/serve/health.test.ts',
      differs:
        '/livez says whether a restart would help: the agent is alive before its first sync, and while the kernel refuses writes',
    },
    TestServerWithSelectiveListeningAddress: 'test/serve/service-health.test.ts',
  }),
  upstreamFile('pkg/proxy/node_test.go', {
    TestNewNodeManager: { by: ['test/netns/cluster.test.ts', 'test/agent/mode-settings.test.ts'], rows: 7 },
    TestNodeManagerOnNodeChange: {
      by: 'test/netns/cluster.test.ts',
      rows: 4,
      differs: 'the agent takes what the Node says now, and its process goes on; kube-proxy exits and is started again',
    },
    TestNodeManagerOnNodeDelete: {
      by: 'test/serve/health.test.ts',
      differs:
        'the agent goes on with the last addresses and the last zone of a Node that was deleted (docs/semantics.md 9.2)',
    },
    TestNodeManagerNode: 'test/netns/cluster.test.ts',
  }),
  upstreamFile('pkg/proxy/runner/bounded_frequency_runner_test.go', {
    Test_BoundedFrequencyRunner: 'test/proxy/sync/scheduler.test.ts',
    TestBoundedFrequencyRunner_Run_RunsAgainAfterMinInterval_RealClock: 'test/proxy/sync/scheduler.test.ts',
    TestBoundedFrequencyRunner_Run_DoesNotRunBeforeMinInterval_RealClock: 'test/proxy/sync/scheduler.test.ts',
    Test_BoundedFrequencyRunnerRetry: 'test/proxy/sync/scheduler.test.ts',
    Test_BoundedFrequencyRunnerRetry_RealClock: 'test/proxy/sync/scheduler.test.ts',
    Test_BoundedFrequencyRunnerRetryShorterThanMinInterval: 'test/proxy/sync/scheduler.test.ts',
    TestBoundedFrequencyRunner_RunAfterMaxInterval_RealClock: 'test/proxy/sync/scheduler.test.ts',
  }),
  upstreamFile('pkg/proxy/servicechangetracker_test.go', {
    TestServiceToServiceMap: { by: 'test/upstream/unit/service-map.test.ts', rows: 14 },
    'TestServiceToServiceMap/service with ipv4 configurations under ipv4 mode': {
      by: 'test/upstream/unit/service-map.test.ts',
      differs:
        'an address that is an external IP and one of the load balancer has the source ranges (docs/semantics.md 1.14)',
    },
    'TestServiceToServiceMap/service with ipv6 configurations under ipv6 mode': {
      by: 'test/upstream/unit/service-map.test.ts',
      differs:
        'an address that is an external IP and one of the load balancer has the source ranges (docs/semantics.md 1.14)',
    },
    'TestServiceToServiceMap/service with both ipv4 and ipv6 configurations under ipv4 mode, ipv6 fields should be filtered':
      {
        by: 'test/upstream/unit/service-map.test.ts',
        differs:
          'an address that is an external IP and one of the load balancer has the source ranges (docs/semantics.md 1.14)',
      },
    'TestServiceToServiceMap/service with both ipv4 and ipv6 configurations under ipv6 mode, ipv4 fields should be filtered':
      {
        by: 'test/upstream/unit/service-map.test.ts',
        differs:
          'an address that is an external IP and one of the load balancer has the source ranges (docs/semantics.md 1.14)',
      },
    TestServiceMapUpdateHeadless: 'headless-no-address',
    TestUpdateServiceTypeExternalName: 'service-becomes-left-alone',
    TestBuildServiceMapAddRemove: 'test/upstream/unit/service-map.test.ts',
    TestBuildServiceMapServiceUpdate: 'test/upstream/unit/service-map.test.ts',
    TestServiceCacheLeaks: 'test/upstream/unit/service-map.test.ts',
  }),
  upstreamFile('pkg/proxy/topology_test.go', {
    TestCategorizeEndpoints: { by: 'test/upstream/unit/topology.test.ts', rows: 31 },
    'TestCategorizeEndpoints/PreferSameNode falls back to same-zone when feature gate disabled': {
      not: 'the gate is always on since 1.35, and slicewire has none',
    },
  }),
  upstreamFile('pkg/proxy/util/endpoints_test.go', {
    TestIPPart: { not: 'it takes the address out of a text of address and port; slicewire keeps both apart' },
  }),
  upstreamFile('pkg/proxy/util/linebuffer_test.go', {
    TestLineBufferWrite: { not: 'it tests the buffer in which kube-proxy writes its rules' },
    TestLineBufferWritePanic: { not: 'it tests the buffer in which kube-proxy writes its rules' },
    TestLineBufferWriteBytes: { not: 'it tests the buffer in which kube-proxy writes its rules' },
    TestWriteCountLines: { not: 'it tests the buffer in which kube-proxy writes its rules' },
  }),
  upstreamFile('pkg/proxy/util/localdetector_test.go', {
    TestNoOpLocalDetector: 'matrix-pods-unknown',
    TestDetectLocalByCIDR: 'node-masqueraded-by-cluster-cidr',
    TestDetectLocalByBridgeInterface: 'pods-by-bridge',
    TestDetectLocalNFTByBridgeInterface: 'pods-by-bridge',
    TestDetectLocalByInterfaceNamePrefix: 'pods-by-interface-prefix',
    TestDetectLocalNFTByInterfaceNamePrefix: 'pods-by-interface-prefix',
  }),
  upstreamFile('pkg/proxy/util/nfacct/nfacct_linux_test.go', {
    TestRunner_Add: { not: 'slicewire reads the kernel’s own counters of its rules, and needs no nfacct' },
    TestRunner_Get: { not: 'slicewire reads the kernel’s own counters of its rules, and needs no nfacct' },
    TestRunner_Ensure: { not: 'slicewire reads the kernel’s own counters of its rules, and needs no nfacct' },
    TestRunner_List: { not: 'slicewire reads the kernel’s own counters of its rules, and needs no nfacct' },
    TestDecode: { not: 'slicewire reads the kernel’s own counters of its rules, and needs no nfacct' },
  }),
  upstreamFile('pkg/proxy/util/nodeport_addresses_test.go', {
    TestGetNodeIPs: { by: 'test/upstream/unit/node-settings.test.ts', rows: 12 },
    'TestGetNodeIPs/IPv6 multiple': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs: '::1 never takes node ports: no packet to it can leave the node (docs/semantics.md 6.9)',
    },
    TestContainsIPv4Loopback: { by: 'test/upstream/unit/node-settings.test.ts', rows: 8 },
  }),
  upstreamFile('pkg/proxy/util/utils_test.go', {
    TestShouldSkipService: ['headless-no-address', 'external-name-only-a-name', 'service-of-other-proxy'],
    TestAppendPortIfNeeded: { by: 'test/config/file-fields.test.ts', rows: 5 },
    TestMapIPsByIPFamily: 'other-family-addresses',
    TestMapCIDRsByIPFamily: ['ranges-of-other-family', 'ranges-let-in'],
    TestGetClusterIPByFamily: ['service-without-family-address', 'dual-stack-own-addresses'],
    TestAddressSet: {
      not: 'it tests a set of addresses of kube-proxy; slicewire asks the kernel for those of its interfaces',
    },
    TestIsZeroCIDR: 'ranges-of-length-0',
  }),
];
