/** Unit tests of kube-proxy's three proxiers and of their parts. */
import { type Holdings, upstreamFile } from '../cases.ts';

/** Cases that all three proxiers have. */
const IN_ALL: Holdings = {
  TestLoadBalancerIngressRouteTypeProxy: { by: 'ip-mode', rows: 3 },
  TestBuildServiceMapAddRemove: 'test/upstream/unit/service-map.test.ts',
  TestBuildServiceMapServiceHeadless: ['headless-no-address', 'test/upstream/unit/service-map.test.ts'],
  TestBuildServiceMapServiceTypeExternalName: ['external-name-only-a-name', 'test/upstream/unit/service-map.test.ts'],
  TestBuildServiceMapServiceUpdate: 'test/upstream/unit/service-map.test.ts',
  TestNoEndpointsMetric: { by: 'test/upstream/unit/node-settings.test.ts', rows: 7 },
};

/** Cases that the proxiers of iptables and nftables have. */
const WITHOUT_IPVS: Holdings = {
  'TestNoEndpointsReject/pod to cluster IP with no endpoints': 'cluster-ip-without-endpoints',
  'TestNoEndpointsReject/external to external IP with no endpoints': 'external-ip-cluster-without-endpoints',
  'TestNoEndpointsReject/pod to NodePort with no endpoints': 'node-port-cluster-without-endpoints',
  'TestNoEndpointsReject/external to NodePort with no endpoints': 'node-port-cluster-without-endpoints',
  'TestNoEndpointsReject/pod to LoadBalancer IP with no endpoints': 'lb-cluster-without-endpoints',
  'TestNoEndpointsReject/external to LoadBalancer IP with no endpoints': 'lb-cluster-without-endpoints',
  'TestLoadBalancer/pod to cluster IP': 'ranges-not-for-others',
  'TestLoadBalancer/external to nodePort': 'ranges-not-for-others',
  'TestLoadBalancer/nodePort bypasses LoadBalancerSourceRanges': 'ranges-not-for-others',
  'TestLoadBalancer/accepted external to LB1': 'ranges-let-in',
  'TestLoadBalancer/accepted external to LB2': 'ranges-let-in',
  'TestLoadBalancer/blocked external to LB1': 'ranges-let-in',
  'TestLoadBalancer/blocked external to LB2': 'ranges-let-in',
  'TestLoadBalancer/pod to LB1 (blocked by LoadBalancerSourceRanges)': 'ranges-let-in',
  'TestLoadBalancer/pod to LB2 (blocked by LoadBalancerSourceRanges)': 'ranges-let-in',
  'TestLoadBalancer/node to LB1 (allowed by LoadBalancerSourceRanges)': 'ranges-with-node',
  'TestLoadBalancer/node to LB2 (allowed by LoadBalancerSourceRanges)': 'ranges-with-node',
  'TestLoadBalancer/same node to LB1, SNATted to LB1 (implicitly allowed)': 'ranges-with-node-address',
  'TestLoadBalancer/same node to LB2, SNATted to LB2 (implicitly allowed)': 'ranges-with-node-address',
  'TestExternalTrafficPolicyLocal/pod to cluster IP hits both endpoints, unmasqueraded': 'matrix',
  'TestExternalTrafficPolicyLocal/pod to LB IP hits only both endpoints, unmasqueraded': 'lb-local',
  'TestExternalTrafficPolicyLocal/pod to external IP hits both endpoints, unmasqueraded': 'external-ip-local',
  'TestExternalTrafficPolicyLocal/pod to NodePort hits both endpoints, unmasqueraded': 'node-port-local',
  'TestExternalTrafficPolicyLocal/external to NodePort hits only local endpoint, unmasqueraded': 'node-port-local',
  'TestExternalTrafficPolicyLocal/external to external IP hits only local endpoint, unmasqueraded': 'external-ip-local',
  'TestExternalTrafficPolicyLocal/external to LB IP hits only local endpoint, unmasqueraded': 'lb-local',
  'TestExternalTrafficPolicyCluster/pod to cluster IP hits both endpoints, unmasqueraded': 'matrix',
  'TestExternalTrafficPolicyCluster/pod to NodePort hits both endpoints, masqueraded': 'node-port-cluster',
  'TestExternalTrafficPolicyCluster/external to NodePort hits both endpoints, masqueraded': 'node-port-cluster',
  'TestExternalTrafficPolicyCluster/pod to external IP hits both endpoints, masqueraded': 'external-ip-cluster',
  'TestExternalTrafficPolicyCluster/external to external IP hits both endpoints, masqueraded': 'external-ip-cluster',
  'TestExternalTrafficPolicyCluster/pod to LB IP hits both endpoints, masqueraded': 'lb-cluster',
  'TestExternalTrafficPolicyCluster/external to LB IP hits both endpoints, masqueraded': 'lb-cluster',
  'TestInternalTrafficPolicy/internalTrafficPolicy is cluster/pod to ClusterIP hits all endpoints':
    'cluster-ip-balanced',
  'TestInternalTrafficPolicy/internalTrafficPolicy is local and there is one local endpoint': 'internal-local',
  'TestInternalTrafficPolicy/internalTrafficPolicy is local and there are multiple local endpoints':
    'internal-local-every-endpoint',
  'TestInternalTrafficPolicy/internalTrafficPolicy is local and there are no local endpoints':
    'internal-local-every-endpoint',
  'TestInternalTrafficPolicy/endpoints deleted': 'internal-local-every-endpoint',
  TestTerminatingEndpointsTrafficPolicyLocal: { by: 'draining-lb-local', rows: 6 },
  TestTerminatingEndpointsTrafficPolicyCluster: { by: 'draining-lb-cluster', rows: 6 },
  TestInternalExternalMasquerade: { by: 'matrix', rows: 28 },
  'TestInternalExternalMasquerade/no LocalTrafficDetector': 'matrix-pods-unknown',
  'TestInternalExternalMasquerade/masqueradeAll': 'matrix-masquerade-all',
  'TestInternalExternalMasquerade/masqueradeAll, no LocalTrafficDetector': 'matrix-both',
  TestBadIPs: 'addresses-not-canonical',
  'TestNodePorts/pod to cluster IP': 'node-port-every-address',
  'TestNodePorts/external to nodePort': ['node-port-every-address', 'node-port-several-addresses'],
  'TestNodePorts/node to nodePort': ['node-port-every-address', 'node-port-several-addresses'],
  'TestNodePorts/secondary nodeIP ignores NodePorts': 'node-port-chosen-addresses',
  TestUpdateEndpointsMap: { by: 'test/upstream/unit/endpoints-map.test.ts', rows: 15 },
  TestHealthCheckNodePortWhenTerminating: 'test/upstream/unit/endpoints-map.test.ts',
};

export const proxierCases = [
  upstreamFile('pkg/proxy/iptables/cleanup_test.go', {
    TestCleanupLeftovers: ['test/proxy/sync/faults.test.ts', 'test/netns/agent.test.ts'],
  }),
  upstreamFile('pkg/proxy/iptables/number_generated_rules_test.go', {
    TestNumberIptablesRules: {
      by: ['test/proxy/modes/netfilter/endpoint-groups.test.ts', 'test/proxy/modes/iptables/desire.test.ts'],
      not: 'kube-proxy counts its rules; slicewire writes others, and its tests bound what one change writes',
    },
    Test_generateServiceEndpoints: { not: 'it tests a helper of the test above' },
  }),
  upstreamFile('pkg/proxy/iptables/proxier_test.go', {
    ...IN_ALL,
    ...WITHOUT_IPVS,
    TestParseIPTablesData: { not: 'it tests the parser of rules that kube-proxy’s own tests use' },
    TestCheckIPTablesRuleJumps: { not: 'it tests the parser of rules that kube-proxy’s own tests use' },
    TestSortIPTablesRules: { not: 'it tests the parser of rules that kube-proxy’s own tests use' },
    TestTracePacket: {
      by: 'test/inspect/explain/walk.test.ts',
      not: 'it tests the walk of packets in kube-proxy’s own tests; here the engine of `explain` walks, and kernels confirm it',
    },
    TestOverallIPTablesRules: {
      by: 'matrix',
      not: 'it compares the text of all rules; here packets decide, and the rules may be others',
    },
    TestClusterIPGeneral: { by: 'two-services-one-pod', rows: 9 },
    'TestInternalExternalMasquerade/localhost to NodePort': 'matrix-from-loopback',
    'TestInternalExternalMasquerade/localhost to NodePort with eTP:Local': 'matrix-from-loopback',
    'TestInternalExternalMasquerade/localhost to NodePort with iTP:Local': 'matrix-from-loopback',
    'TestNodePorts/ipv4, localhost-nodeports enabled': [
      'node-port-on-loopback',
      'node-port-any-loopback-address',
      'node-port-every-address',
    ],
    'TestNodePorts/ipv4, localhost-nodeports disabled': ['node-port-not-on-loopback', 'node-port-every-address'],
    'TestNodePorts/ipv4, localhost-nodeports disabled, localhost in nodeport-addresses': [
      'node-port-chosen-addresses',
      'test/agent/mode-settings.test.ts',
    ],
    'TestNodePorts/ipv4, localhost-nodeports enabled, multiple nodeport-addresses': [
      'node-port-several-addresses',
      'test/upstream/unit/node-settings.test.ts',
    ],
    'TestNodePorts/ipv6, localhost-nodeports enabled': ['node-port-not-on-loopback', 'node-port-every-address'],
    'TestNodePorts/ipv6, localhost-nodeports disabled': ['node-port-not-on-loopback', 'node-port-every-address'],
    'TestNodePorts/ipv6, localhost-nodeports disabled, multiple nodeport-addresses': 'node-port-chosen-addresses',
    'TestNodePorts/localhost to nodePort gets masqueraded': 'node-port-on-loopback',
    'TestNodePorts/localhost to nodePort is ignored': 'node-port-not-on-loopback',
    'TestNodePorts/external to nodePort on secondary IP': ['node-port-every-address', 'node-port-several-addresses'],
    TestHealthCheckNodePort: { by: ['health-port-closed-firewall', 'health-port-beside-chosen-addresses'], rows: 2 },
    TestDropInvalidRule: {
      by: ['invalid-not-forwarded', 'invalid-where-liberal', 'test/netns/packet-counts.test.ts'],
      differs: 'the counters of the rules themselves count, without the match nfacct',
    },
    TestMasqueradeRule: ['other-mark-bit', 'all-masqueraded'],
    TestComputeProbability: ['cluster-ip-balanced', 'test/proxy/modes/netfilter/endpoint-groups.test.ts'],
    TestProxierMetricsIPTablesTotalRules: {
      by: ['test/telemetry/metrics.test.ts', 'test/netns/operating.test.ts'],
      not: 'the numbers are those of slicewire’s own rules, which are others',
    },
    TestSyncProxyRulesLargeClusterMode: {
      by: ['test/proxy/modes/iptables/commits.test.ts', 'test/proxy/modes/iptables/desire.test.ts'],
      not: 'there is no mode of large clusters: every write is a difference, however large the cluster is, and no comment is left out',
    },
    TestSyncProxyRulesRepeated: [
      'test/proxy/modes/iptables/commits.test.ts',
      'test/proxy/modes/iptables/desire.test.ts',
      'test/netns/agent.test.ts',
    ],
  }),
  upstreamFile('pkg/proxy/ipvs/cleanup_test.go', {
    TestCleanupLeftovers: 'test/proxy/modes/ipvs/faults.test.ts',
  }),
  upstreamFile('pkg/proxy/ipvs/graceful_termination_test.go', {
    Test_GracefulDeleteRS: { by: 'test/proxy/modes/ipvs/draining.test.ts', rows: 4 },
    'Test_GracefulDeleteRS/graceful delete, real server mismatch should be no-op': {
      not: 'what is deleted is what the kernel was read to have: there is nothing to mismatch',
    },
    Test_RaceTerminateRSList: { not: 'it tests a list that threads of kube-proxy share; slicewire has one thread' },
  }),
  upstreamFile('pkg/proxy/ipvs/ipset/ipset_test.go', {
    TestListEntries: {
      by: 'test/native/messages.test.ts',
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    TestListSets: {
      by: 'test/native/messages.test.ts',
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    TestCheckIPSetVersion: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    TestFlushSet: { not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink' },
    TestDestroySet: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    TestDestroyAllSets: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    TestCreateSet: { not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink' },
    TestAddEntry: { not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink' },
    TestDelEntry: { not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink' },
    TestTestEntry: { not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink' },
    TestTestEntryIPv6: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    Test_validIPSetType: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    Test_validatePortRange: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    Test_validateFamily: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    Test_validateProtocol: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    TestValidateIPSet: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    Test_setIPSetDefaults: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    Test_checkIPandProtocol: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    Test_parsePortRange: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    TestValidateEntry: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
    TestEntryString: {
      not: 'it tests how kube-proxy calls the tool ipset and reads its text; slicewire speaks netlink',
    },
  }),
  upstreamFile('pkg/proxy/ipvs/ipset/testing/fake_test.go', {
    TestSetEntry: { not: 'it tests a fake of kube-proxy’s own tests' },
  }),
  upstreamFile('pkg/proxy/ipvs/ipset_test.go', {
    TestCheckIPSetVersion: { not: 'sets are written by netlink: there is no tool whose version counts' },
    TestSyncIPSetEntries: ['test/proxy/modes/ipvs/desire.test.ts', 'test/kernel/set-entries.test.ts'],
  }),
  upstreamFile('pkg/proxy/ipvs/proxier_test.go', {
    ...IN_ALL,
    TestGetNodeIPs: 'test/agent/mode-settings.test.ts',
    'TestNodePortIPv4/1 service with node port, has 2 endpoints': 'node-port-every-address',
    'TestNodePortIPv4/1 UDP service with node port, has endpoints': 'node-port-udp',
    'TestNodePortIPv4/service has node port but no endpoints': 'node-port-cluster-without-endpoints',
    'TestNodePortIPv4/node port service with protocol sctp on a node with multiple nodeIPs': 'node-port-sctp',
    'TestNodePortIPv4/node port service with protocol sctp and externalTrafficPolicy local': 'node-port-sctp',
    'TestNodePortIPv6/1 service with node port, has 2 endpoints': 'node-port-every-address',
    'TestNodePortIPv6/1 UDP service with node port, has endpoints (no action on IPv6 Proxier)': 'node-port-udp',
    'TestNodePortIPv6/service has node port but no endpoints': 'node-port-cluster-without-endpoints',
    'TestNodePortIPv6/node port service with protocol sctp on a node with multiple nodeIPs': 'node-port-sctp',
    Test_syncEndpoint_updateWeightsOnRestart: 'test/proxy/modes/ipvs/draining.test.ts',
    'TestIPv4Proxier/2 services with Cluster IP, each with endpoints': [
      'same-name-two-namespaces',
      'dual-stack-own-addresses',
    ],
    'TestIPv4Proxier/cluster IP service with no endpoints': 'cluster-ip-without-endpoints',
    'TestIPv6Proxier/2 services with Cluster IP, each with endpoints': [
      'same-name-two-namespaces',
      'dual-stack-own-addresses',
    ],
    'TestIPv6Proxier/cluster IP service with no endpoints': 'cluster-ip-without-endpoints',
    TestMasqueradeRule: ['all-masqueraded', 'other-mark-bit'],
    TestExternalIPsNoEndpoint: 'external-ip-cluster-without-endpoints',
    TestExternalIPs: 'external-ip-cluster',
    TestOnlyLocalExternalIPs: 'external-ip-local',
    TestLoadBalancer: ['lb-cluster', 'matrix'],
    TestOnlyLocalNodePorts: 'node-port-local',
    TestOnlyLocalLoadBalancing: 'lb-local',
    TestHealthCheckNodePort: 'health-port-closed-firewall',
    TestHealthCheckNodePortE2E: 'health-port-closed-firewall',
    TestLoadBalancerSourceRanges: 'ranges-let-in',
    TestAcceptIPVSTraffic: 'node-ports-closed-firewall',
    TestEndpointSliceE2E: 'endpoint-comes-drains-goes',
    'TestTestInternalTrafficPolicyE2E/internalTrafficPolicy is cluster with non-zero local endpoints': [
      'cluster-ip-balanced',
      'ready-here',
    ],
    'TestTestInternalTrafficPolicyE2E/internalTrafficPolicy is cluster with zero local endpoints': [
      'cluster-ip-balanced',
      'ready-here',
    ],
    'TestTestInternalTrafficPolicyE2E/internalTrafficPolicy is local with non-zero local endpoints':
      'internal-local-every-endpoint',
    'TestTestInternalTrafficPolicyE2E/internalTrafficPolicy is local with zero local endpoints':
      'internal-local-every-endpoint',
    Test_EndpointSliceReadyAndTerminatingCluster: 'draining-lb-cluster',
    Test_EndpointSliceReadyAndTerminatingLocal: 'draining-lb-local',
    Test_EndpointSliceOnlyReadyAndTerminatingCluster: 'draining-lb-cluster',
    Test_EndpointSliceOnlyReadyAndTerminatingLocal: 'draining-lb-local',
    TestSessionAffinity: ['affinity-known-client', 'test/vm/mode.vm.ts'],
    Test_updateEndpointsMap: { by: 'test/upstream/unit/endpoints-map.test.ts', rows: 15 },
    Test_syncService: 'test/proxy/modes/ipvs/desire.test.ts',
    TestCleanLegacyService: 'test/proxy/modes/ipvs/faults.test.ts',
    TestCleanLegacyService6: 'test/proxy/modes/ipvs/faults.test.ts',
    TestCleanLegacyServiceWithRealServers: 'test/proxy/modes/ipvs/faults.test.ts',
    TestCleanLegacyRealServersExcludeCIDRs: 'test/proxy/modes/ipvs/faults.test.ts',
    TestMultiPortServiceBindAddr: 'test/upstream/unit/ipvs.test.ts',
    Test_getFirstColumn: { not: 'it tests the parser of a list of kernel modules, which slicewire does not read' },
    Test_HealthCheckNodePortWhenTerminating: 'test/upstream/unit/endpoints-map.test.ts',
    TestFilterCIDRs: 'ranges-let-in',
    TestCreateAndLinkKubeChain: 'test/proxy/modes/netfilter/order.test.ts',
    TestIpIsValidForSet: ['test/agent/mode-settings.test.ts', 'test/kernel/node-facts.test.ts'],
    TestDismissLocalhostRuleExist: 'node-port-not-on-loopback',
  }),
  upstreamFile('pkg/proxy/ipvs/supported_test.go', {
    'TestCanUseIPVSProxier/happy days': 'test/vm/agent.vm.ts',
    'TestCanUseIPVSProxier/GetVirtualServers fail': 'test/vm/unusable.vm.ts',
    'TestCanUseIPVSProxier/AddVirtualServer fail': 'test/vm/unusable.vm.ts',
    'TestCanUseIPVSProxier/DeleteVirtualServer fail': 'test/vm/unusable.vm.ts',
    'TestCanUseIPVSProxier/ipset error': { not: 'sets are written by netlink: there is no tool whose version counts' },
    'TestCanUseIPVSProxier/ipset version too low': {
      not: 'sets are written by netlink: there is no tool whose version counts',
    },
  }),
  upstreamFile('pkg/proxy/ipvs/testing/fake_test.go', {
    TestSetGetLocalAddresses: { not: 'it tests a fake of kube-proxy’s own tests' },
  }),
  upstreamFile('pkg/proxy/ipvs/util/ipvs_linux_test.go', {
    Test_toVirtualServer: 'test/native/messages.test.ts',
    Test_toIPVSService: 'test/native/messages.test.ts',
    Test_toRealServer: 'test/native/messages.test.ts',
    Test_toIPVSDestination: 'test/native/messages.test.ts',
    Test_stringToProtocol: 'test/native/messages.test.ts',
    Test_protocolToString: 'test/native/messages.test.ts',
  }),
  upstreamFile('pkg/proxy/ipvs/util/ipvs_test.go', {
    TestVirtualServerEqual: 'test/proxy/modes/ipvs/desire.test.ts',
    TestRealServerEqual: 'test/proxy/modes/ipvs/desire.test.ts',
    TestFrontendServiceString: { not: 'it tests the text by which kube-proxy names a server in its own code and logs' },
    TestFrontendDestinationString: {
      not: 'it tests the text by which kube-proxy names a server in its own code and logs',
    },
  }),
  upstreamFile('pkg/proxy/ipvs/util/testing/fake_test.go', {
    TestVirtualServer: { not: 'it tests a fake of kube-proxy’s own tests' },
    TestRealServer: { not: 'it tests a fake of kube-proxy’s own tests' },
  }),
  upstreamFile('pkg/proxy/nftables/cleanup_test.go', {
    TestCleanupLeftoversDeletesExistingTables: 'test/netns/nftables-agent.test.ts',
    TestCleanupLeftoversNotFoundIgnored: 'test/netns/nftables-agent.test.ts',
    TestCleanupLeftoversRunErrorSetsEncountered: 'test/netns/user-namespace.test.ts',
    TestCleanupLeftoversNewClientFails: { not: 'it tests what happens without the tool nft; slicewire speaks netlink' },
    TestCleanupLeftoversPartialNewFailure: {
      not: 'it tests what happens without the tool nft; slicewire speaks netlink',
    },
  }),
  upstreamFile('pkg/proxy/nftables/helpers_test.go', {
    Test_sortNFTablesTransaction: {
      not: 'it tests helpers that compare the text of kube-proxy’s table in its own tests',
    },
    Test_diffNFTablesTransaction: {
      not: 'it tests helpers that compare the text of kube-proxy’s table in its own tests',
    },
    Test_diffNFTablesChain: { not: 'it tests helpers that compare the text of kube-proxy’s table in its own tests' },
    TestTracePacketV4: {
      by: 'test/inspect/explain/walk.test.ts',
      not: 'it tests the walk of packets in kube-proxy’s own tests; here the engine of `explain` walks, and kernels confirm it',
    },
    TestTracePacketV6: {
      by: 'test/inspect/explain/walk.test.ts',
      not: 'it tests the walk of packets in kube-proxy’s own tests; here the engine of `explain` walks, and kernels confirm it',
    },
  }),
  upstreamFile('pkg/proxy/nftables/proxier_test.go', {
    ...IN_ALL,
    ...WITHOUT_IPVS,
    TestOverallNFTablesRules: {
      by: 'matrix',
      not: 'it compares the text of the whole table; slicewire’s table is another one, and packets decide',
    },
    TestClusterIPGeneral: { by: 'two-services-one-pod', rows: 8 },
    'TestClusterIPGeneral/packet to unallocated cluster ip': [
      'test/proxy/modes/nftables/cluster-ips.test.ts',
      'test/netns/nftables-agent.test.ts',
    ],
    'TestNodePorts/ipv4': ['node-port-chosen-addresses', 'test/config/config.test.ts'],
    'TestNodePorts/ipv4, multiple nodeport-addresses': 'node-port-several-addresses',
    'TestNodePorts/ipv6': 'node-port-chosen-addresses',
    'TestNodePorts/ipv6, multiple nodeport-addresses': 'node-port-several-addresses',
    'TestNodePorts/external to nodePort on secondary IP': 'node-port-several-addresses',
    TestSyncProxyRulesRepeated: [
      'test/proxy/modes/nftables/desire.test.ts',
      'test/proxy/modes/nftables/faults.test.ts',
    ],
    TestSyncProxyRulesStartup: ['test/proxy/modes/nftables/groups.test.ts', 'test/netns/nftables-agent.test.ts'],
    Test_servicePortChainNameBase: {
      not: 'it tests kube-proxy’s names of chains in nftables; slicewire’s table has names of its own',
    },
    Test_servicePortEndpointChainNameBase: {
      not: 'it tests kube-proxy’s names of chains in nftables; slicewire’s table has names of its own',
    },
    TestProxier_OnServiceCIDRsChanged: [
      'test/proxy/modes/nftables/cluster-ips.test.ts',
      'test/netns/nftables-agent.test.ts',
    ],
  }),
  upstreamFile('pkg/proxy/nftables/proxy_userns_test.go', {
    TestProxyRulesInUserNS: 'test/netns/user-namespace.test.ts',
  }),
];
