/** A KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) ↔ flags: what of it has a meaning here (reference 1.2). */
import { dump, load } from 'js-yaml';
import { ConfigError, type Flags } from './config.ts';

const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1';
const KIND = 'KubeProxyConfiguration';

/** Path of a field → the flag with the same meaning, as commander names it. */
const FIELDS: Readonly<Record<string, string>> = {
  mode: 'mode',
  hostnameOverride: 'hostnameOverride',
  bindAddress: 'bindAddress',
  clusterCIDR: 'clusterCidr',
  nodePortAddresses: 'nodeportAddresses',
  detectLocalMode: 'detectLocalMode',
  'detectLocal.bridgeInterface': 'podBridgeInterface',
  'detectLocal.interfaceNamePrefix': 'podInterfaceNamePrefix',
  'clientConnection.kubeconfig': 'kubeconfig',
  'iptables.masqueradeBit': 'iptablesMasqueradeBit',
  'iptables.masqueradeAll': 'masqueradeAll',
  'iptables.localhostNodePorts': 'iptablesLocalhostNodeports',
  'iptables.syncPeriod': 'iptablesSyncPeriod',
  'iptables.minSyncPeriod': 'iptablesMinSyncPeriod',
  'ipvs.syncPeriod': 'ipvsSyncPeriod',
  'ipvs.minSyncPeriod': 'ipvsMinSyncPeriod',
  'ipvs.scheduler': 'ipvsScheduler',
  'ipvs.excludeCIDRs': 'ipvsExcludeCidrs',
  'ipvs.strictARP': 'ipvsStrictArp',
  'ipvs.tcpTimeout': 'ipvsTcpTimeout',
  'ipvs.tcpFinTimeout': 'ipvsTcpfinTimeout',
  'ipvs.udpTimeout': 'ipvsUdpTimeout',
  'conntrack.maxPerCore': 'conntrackMaxPerCore',
  'conntrack.min': 'conntrackMin',
  'conntrack.tcpEstablishedTimeout': 'conntrackTcpTimeoutEstablished',
  'conntrack.tcpCloseWaitTimeout': 'conntrackTcpTimeoutCloseWait',
  'conntrack.tcpBeLiberal': 'conntrackTcpBeLiberal',
  'conntrack.udpTimeout': 'conntrackUdpTimeout',
  'conntrack.udpStreamTimeout': 'conntrackUdpTimeoutStream',
};

/** Flags that still count beside a file; all others give way to it (reference 1.6). */
const BESIDE_FILE = [
  'hostnameOverride',
  'master',
  'v',
  'loggingFormat',
  'once',
  'manifests',
  'iptablesBackend',
  'output',
];

export interface FileFlags {
  readonly flags: Flags;
  /** Paths of fields that are set and have no effect here. */
  readonly idle: readonly string[];
}

/** The flags that result from a file and the command line. Throws ConfigError when the text is not such an object. */
export function flagsFromFile(text: string, commandLine: Flags): FileFlags {
  const found = new Map<string, unknown>();
  collect(parseObject(text), '', found);
  const flags: Record<string, string | boolean | undefined> = {};
  const idle: string[] = [];
  for (const [path, value] of found) {
    const flag = FIELDS[path];
    // In the file an empty text, and a period of 0, stand for «not set» (reference 1.2).
    const isUnset = value === '' || (path.endsWith('yncPeriod') && /^0s?$/.test(String(value)));
    if (path === 'apiVersion' || path === 'kind' || isUnset) continue;
    if (flag === undefined) idle.push(path);
    else flags[flag] = Array.isArray(value) ? value.join(',') : String(value);
  }
  for (const name of BESIDE_FILE) if (commandLine[name] !== undefined) flags[name] = commandLine[name];
  // A folder of manifests takes the place of the cluster that the file names.
  if (flags.manifests !== undefined) delete flags.kubeconfig;
  return { flags, idle };
}

/** The file that says the same as these flags. */
export function fileFromFlags(flags: Flags): string {
  const file: Record<string, unknown> = { apiVersion: API_VERSION, kind: KIND };
  for (const [path, flag] of Object.entries(FIELDS)) {
    const value = flag === 'mode' ? (flags.mode ?? flags.proxyMode) : flags[flag];
    if (value === undefined) continue;
    const [section = '', field] = path.split('.');
    if (field === undefined) file[section] = typed(path, String(value));
    else file[section] = { ...(file[section] as object | undefined), [field]: typed(path, String(value)) };
  }
  return dump(file);
}

function typed(path: string, text: string): unknown {
  if (path === 'nodePortAddresses' || path === 'ipvs.excludeCIDRs') return text.split(',');
  if (/(masqueradeBit|maxPerCore|conntrack\.min)$/.test(path)) return Number(text);
  return text === 'true' || text === 'false' ? text === 'true' : text;
}

function parseObject(text: string): object {
  let object: unknown;
  try {
    object = load(text);
  } catch (error) {
    throw new ConfigError(`--config: not valid YAML: ${(error as Error).message.split('\n')[0]}`);
  }
  const { apiVersion, kind } = (object ?? {}) as { apiVersion?: unknown; kind?: unknown };
  if (apiVersion !== API_VERSION || kind !== KIND) {
    throw new ConfigError(
      `--config: must be a ${KIND} of ${API_VERSION}, not ${String(kind)} of ${String(apiVersion)}`,
    );
  }
  return object as object;
}

/** Fields that are set, by their paths; lists are values. */
function collect(object: object, prefix: string, into: Map<string, unknown>): void {
  for (const [name, value] of Object.entries(object)) {
    if (value === null || value === undefined) continue;
    const isSection = typeof value === 'object' && !Array.isArray(value);
    if (isSection) collect(value as object, `${prefix}${name}.`, into);
    else into.set(prefix + name, value);
  }
}
