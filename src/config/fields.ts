/** Every field of a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1): its type, and the flag with the same meaning, or why nothing follows from it. */

export type FieldType =
  | 'text'
  | 'boolean'
  | 'integer'
  | 'number'
  /** Go's, as text. */
  | 'duration'
  /** As text, or nanoseconds. */
  | 'duration or nanoseconds'
  | 'list of texts'
  | 'map of booleans'
  | 'any';

export interface Field {
  readonly path: string;
  readonly type: FieldType;
  /** Name of the flag. */
  readonly flag?: string;
  /** Why nothing follows from the field. */
  readonly idle?: string;
}

const flagged = (type: FieldType, fields: Readonly<Record<string, string>>): Field[] =>
  Object.entries(fields).map(([path, flag]) => ({ path, type, flag }));

const idle = (why: string, type: FieldType, ...paths: readonly string[]): Field[] =>
  paths.map((path) => ({ path, type, idle: why }));

const WINDOWS = 'it belongs to Windows';
const REQUESTS = 'requests are a few a minute';
const AT_ONCE = 'the log is written at once, as lines of one form';

export const FIELDS: readonly Field[] = [
  ...flagged('text', {
    mode: 'mode',
    hostnameOverride: 'hostname-override',
    bindAddress: 'bind-address',
    healthzBindAddress: 'healthz-bind-address',
    metricsBindAddress: 'metrics-bind-address',
    clusterCIDR: 'cluster-cidr',
    detectLocalMode: 'detect-local-mode',
    'detectLocal.bridgeInterface': 'pod-bridge-interface',
    'detectLocal.interfaceNamePrefix': 'pod-interface-name-prefix',
    'clientConnection.kubeconfig': 'kubeconfig',
    'clientConnection.contentType': 'kube-api-content-type',
    'ipvs.scheduler': 'ipvs-scheduler',
    'logging.format': 'logging-format',
  }),
  ...flagged('boolean', {
    bindAddressHardFail: 'bind-address-hard-fail',
    enableProfiling: 'profiling',
    'iptables.masqueradeAll': 'masquerade-all',
    'iptables.localhostNodePorts': 'iptables-localhost-nodeports',
    'nftables.masqueradeAll': 'nftables-masquerade-all',
    'ipvs.strictARP': 'ipvs-strict-arp',
    'conntrack.tcpBeLiberal': 'conntrack-tcp-be-liberal',
  }),
  ...flagged('integer', {
    'iptables.masqueradeBit': 'iptables-masquerade-bit',
    'nftables.masqueradeBit': 'nftables-masquerade-bit',
    'conntrack.maxPerCore': 'conntrack-max-per-core',
    'conntrack.min': 'conntrack-min',
    oomScoreAdj: 'oom-score-adj',
    'logging.verbosity': 'v',
    'clientConnection.burst': 'kube-api-burst',
  }),
  ...flagged('duration', {
    'iptables.syncPeriod': 'iptables-sync-period',
    'iptables.minSyncPeriod': 'iptables-min-sync-period',
    'nftables.syncPeriod': 'nftables-sync-period',
    'nftables.minSyncPeriod': 'nftables-min-sync-period',
    'ipvs.syncPeriod': 'ipvs-sync-period',
    'ipvs.minSyncPeriod': 'ipvs-min-sync-period',
    'ipvs.tcpTimeout': 'ipvs-tcp-timeout',
    'ipvs.tcpFinTimeout': 'ipvs-tcpfin-timeout',
    'ipvs.udpTimeout': 'ipvs-udp-timeout',
    'conntrack.tcpEstablishedTimeout': 'conntrack-tcp-timeout-established',
    'conntrack.tcpCloseWaitTimeout': 'conntrack-tcp-timeout-close-wait',
    'conntrack.udpTimeout': 'conntrack-udp-timeout',
    'conntrack.udpStreamTimeout': 'conntrack-udp-timeout-stream',
    configSyncPeriod: 'config-sync-period',
  }),
  ...flagged('list of texts', {
    nodePortAddresses: 'nodeport-addresses',
    'ipvs.excludeCIDRs': 'ipvs-exclude-cidrs',
  }),
  ...flagged('map of booleans', { featureGates: 'feature-gates' }),
  ...idle(
    'clientConnection.contentType says what lists are asked for as',
    'text',
    'clientConnection.acceptContentTypes',
  ),
  ...idle(REQUESTS, 'number', 'clientConnection.qps'),
  ...idle('there are no hidden metrics', 'text', 'showHiddenMetricsForVersion'),
  ...idle(AT_ONCE, 'duration or nanoseconds', 'logging.flushFrequency'),
  ...idle(AT_ONCE, 'any', 'logging.vmodule', 'logging.options'),
  ...idle('it was for the userspace proxy', 'text', 'portRange'),
  ...idle(WINDOWS, 'text', 'winkernel.networkName', 'winkernel.sourceVip', 'winkernel.rootHnsEndpointName'),
  ...idle(WINDOWS, 'boolean', 'winkernel.enableDSR', 'winkernel.forwardHealthCheckVip', 'windowsRunAsService'),
];

/** Sections of the file: paths of which other paths are parts. */
export const SECTIONS: ReadonlySet<string> = new Set(
  FIELDS.filter(({ path }) => path.includes('.')).map(({ path }) => path.slice(0, path.indexOf('.'))),
);
