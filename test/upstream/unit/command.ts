/** Cases of kube-proxy's command and its configuration. */
import type { UpstreamCase, UpstreamFile } from '../cases.ts';
import { notHere, rows, sameRows, tested } from '../held.ts';

const CONFIGURATION = 'test/upstream/unit/configuration.test.ts';
const START = 'test/upstream/unit/start.test.ts';
const SETTINGS = 'test/upstream/unit/node-settings.test.ts';
const CONFIG = 'test/config/config.test.ts';
const FIELDS = 'test/config/file-fields.test.ts';
const WRITTEN = 'is the same after it was written and read';
const WINDOWS = 'kernelspace is for Windows alone, and is refused';
const PORT_FILLED = 'an address without a port has the default port, as where kube-proxy loads a file';

const same = (name: string, titles: readonly string[]) => sameRows(name, CONFIGURATION, titles, name);
const CIDRS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map((n) => `valid ${n}`);
const WRONG_CIDRS = [
  'invalid foo address',
  'invalid octet address',
  'address cannot be 0',
  'address missing subnet range',
  'missing ipv6 subnet ranges',
  'invalid ipv6 ip format',
];

const MIXED = rows(
  'TestValidateKubeProxyNodePortAddress',
  ['invalid primary/CIDR mix 1', 'invalid primary/CIDR mix 2'],
  (title): UpstreamCase => ({
    title,
    tests: { [CONFIG]: ['takes keywords and CIDRs for the addresses of node ports'] },
    differs: 'words and CIDRs may be mixed (docs/semantics.md 6.9)',
  }),
);

export const VALIDATION: UpstreamFile = {
  path: 'pkg/proxy/apis/config/validation/validation_test.go',
  cases: [
    ...same('TestValidateKubeProxyConfiguration', [
      'basic config, unspecified Mode',
      'Mode specified, extra mode-specific configs',
      'empty HealthzBindAddress',
      'IPv6',
      'alternate healthz port',
      'ClusterCIDR is wrong IP family',
      'ClusterCIDR is dual-stack',
      'LocalModeInterfaceNamePrefix',
      'LocalModeBridgeInterface',
      'invalid BindAddress',
      'ConfigSyncPeriod must be > 0',
      'SyncPeriod must be > 0',
      'MinSyncPeriod must be > 0',
      'SyncPeriod must be >= MinSyncPeriod',
      'invalid DetectLocalMode',
      'invalid logging format',
    ]),
    ...[
      'TestValidateKubeProxyConfiguration/invalid HealthzBindAddress',
      'TestValidateKubeProxyConfiguration/invalid MetricsBindAddress',
      'TestValidateHostPort/missing port',
    ].map(
      (title): UpstreamCase => ({
        title,
        tests: { [FIELDS]: ['healthzBindAddress'] },
        differs: PORT_FILLED,
      }),
    ),
    ...same('TestValidateKubeProxyIPTablesConfiguration', [
      'valid custom MasqueradeBit',
      'MasqueradeBit cannot be < 0',
    ]),
    ...same('TestValidateKubeProxyIPVSConfiguration', [
      'IPVS Timeout can be 0',
      'IPVS Timeout > 0',
      'TCP,TCPFin,UDP Timeouts < 0',
    ]),
    ...same('TestValidateKubeProxyLinuxConfiguration', [
      'valid 5 second timeouts',
      'valid duration equal to 0 second timeout',
      'invalid MaxPerCore < 0',
      'invalid minimum < 0',
      'invalid TCPEstablishedTimeout < 0',
      'invalid TCPCloseWaitTimeout < 0',
      'invalid UDPTimeout < 0',
      'invalid UDPStreamTimeout < 0',
      'invalid OOMScoreAdj < -1000',
      'invalid OOMScoreAdj > 1000',
    ]),
    tested('TestValidateProxyMode', FIELDS, 'mode'),
    ...same('TestValidateClientConnectionConfiguration', ['successful 0 value', 'successful 5 value', 'burst < 0']),
    ...same('TestValidateHostPort', [
      'all IPs',
      'localhost',
      'specific IP',
      'digits outside of 1-255',
      'invalid named-port',
      'port cannot be 0',
      'port is greater than allowed range',
    ]),
    ...same('TestValidateKubeProxyNodePortAddress', ['no addresses', ...CIDRS, 'primary', ...WRONG_CIDRS]),
    ...MIXED,
    ...same('TestValidateKubeProxyExcludeCIDRs', ['no cidrs', ...CIDRS, ...WRONG_CIDRS]),
    tested(
      'TestValidateDetectLocalConfiguration/valid interface name prefix',
      CONFIGURATION,
      'LocalModeInterfaceNamePrefix',
    ),
    tested('TestValidateDetectLocalConfiguration/valid bridge interface', CONFIGURATION, 'LocalModeBridgeInterface'),
    tested('TestValidateDetectLocalConfiguration/valid cluster cidr', CONFIGURATION, 'ClusterCIDR is dual-stack'),
    ...same('TestValidateDetectLocalConfiguration', [
      'interfacePrefix is empty',
      'bridgeInterfaceName is empty',
      'invalid number of cluster cidrs',
      'invalid cluster cidr',
      'empty cluster cidrs with cluster cidr mode',
    ]),
    notHere(
      'TestValidateDualStackCIDRStrings/empty cidr string',
      'an inner function refuses an empty list, and kube-proxy does not call it for one: an empty clusterCIDR is right',
    ),
    ...same('TestValidateDualStackCIDRStrings', [
      'single ipv4 cidr',
      'single ipv6 cidr',
      'dual stack cidr pair',
      'multiple ipv4 cidrs',
      'multiple ipv6 cidrs',
      'malformed ipv4 cidr',
      'malformed ipv6 cidr',
    ]),
  ],
};

export const SCHEME: UpstreamFile = {
  path: 'pkg/proxy/apis/config/scheme/scheme_test.go',
  cases: [
    notHere('TestRoundTripFuzzing', 'it tests the conversion between kube-proxy’s internal and external objects'),
    tested('TestRoundTripYAML', CONFIG, WRITTEN),
    tested('TestDefaults', CONFIG, 'has kube-proxy’s defaults'),
  ],
};

export const DEFAULTS: UpstreamFile = {
  path: 'pkg/proxy/apis/config/v1alpha1/defaults_test.go',
  cases: [
    tested('TestDefaultsKubeProxyConfiguration/empty-config', CONFIG, 'has kube-proxy’s defaults'),
    {
      title: 'TestDefaultsKubeProxyConfiguration/metrics and healthz address with no port',
      tests: {
        [FIELDS]: [
          'healthzBindAddress',
          'of ports alone are deprecated: they fill in the port, and a file makes them idle (docs/semantics.md 10.5)',
        ],
      },
    },
  ],
};

export const REGISTER: UpstreamFile = {
  path: 'pkg/proxy/apis/config/register_test.go',
  cases: [notHere('TestComponentConfigSetup', 'it tests the packages of kube-proxy’s configuration in Go')],
};

const LENIENT = 'kube-proxy has the rows in a comment: its only version of the file is read leniently';

export const OPTIONS: UpstreamFile = {
  path: 'cmd/kube-proxy/app/options_test.go',
  cases: [
    ...sameRows('TestLoadConfig', START, [
      'iptables mode, IPv4 all-zeros bind address',
      'iptables mode, non-zeros IPv4 config',
      'iptables mode, IPv6 "::" bind address',
      'iptables mode, IPv6 ::0 bind address',
      'ipvs mode, IPv6 config',
      'unknown field',
      'duplicate field',
    ]),
    {
      title: 'TestLoadConfig/iptables mode, IPv6 "[::]" bind address',
      tests: { [START]: ['iptables mode, IPv6 "[::]" bind address'] },
      differs: 'what kube-proxy loads here it refuses at its next step, the validation; slicewire refuses it at once',
    },
    ...sameRows('TestLoadConfigFailures', START, [
      'Decode error test',
      'Bad config type test',
      'Missing quotes around :: bindAddress',
    ]),
    notHere('TestLoadConfigFailures/Duplicate fields', LENIENT),
    notHere('TestLoadConfigFailures/Unknown field', LENIENT),
    ...sameRows('TestProcessHostnameOverrideFlag', START, [
      'Hostname from config file',
      'Hostname from flag',
      'Hostname is space',
    ]),
    ...sameRows('TestProcessV1Alpha1Flags', START, [
      'iptables configuration',
      'iptables + ipvs configuration with iptables mode',
      'ipvs + iptables configuration with ipvs mode',
      'ipvs configuration',
    ]),
    notHere('TestProcessV1Alpha1Flags/winkernel configuration', WINDOWS),
    tested(
      'TestProcessV1Alpha1Flags/cluster cidr',
      'test/agent/mode-settings.test.ts',
      'recognises local pods by the first CIDR of the family, the Node’s, a bridge, a prefix, or not at all',
    ),
    ...['TestOptionsComplete/empty', 'TestOptionsComplete/empty-config'].map((title) =>
      tested(title, CONFIG, 'has kube-proxy’s defaults'),
    ),
    tested('TestOptionsComplete/conntrack', FIELDS, 'conntrack-max-per-core', 'conntrack-tcp-timeout-established'),
    ...['logging-config', 'flags', 'both'].map((row) =>
      tested(
        `TestOptionsComplete/${row}`,
        CONFIG,
        'lets the file win over flags, but for the host name, the API server and the log',
      ),
    ),
    ...rows(
      'TestAddressFromDeprecatedFlags',
      [
        'IPv4 bind address',
        'IPv4 bind address has port',
        'IPv6 bind address',
        'IPv6 bind address has port',
        'Invalid IPv6 Config',
      ],
      (title) =>
        tested(
          title,
          FIELDS,
          'of ports alone are deprecated: they fill in the port, and a file makes them idle (docs/semantics.md 10.5)',
        ),
    ),
  ],
};

const DETECTOR_ROWS: Readonly<Record<string, string>> = {
  'single-stack IPv4 cluster': 'single-stack IPv4 cluster',
  'single-stack IPv6 cluster': 'single-stack IPv6 cluster',
  'dual-stack IPv4-primary cluster': 'dual-stack IPv4-primary cluster',
  'dual-stack IPv6-primary cluster': 'dual-stack IPv6-primary cluster',
  'single-stack IPv6 cluster with single-stack IPv4 config': 'single-stack IPv4 cluster',
  'single-stack IPv4 cluster with single-stack IPv6 config': 'single-stack IPv6 cluster',
};
const detectors = (mode: string, more: Readonly<Record<string, string>>): UpstreamCase[] =>
  Object.entries({ ...DETECTOR_ROWS, ...more }).map(([row, test]) =>
    tested(`Test_getLocalDetectors/LocalMode${mode}, ${row}`, SETTINGS, `Test_getLocalDetectors > ${test}`),
  );
const STRANGE = 'the kernel has no interface of a name of more than 15 bytes: the name is refused';

export const LINUX: UpstreamFile = {
  path: 'cmd/kube-proxy/app/server_linux_test.go',
  cases: [
    ...sameRows('Test_platformApplyDefaults', START, [
      'defaults',
      'explicit',
      'override mode',
      'override detect-local',
      'override both',
    ]),
    ...detectors('ClusterCIDR', {
      'IPv4-primary kube-proxy / IPv6-primary config': 'dual-stack IPv6-primary cluster',
      'no ClusterCIDR': 'no CIDRs',
    }),
    ...detectors('NodeCIDR', {
      'IPv6-primary kube-proxy / IPv4-primary config': 'dual-stack IPv4-primary cluster',
      'no PodCIDRs': 'no CIDRs',
    }),
    tested('Test_getLocalDetectors/unknown LocalMode', CONFIGURATION, 'invalid DetectLocalMode'),
    ...['LocalModeBridgeInterface', 'LocalModeInterfaceNamePrefix'].map((row) =>
      tested(`Test_getLocalDetectors/${row}`, SETTINGS, 'of interfaces count in both families'),
    ),
    ...['LocalModeBridgeInterface, strange bridge name', 'LocalModeInterfaceNamePrefix, strange interface name'].map(
      (row): UpstreamCase => ({
        title: `Test_getLocalDetectors/${row}`,
        tests: { [CONFIG]: ['admits no name of an interface that iptables refuses'] },
        differs: STRANGE,
      }),
    ),
    ...rows(
      'TestConfigChange',
      ['update config file', 'fake error'],
      (title, row): UpstreamCase => ({
        title,
        tests: {
          'test/netns/operating.test.ts': [
            row === 'fake error'
              ? 'refuses a changed file that is wrong, names all that is, and goes on with the former'
              : 'takes a changed file in place: no request fails, the process is the same, health goes on',
          ],
        },
        differs: 'kube-proxy exits when its file changes, and is started again',
      }),
    ),
  ],
};

const NO_PRIMARY = 'slicewire serves both families alike: there is no primary one';
const NO_WARNING =
  'slicewire has no such warning at its start; `slicewire exposure` names node ports that are open on public addresses';
const ONE_FAMILY =
  'what is of one family alone counts for that family; the agent ends only where `--cluster-cidr` has no range of a family that works here';

export const SERVER: UpstreamFile = {
  path: 'cmd/kube-proxy/app/server_test.go',
  cases: [
    ...rows(
      'Test_detectNodeIPs',
      [
        'Bind address IPv4 unicast address and no Node object',
        'Bind address IPv6 unicast address and no Node object',
        'No Valid IP found and no bind address',
        'No Valid IP found and unspecified bind address',
        'Bind address 0.0.0.0 and node with IPv4 InternalIP set',
        'Bind address :: and node with IPv4 InternalIP set',
        'Bind address 0.0.0.0 and node with IPv6 InternalIP set',
        'Bind address :: and node with IPv6 InternalIP set',
      ],
      (title, row): UpstreamCase => ({
        title,
        tests: { [SETTINGS]: [`Test_detectNodeIPs > ${row}`] },
        differs: `where nothing else is known, the addresses of the interfaces count, not a loopback address; ${NO_PRIMARY}`,
      }),
    ),
    ...rows(
      'Test_detectNodeIPs',
      [
        'Dual stack, primary IPv4',
        'Dual stack, primary IPv6',
        'Dual stack, override IPv4',
        'Dual stack, override IPv6',
        'Dual stack, override primary family, IPv4',
        'Dual stack, override primary family, IPv6',
      ],
      (title, row): UpstreamCase => ({
        title,
        tests: { [SETTINGS]: [`Test_detectNodeIPs > ${row}`] },
        differs: NO_PRIMARY,
      }),
    ),
    notHere('Test_checkBadConfig', NO_WARNING),
    ...rows(
      'Test_checkBadIPConfig',
      [
        'empty config',
        'ok single-stack clusterCIDR',
        'ok dual-stack clusterCIDR',
        'ok reversed dual-stack clusterCIDR',
        'ok single-stack node.spec.podCIDRs',
        'ok dual-stack node.spec.podCIDRs',
        'ok reversed dual-stack node.spec.podCIDRs',
      ],
      (title) =>
        tested(
          title,
          SETTINGS,
          'Test_getLocalDetectors > single-stack IPv4 cluster',
          'Test_getLocalDetectors > dual-stack IPv4-primary cluster',
          'Test_getLocalDetectors > dual-stack IPv6-primary cluster',
        ),
    ),
    ...rows(
      'Test_checkBadIPConfig',
      [
        'wrong-family clusterCIDR',
        'wrong-family clusterCIDR when using ClusterCIDR LocalDetector',
        'wrong-family node.spec.podCIDRs',
      ],
      (title): UpstreamCase => ({
        title,
        tests: {
          [SETTINGS]: [
            'Test_getLocalDetectors > single-stack IPv4 cluster',
            'Test_getLocalDetectors > single-stack IPv6 cluster',
          ],
        },
        differs: ONE_FAMILY,
      }),
    ),
    ...rows(
      'Test_checkBadIPConfig',
      [
        'ok IPv4 metricsBindAddress',
        'ok IPv6 metricsBindAddress',
        'ok unspecified wrong-family metricsBindAddress',
        'wrong family metricsBindAddress',
      ],
      (title): UpstreamCase => ({
        title,
        tests: { [FIELDS]: ['metricsBindAddress'] },
        differs: NO_PRIMARY,
      }),
    ),
    ...rows(
      'Test_checkBadIPConfig',
      ['ok ipvs.excludeCIDRs', 'wrong family ipvs.excludeCIDRs'],
      (title): UpstreamCase => ({
        title,
        tests: {
          [CONFIGURATION]: [
            'TestValidateKubeProxyExcludeCIDRs > valid 1',
            'TestValidateKubeProxyExcludeCIDRs > valid 11',
          ],
        },
        differs: NO_PRIMARY,
      }),
    ),
    ...rows('Test_checkBadIPConfig', ['ok winkernel.sourceVip', 'wrong family winkernel.sourceVip'], (title) =>
      notHere(title, 'fields of Windows have no effect, and a warning names them'),
    ),
    tested(
      'TestStatuszRegistryReceivesListedPaths',
      'test/serve/zpages.test.ts',
      'are text for people, with a warning',
    ),
    tested('TestConfigz', 'test/serve/http.test.ts', 'has kube-proxy’s paths'),
    notHere(
      'TestKubeProxyNativeHistogramMetrics',
      'the library that writes the metrics has no native histograms (docs/monitoring.md)',
    ),
  ],
};
