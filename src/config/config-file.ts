/** A KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) ↔ flags and configuration (docs/semantics.md 10.1 to 10.4). */
import { repeatedText } from '../documents/objects.ts';
import type { Problem, Value } from '../documents/protocol.ts';
import { yamlText } from '../documents/yaml.ts';
import { type Config, ConfigError, camel, type Flags, type SourceConfig } from './config.ts';
import { durationText, parseDuration } from './duration.ts';
import { FIELDS, type Field, SECTIONS } from './fields.ts';

export const API_VERSION = 'kubeproxy.config.k8s.io/v1alpha1';
const KIND = 'KubeProxyConfiguration';

/** Flags that still count beside a file; all others give way to it (docs/semantics.md 10.4). */
const BESIDE_FILE = [
  ...[
    'hostname-override',
    'master',
    'v',
    'logging-format',
    'once',
    'manifests',
    'service-node-port-range',
    'allow-node-address-ports',
    'iptables-backend',
    'nftables-count-connections',
    'output',
    'config',
  ],
].map(camel);

export interface FileFlags {
  readonly flags: Flags;
  /** The field that each flag's value came from, by the flag's name as commander writes it. */
  readonly origins: ReadonlyMap<string, string>;
  /** Fields that are set and have no effect here, with the reason. */
  readonly idle: readonly Field[];
  /** The file's own fields. */
  readonly given: Readonly<Record<string, unknown>>;
  /** Why a strict reading refuses the file; it is then read leniently, as kube-proxy does. */
  readonly lenient: readonly string[];
}

/** What stands in the file. */
export interface FileContent {
  readonly values: readonly Value[];
  readonly problems: readonly Problem[];
}

/** The flags that result from a file and the command line. Throws ConfigError that lists all fields of a wrong type, or says why the text is no such object. */
export function flagsFromFile(content: FileContent, commandLine: Flags): FileFlags {
  const { object, lenient } = configurationOf(content);
  const found = new Map<string, unknown>();
  const faults: string[] = [];
  collect(object, '', found, faults);
  const flags: Record<string, string | boolean | undefined> = {};
  const origins = new Map<string, string>();
  const idle: Field[] = [];
  for (const [path, value] of found) {
    const field = FIELDS.find((one) => one.path === path);
    if (field === undefined) {
      lenient.push(`unknown field "${path}"`);
      continue;
    }
    const problem = typeProblem(field, value);
    if (problem !== undefined) faults.push(`${path}: ${JSON.stringify(value)}: ${problem}`);
    else if (field.flag === undefined) {
      if (!isZero(value)) idle.push(field);
    } else if (!isUnset(path, value)) {
      flags[camel(field.flag)] = flagText(value);
      origins.set(camel(field.flag), path);
    }
  }
  if (faults.length > 0) throw new ConfigError(faults.map((fault) => `--config: ${fault}`).join('; '));
  for (const name of BESIDE_FILE) {
    if (commandLine[name] === undefined) continue;
    flags[name] = commandLine[name];
    origins.delete(name);
  }
  // A folder of manifests takes the place of the cluster that the file names.
  if (flags.manifests !== undefined) delete flags.kubeconfig;
  return { flags, origins, idle, lenient, given: { ...object } };
}

function flagText(value: unknown): string {
  if (Array.isArray(value)) return value.join(',');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, one]) => `${name}=${one}`)
    .join(',');
}

/** The file that says the same as a configuration, every default filled in: what --write-config-to writes and /configz shows. What a file said that has no meaning here is kept. */
export function fileFromConfig(config: Config): Readonly<Record<string, unknown>> {
  return withGiven(meantBy(config), config.given);
}

/** Fields of the file that are not of ours, as they stood there. */
function withGiven(
  own: Readonly<Record<string, unknown>>,
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const whole: Record<string, unknown> = { ...own };
  for (const [name, value] of Object.entries(given)) {
    const mine = whole[name];
    if (mine === undefined) whole[name] = value;
    else if (isSection(mine) && isSection(value)) whole[name] = withGiven(mine, value);
  }
  return whole;
}

function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function meantBy(config: Config): Readonly<Record<string, unknown>> {
  const { conntrack, ipvs, detectLocal } = config;
  const seconds = (count: number) => durationText(count * 1000);
  const periods = (mode: Config['mode']) =>
    config.mode === mode
      ? { syncPeriod: durationText(config.syncPeriod), minSyncPeriod: durationText(config.minSyncPeriod) }
      : {};
  const isNft = config.mode === 'nftables';
  const masquerading = { masqueradeBit: config.masqueradeBit, masqueradeAll: config.masqueradeAll };
  return {
    apiVersion: API_VERSION,
    kind: KIND,
    mode: config.mode,
    // Only when it was said: a file is for many nodes.
    hostnameOverride: config.isNodeNamed ? config.nodeName : '',
    bindAddress: config.bindAddress ?? (config.serve.metrics.address.includes(':') ? '::' : '0.0.0.0'),
    healthzBindAddress: config.serve.healthz?.text ?? '',
    metricsBindAddress: config.serve.metrics.text,
    bindAddressHardFail: config.serve.hardFail,
    enableProfiling: config.serve.profiling,
    clientConnection: connectionFields(config.source),
    clusterCIDR: detectLocal.kind === 'cluster-cidr' ? detectLocal.cidrs.join(',') : '',
    ...detectLocalFields(config),
    nodePortAddresses: [
      ...(config.nodePortAddresses.primary === true ? ['primary'] : []),
      ...config.nodePortAddresses.cidrs,
    ],
    oomScoreAdj: config.oomScoreAdj,
    ...(Object.keys(config.featureGates).length === 0 ? {} : { featureGates: config.featureGates }),
    configSyncPeriod: durationText(config.configSyncPeriod),
    iptables: {
      ...(isNft ? {} : masquerading),
      localhostNodePorts: config.localhostNodePorts,
      ...periods('iptables'),
    },
    nftables: { ...(isNft ? masquerading : {}), ...periods('nftables') },
    ipvs: {
      ...periods('ipvs'),
      scheduler: ipvs.scheduler,
      excludeCIDRs: ipvs.excludeCidrs,
      strictARP: ipvs.strictArp,
      tcpTimeout: seconds(ipvs.tcpTimeout),
      tcpFinTimeout: seconds(ipvs.tcpFinTimeout),
      udpTimeout: seconds(ipvs.udpTimeout),
    },
    conntrack: {
      maxPerCore: conntrack.maxPerCore,
      min: conntrack.min,
      tcpBeLiberal: conntrack.tcpBeLiberal,
      tcpEstablishedTimeout: durationText(conntrack.tcpEstablishedTimeout),
      tcpCloseWaitTimeout: durationText(conntrack.tcpCloseWaitTimeout),
      udpTimeout: durationText(conntrack.udpTimeout),
      udpStreamTimeout: durationText(conntrack.udpStreamTimeout),
    },
    logging: {
      ...(config.log.format === 'auto' ? {} : { format: config.log.format }),
      verbosity: config.log.verbosity,
    },
  };
}

export function fileText(config: Config): string {
  return yamlText(fileFromConfig(config));
}

function connectionFields(source: SourceConfig): object {
  if (source.kind !== 'kubernetes') return { kubeconfig: '' };
  return { kubeconfig: source.kubeconfig ?? '', contentType: source.contentType };
}

function detectLocalFields({ detectLocal }: Config): object {
  if (detectLocal.kind === 'cluster-cidr') return { detectLocalMode: 'ClusterCIDR' };
  if (detectLocal.kind === 'node-cidr') return { detectLocalMode: 'NodeCIDR' };
  const { name } = detectLocal;
  return name.endsWith('+')
    ? { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: name.slice(0, -1) } }
    : { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: name } };
}

/** In the file an empty text, an empty list, and a period of 0 stand for «not set» (docs/semantics.md 10.2). */
function isUnset(path: string, value: unknown): boolean {
  if (value === '' || (Array.isArray(value) && value.length === 0)) return true;
  return path.endsWith('yncPeriod') && parseDuration(String(value)) === 0;
}

/** Go's zero value: what a file has that was written from an object in which nobody set the field. */
function isZero(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0;
  return value === '' || value === 0 || value === false || value === '0s';
}

function typeProblem({ type }: Field, value: unknown): string | undefined {
  const is = (right: boolean, what: string) => (right ? undefined : `must be ${what}`);
  switch (type) {
    case 'text':
      return is(typeof value === 'string', 'a text');
    case 'boolean':
      return is(typeof value === 'boolean', 'true or false');
    case 'integer':
      return is(Number.isSafeInteger(value), 'a whole number');
    case 'number':
      return is(typeof value === 'number', 'a number');
    case 'duration':
      return is(
        typeof value === 'string' && parseDuration(value) !== undefined,
        'a duration as text, such as "30s" or "1m30s"',
      );
    case 'duration or nanoseconds':
      return is(
        Number.isSafeInteger(value) || (typeof value === 'string' && parseDuration(value) !== undefined),
        'a duration such as "5s", or nanoseconds',
      );
    case 'list of texts':
      return is(Array.isArray(value) && value.every((one) => typeof one === 'string'), 'a list of texts');
    case 'map of booleans': {
      const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
      return is(
        isMap && Object.values(value).every((one) => typeof one === 'boolean'),
        'a map of names to true or false',
      );
    }
    default:
      return undefined;
  }
}

/** A key that stands twice is no more than a fault of form: the last one counts, as in kube-proxy. */
function configurationOf({ values, problems }: FileContent): { object: object; lenient: string[] } {
  const [problem] = problems;
  if (problem !== undefined)
    throw new ConfigError(`--config: line ${problem.line}, column ${problem.column}: ${problem.reason}`);
  const [first, second] = values;
  if (second !== undefined)
    throw new ConfigError(`--config: line ${second.line}: another document begins; the file must hold one ${KIND}`);
  const { apiVersion, kind, ...fields } = (first?.value ?? {}) as { apiVersion?: unknown; kind?: unknown };
  if (apiVersion !== API_VERSION || kind !== KIND) {
    throw new ConfigError(
      `--config: must be a ${KIND} of ${API_VERSION}; kind is ${wordOf(kind)}, and apiVersion is ${wordOf(apiVersion)}`,
    );
  }
  const lenient = (first?.repeated ?? []).map(
    ({ key, line, column }) => `line ${line}, column ${column}: ${repeatedText(key)}; the last one counts`,
  );
  return { object: fields, lenient };
}

/** What a field says that must be there. */
function wordOf(value: unknown): string {
  if (value === undefined || value === null) return 'missing';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Fields that are set, by their paths; lists and maps of free keys are values. */
function collect(object: object, prefix: string, into: Map<string, unknown>, faults: string[]): void {
  for (const [name, value] of Object.entries(object)) {
    if (value === null || value === undefined) continue;
    const path = prefix + name;
    if (prefix !== '' || !SECTIONS.has(name)) into.set(path, value);
    else if (typeof value === 'object' && !Array.isArray(value)) collect(value as object, `${name}.`, into, faults);
    else faults.push(`${path}: ${JSON.stringify(value)}: must be a section of fields`);
  }
}
