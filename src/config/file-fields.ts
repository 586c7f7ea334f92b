/**
 * Every field of a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1): its type, the flag with the same meaning, and the value
 * that a file has for a configuration; or the reason why the field has no effect.
 */

import { durationText } from '../base/duration.ts';
import { AUTO, type Config } from './config.ts';

export type FieldType =
  | 'string'
  | 'boolean'
  | 'integer'
  | 'number'
  /** Go's, as text. */
  | 'duration'
  /** As text, or nanoseconds. */
  | 'duration or nanoseconds'
  | 'list of strings'
  | 'map of booleans'
  | 'any';

export interface ConfigField {
  readonly path: string;
  readonly type: FieldType;
  /** Name of the flag. */
  readonly flag?: string;
  /** The field's value in the file of this configuration; undefined where the file leaves it out. */
  readonly write?: (config: Config) => unknown;
  /** The reason why the field has no effect. */
  readonly idle?: string;
}

const field = (path: string, type: FieldType, flag: string, write?: (config: Config) => unknown): ConfigField =>
  write === undefined ? { path, type, flag } : { path, type, flag, write };

const idle = (why: string, type: FieldType, ...paths: readonly string[]): ConfigField[] =>
  paths.map((path) => ({ path, type, idle: why }));

const WINDOWS = 'it is for Windows only';
const REQUESTS = 'the agent sends only a few requests a minute';
const AT_ONCE = 'log lines are written immediately, in one format';

/** A field in the section of a mode, which other modes leave out. */
const inMode = (modes: readonly Config['mode'][], write: (config: Config) => unknown) => (config: Config) =>
  modes.includes(config.mode) ? write(config) : undefined;

const IPTABLES_AND_IPVS = ['iptables', 'ipvs'] as const;
const syncPeriod = ({ syncPeriod }: Config) => durationText(syncPeriod);
const minSyncPeriod = ({ minSyncPeriod }: Config) => durationText(minSyncPeriod);
const masqueradeAll = ({ masqueradeAll }: Config) => masqueradeAll;
const masqueradeBit = ({ masqueradeBit }: Config) => masqueradeBit;
const seconds = (count: number) => durationText(count * 1000);

/** The interfaces of local pods, by a whole name or by a prefix; undefined where local traffic is recognised in another way. */
function podInterface({ detectLocal }: Config): { readonly prefix?: string; readonly bridge?: string } | undefined {
  if (detectLocal.kind !== 'interface') return undefined;
  const { name } = detectLocal;
  return name.endsWith('+') ? { prefix: name.slice(0, -1) } : { bridge: name };
}

function detectLocalMode(config: Config): string {
  if (config.detectLocal.kind === 'cluster-cidr') return 'ClusterCIDR';
  if (config.detectLocal.kind === 'node-cidr') return 'NodeCIDR';
  return podInterface(config)?.prefix === undefined ? 'BridgeInterface' : 'InterfaceNamePrefix';
}

/** In the order of a written file. */
export const FIELDS: readonly ConfigField[] = [
  field('mode', 'string', 'mode', ({ mode, modeChoice }) =>
    modeChoice.by === AUTO && modeChoice.why === undefined ? AUTO : mode,
  ),
  // Many nodes share a file, so it names a node only where the configuration did.
  field('hostnameOverride', 'string', 'hostname-override', ({ isNodeNamed, nodeName }) =>
    isNodeNamed ? nodeName : '',
  ),
  field(
    'bindAddress',
    'string',
    'bind-address',
    ({ bindAddress, serve }) => bindAddress ?? (serve.metrics.address.includes(':') ? '::' : '0.0.0.0'),
  ),
  field('healthzBindAddress', 'string', 'healthz-bind-address', ({ serve }) => serve.healthz?.text ?? ''),
  field('metricsBindAddress', 'string', 'metrics-bind-address', ({ serve }) => serve.metrics.text),
  field('bindAddressHardFail', 'boolean', 'bind-address-hard-fail', ({ serve }) => serve.hardFail),
  field('enableProfiling', 'boolean', 'profiling', ({ serve }) => serve.profiling),
  field('clientConnection.kubeconfig', 'string', 'kubeconfig', ({ source }) =>
    source.kind === 'kubernetes' ? (source.kubeconfig ?? '') : '',
  ),
  field('clientConnection.contentType', 'string', 'kube-api-content-type', ({ source }) =>
    source.kind === 'kubernetes' ? source.contentType : undefined,
  ),
  field('clientConnection.burst', 'integer', 'kube-api-burst'),
  field('clusterCIDR', 'string', 'cluster-cidr', ({ detectLocal }) =>
    detectLocal.kind === 'cluster-cidr' ? detectLocal.cidrs.join(',') : '',
  ),
  field('detectLocalMode', 'string', 'detect-local-mode', detectLocalMode),
  field('detectLocal.bridgeInterface', 'string', 'pod-bridge-interface', (config) => podInterface(config)?.bridge),
  field(
    'detectLocal.interfaceNamePrefix',
    'string',
    'pod-interface-name-prefix',
    (config) => podInterface(config)?.prefix,
  ),
  field('nodePortAddresses', 'list of strings', 'nodeport-addresses', ({ nodePortAddresses: { primary, cidrs } }) => [
    ...(primary === true ? ['primary'] : []),
    ...cidrs,
  ]),
  field('oomScoreAdj', 'integer', 'oom-score-adj', ({ oomScoreAdj }) => oomScoreAdj),
  field('featureGates', 'map of booleans', 'feature-gates', ({ featureGates }) =>
    Object.keys(featureGates).length === 0 ? undefined : featureGates,
  ),
  field('configSyncPeriod', 'duration', 'config-sync-period', (config) => durationText(config.configSyncPeriod)),
  // IPVS mode masquerades as this section says; kube-proxy has no such fields for it.
  field('iptables.masqueradeBit', 'integer', 'iptables-masquerade-bit', inMode(IPTABLES_AND_IPVS, masqueradeBit)),
  field('iptables.masqueradeAll', 'boolean', 'masquerade-all', inMode(IPTABLES_AND_IPVS, masqueradeAll)),
  field(
    'iptables.localhostNodePorts',
    'boolean',
    'iptables-localhost-nodeports',
    ({ localhostNodePorts }) => localhostNodePorts,
  ),
  field('iptables.syncPeriod', 'duration', 'iptables-sync-period', inMode(['iptables'], syncPeriod)),
  field('iptables.minSyncPeriod', 'duration', 'iptables-min-sync-period', inMode(['iptables'], minSyncPeriod)),
  field('nftables.masqueradeBit', 'integer', 'nftables-masquerade-bit', inMode(['nftables'], masqueradeBit)),
  field('nftables.masqueradeAll', 'boolean', 'nftables-masquerade-all', inMode(['nftables'], masqueradeAll)),
  field('nftables.syncPeriod', 'duration', 'nftables-sync-period', inMode(['nftables'], syncPeriod)),
  field('nftables.minSyncPeriod', 'duration', 'nftables-min-sync-period', inMode(['nftables'], minSyncPeriod)),
  field('ipvs.syncPeriod', 'duration', 'ipvs-sync-period', inMode(['ipvs'], syncPeriod)),
  field('ipvs.minSyncPeriod', 'duration', 'ipvs-min-sync-period', inMode(['ipvs'], minSyncPeriod)),
  field('ipvs.scheduler', 'string', 'ipvs-scheduler', ({ ipvs }) => ipvs.scheduler),
  field('ipvs.excludeCIDRs', 'list of strings', 'ipvs-exclude-cidrs', ({ ipvs }) => ipvs.excludeCidrs),
  field('ipvs.strictARP', 'boolean', 'ipvs-strict-arp', ({ ipvs }) => ipvs.strictArp),
  field('ipvs.tcpTimeout', 'duration', 'ipvs-tcp-timeout', ({ ipvs }) => seconds(ipvs.tcpTimeout)),
  field('ipvs.tcpFinTimeout', 'duration', 'ipvs-tcpfin-timeout', ({ ipvs }) => seconds(ipvs.tcpFinTimeout)),
  field('ipvs.udpTimeout', 'duration', 'ipvs-udp-timeout', ({ ipvs }) => seconds(ipvs.udpTimeout)),
  field('conntrack.maxPerCore', 'integer', 'conntrack-max-per-core', ({ conntrack }) => conntrack.maxPerCore),
  field('conntrack.min', 'integer', 'conntrack-min', ({ conntrack }) => conntrack.min),
  field('conntrack.tcpBeLiberal', 'boolean', 'conntrack-tcp-be-liberal', ({ conntrack }) => conntrack.tcpBeLiberal),
  field('conntrack.tcpEstablishedTimeout', 'duration', 'conntrack-tcp-timeout-established', ({ conntrack }) =>
    durationText(conntrack.tcpEstablishedTimeout),
  ),
  field('conntrack.tcpCloseWaitTimeout', 'duration', 'conntrack-tcp-timeout-close-wait', ({ conntrack }) =>
    durationText(conntrack.tcpCloseWaitTimeout),
  ),
  field('conntrack.udpTimeout', 'duration', 'conntrack-udp-timeout', ({ conntrack }) =>
    durationText(conntrack.udpTimeout),
  ),
  field('conntrack.udpStreamTimeout', 'duration', 'conntrack-udp-timeout-stream', ({ conntrack }) =>
    durationText(conntrack.udpStreamTimeout),
  ),
  field('logging.format', 'string', 'logging-format', ({ log }) => (log.format === 'auto' ? undefined : log.format)),
  field('logging.verbosity', 'integer', 'v', ({ log }) => log.verbosity),
  ...idle(
    'clientConnection.contentType sets the content type of lists',
    'string',
    'clientConnection.acceptContentTypes',
  ),
  ...idle(REQUESTS, 'number', 'clientConnection.qps'),
  ...idle('slicewire has no hidden metrics', 'string', 'showHiddenMetricsForVersion'),
  ...idle(AT_ONCE, 'duration or nanoseconds', 'logging.flushFrequency'),
  ...idle(AT_ONCE, 'any', 'logging.vmodule', 'logging.options'),
  ...idle('it was for the userspace proxy', 'string', 'portRange'),
  ...idle(WINDOWS, 'string', 'winkernel.networkName', 'winkernel.sourceVip', 'winkernel.rootHnsEndpointName'),
  ...idle(WINDOWS, 'boolean', 'winkernel.enableDSR', 'winkernel.forwardHealthCheckVip', 'windowsRunAsService'),
];

/** Sections of the file: paths of which other paths are parts. */
export const SECTIONS: ReadonlySet<string> = new Set(
  FIELDS.filter(({ path }) => path.includes('.')).map(({ path }) => path.slice(0, path.indexOf('.'))),
);
