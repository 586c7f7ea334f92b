/** Unit tests of kube-proxy's command and of its configuration. */
import { upstreamFile } from '../cases.ts';

export const commandCases = [
  upstreamFile('cmd/kube-proxy/app/options_test.go', {
    TestLoadConfig: { by: 'test/upstream/unit/start.test.ts', rows: 7 },
    'TestLoadConfig/iptables mode, IPv6 "[::]" bind address': {
      by: 'test/upstream/unit/start.test.ts',
      differs: 'what kube-proxy loads here it refuses at its next step, the validation; slicewire refuses it at once',
    },
    'TestLoadConfigFailures/Decode error test': 'test/upstream/unit/start.test.ts',
    'TestLoadConfigFailures/Bad config type test': 'test/upstream/unit/start.test.ts',
    'TestLoadConfigFailures/Missing quotes around :: bindAddress': 'test/upstream/unit/start.test.ts',
    'TestLoadConfigFailures/Duplicate fields': {
      not: 'kube-proxy has the rows in a comment: its only version of the file is read leniently',
    },
    'TestLoadConfigFailures/Unknown field': {
      not: 'kube-proxy has the rows in a comment: its only version of the file is read leniently',
    },
    TestProcessHostnameOverrideFlag: { by: 'test/upstream/unit/start.test.ts', rows: 3 },
    TestProcessV1Alpha1Flags: { by: 'test/upstream/unit/start.test.ts', rows: 4 },
    'TestProcessV1Alpha1Flags/winkernel configuration': { not: 'kernelspace is for Windows alone, and is refused' },
    'TestProcessV1Alpha1Flags/cluster cidr': 'test/agent/mode-settings.test.ts',
    TestOptionsComplete: { by: 'test/config/config.test.ts', rows: 5 },
    'TestOptionsComplete/conntrack': 'test/config/file-fields.test.ts',
    TestAddressFromDeprecatedFlags: { by: 'test/config/file-fields.test.ts', rows: 5 },
  }),
  upstreamFile('cmd/kube-proxy/app/server_linux_test.go', {
    Test_platformApplyDefaults: { by: 'test/upstream/unit/start.test.ts', rows: 5 },
    Test_getLocalDetectors: { by: 'test/upstream/unit/node-settings.test.ts', rows: 18 },
    'Test_getLocalDetectors/unknown LocalMode': 'test/upstream/unit/configuration.test.ts',
    'Test_getLocalDetectors/LocalModeBridgeInterface, strange bridge name': {
      by: 'test/config/config.test.ts',
      differs: 'the kernel has no interface of a name of more than 15 bytes: the name is refused',
    },
    'Test_getLocalDetectors/LocalModeInterfaceNamePrefix, strange interface name': {
      by: 'test/config/config.test.ts',
      differs: 'the kernel has no interface of a name of more than 15 bytes: the name is refused',
    },
    TestConfigChange: {
      by: 'test/netns/operating.test.ts',
      rows: 2,
      differs: 'kube-proxy exits when its file changes, and is started again',
    },
  }),
  upstreamFile('cmd/kube-proxy/app/server_test.go', {
    Test_detectNodeIPs: {
      by: 'test/upstream/unit/node-settings.test.ts',
      rows: 8,
      differs:
        'where nothing else is known, the addresses of the interfaces count, not a loopback address; slicewire serves both families alike: there is no primary one',
    },
    'Test_detectNodeIPs/Dual stack, primary IPv4': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_detectNodeIPs/Dual stack, primary IPv6': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_detectNodeIPs/Dual stack, override IPv4': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_detectNodeIPs/Dual stack, override IPv6': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_detectNodeIPs/Dual stack, override primary family, IPv4': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_detectNodeIPs/Dual stack, override primary family, IPv6': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    Test_checkBadConfig: {
      not: 'slicewire has no such warning at its start; `slicewire exposure` names node ports that are open on public addresses',
    },
    'Test_checkBadIPConfig/empty config': 'test/upstream/unit/node-settings.test.ts',
    'Test_checkBadIPConfig/ok single-stack clusterCIDR': 'test/upstream/unit/node-settings.test.ts',
    'Test_checkBadIPConfig/ok dual-stack clusterCIDR': 'test/upstream/unit/node-settings.test.ts',
    'Test_checkBadIPConfig/ok reversed dual-stack clusterCIDR': 'test/upstream/unit/node-settings.test.ts',
    'Test_checkBadIPConfig/ok single-stack node.spec.podCIDRs': 'test/upstream/unit/node-settings.test.ts',
    'Test_checkBadIPConfig/ok dual-stack node.spec.podCIDRs': 'test/upstream/unit/node-settings.test.ts',
    'Test_checkBadIPConfig/ok reversed dual-stack node.spec.podCIDRs': 'test/upstream/unit/node-settings.test.ts',
    'Test_checkBadIPConfig/wrong-family clusterCIDR': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs:
        'what is of one family alone counts for that family; the agent ends only where `--cluster-cidr` has no range of a family that works here',
    },
    'Test_checkBadIPConfig/wrong-family clusterCIDR when using ClusterCIDR LocalDetector': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs:
        'what is of one family alone counts for that family; the agent ends only where `--cluster-cidr` has no range of a family that works here',
    },
    'Test_checkBadIPConfig/wrong-family node.spec.podCIDRs': {
      by: 'test/upstream/unit/node-settings.test.ts',
      differs:
        'what is of one family alone counts for that family; the agent ends only where `--cluster-cidr` has no range of a family that works here',
    },
    'Test_checkBadIPConfig/ok IPv4 metricsBindAddress': {
      by: 'test/config/file-fields.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_checkBadIPConfig/ok IPv6 metricsBindAddress': {
      by: 'test/config/file-fields.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_checkBadIPConfig/ok unspecified wrong-family metricsBindAddress': {
      by: 'test/config/file-fields.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_checkBadIPConfig/wrong family metricsBindAddress': {
      by: 'test/config/file-fields.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_checkBadIPConfig/ok ipvs.excludeCIDRs': {
      by: 'test/upstream/unit/configuration.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_checkBadIPConfig/wrong family ipvs.excludeCIDRs': {
      by: 'test/upstream/unit/configuration.test.ts',
      differs: 'slicewire serves both families alike: there is no primary one',
    },
    'Test_checkBadIPConfig/ok winkernel.sourceVip': {
      not: 'fields of Windows have no effect, and a warning names them',
    },
    'Test_checkBadIPConfig/wrong family winkernel.sourceVip': {
      not: 'fields of Windows have no effect, and a warning names them',
    },
    TestStatuszRegistryReceivesListedPaths: 'test/serve/zpages.test.ts',
    TestConfigz: 'test/serve/http.test.ts',
    TestKubeProxyNativeHistogramMetrics: {
      not: 'the library that writes the metrics has no native histograms (docs/monitoring.md)',
    },
  }),
  upstreamFile('pkg/proxy/apis/config/register_test.go', {
    TestComponentConfigSetup: { not: 'it tests the packages of kube-proxy’s configuration in Go' },
  }),
  upstreamFile('pkg/proxy/apis/config/scheme/scheme_test.go', {
    TestRoundTripFuzzing: { not: 'it tests the conversion between kube-proxy’s internal and external objects' },
    TestRoundTripYAML: 'test/config/config.test.ts',
    TestDefaults: 'test/config/config.test.ts',
  }),
  upstreamFile('pkg/proxy/apis/config/v1alpha1/defaults_test.go', {
    'TestDefaultsKubeProxyConfiguration/empty-config': 'test/config/config.test.ts',
    'TestDefaultsKubeProxyConfiguration/metrics and healthz address with no port': 'test/config/file-fields.test.ts',
  }),
  upstreamFile('pkg/proxy/apis/config/validation/validation_test.go', {
    TestValidateKubeProxyConfiguration: { by: 'test/upstream/unit/configuration.test.ts', rows: 16 },
    'TestValidateKubeProxyConfiguration/invalid HealthzBindAddress': {
      by: 'test/config/file-fields.test.ts',
      differs: 'an address without a port has the default port, as where kube-proxy loads a file',
    },
    'TestValidateKubeProxyConfiguration/invalid MetricsBindAddress': {
      by: 'test/config/file-fields.test.ts',
      differs: 'an address without a port has the default port, as where kube-proxy loads a file',
    },
    TestValidateHostPort: { by: 'test/upstream/unit/configuration.test.ts', rows: 7 },
    'TestValidateHostPort/missing port': {
      by: 'test/config/file-fields.test.ts',
      differs: 'an address without a port has the default port, as where kube-proxy loads a file',
    },
    TestValidateKubeProxyIPTablesConfiguration: { by: 'test/upstream/unit/configuration.test.ts', rows: 2 },
    TestValidateKubeProxyIPVSConfiguration: { by: 'test/upstream/unit/configuration.test.ts', rows: 3 },
    TestValidateKubeProxyLinuxConfiguration: { by: 'test/upstream/unit/configuration.test.ts', rows: 10 },
    TestValidateProxyMode: 'test/config/file-fields.test.ts',
    TestValidateClientConnectionConfiguration: { by: 'test/upstream/unit/configuration.test.ts', rows: 3 },
    TestValidateKubeProxyNodePortAddress: { by: 'test/upstream/unit/configuration.test.ts', rows: 19 },
    'TestValidateKubeProxyNodePortAddress/invalid primary/CIDR mix 1': {
      by: 'test/config/config.test.ts',
      differs: 'words and CIDRs may be mixed (docs/semantics.md 6.9)',
    },
    'TestValidateKubeProxyNodePortAddress/invalid primary/CIDR mix 2': {
      by: 'test/config/config.test.ts',
      differs: 'words and CIDRs may be mixed (docs/semantics.md 6.9)',
    },
    TestValidateKubeProxyExcludeCIDRs: { by: 'test/upstream/unit/configuration.test.ts', rows: 18 },
    TestValidateDetectLocalConfiguration: { by: 'test/upstream/unit/configuration.test.ts', rows: 8 },
    TestValidateDualStackCIDRStrings: { by: 'test/upstream/unit/configuration.test.ts', rows: 7 },
    'TestValidateDualStackCIDRStrings/empty cidr string': {
      not: 'an inner function refuses an empty list, and kube-proxy does not call it for one: an empty clusterCIDR is right',
    },
  }),
  upstreamFile('pkg/proxy/config/api_test.go', {
    TestNewServicesSourceApi_UpdatesAndMultipleServices: 'test/netns/cluster.test.ts',
    TestNewEndpointsSourceApi_UpdatesAndMultipleEndpoints: 'test/netns/cluster.test.ts',
    TestInitialSync: 'test/proxy/sync/faults.test.ts',
  }),
  upstreamFile('pkg/proxy/config/config_test.go', {
    TestNewServiceAddedAndNotified: 'test/cluster/source/kubernetes.test.ts',
    TestServiceAddedRemovedSetAndNotified: 'test/cluster/source/kubernetes.test.ts',
    TestNewServicesMultipleHandlersAddedAndNotified: {
      by: 'test/cluster/source/kubernetes.test.ts',
      not: 'changes have one reader, the cache of the agent: there are no several handlers to tell',
    },
    TestNewEndpointsMultipleHandlersAddedAndNotified: {
      by: 'test/cluster/source/kubernetes.test.ts',
      not: 'changes have one reader, the cache of the agent: there are no several handlers to tell',
    },
    TestNewEndpointsMultipleHandlersAddRemoveSetAndNotified: {
      by: 'test/cluster/source/kubernetes.test.ts',
      not: 'changes have one reader, the cache of the agent: there are no several handlers to tell',
    },
    TestNewServiceCIDRsMultipleHandlersAddRemoveSetAndNotified: {
      by: 'test/cluster/source/kubernetes.test.ts',
      not: 'changes have one reader, the cache of the agent: there are no several handlers to tell',
    },
    TestNewNodesMultipleHandlersAddRemoveSetAndNotified: 'test/netns/cluster.test.ts',
    TestNewNodeTopologyConfig: 'test/netns/cluster.test.ts',
  }),
];
