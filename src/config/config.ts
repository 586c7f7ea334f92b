/** What a run is told: made once from the flags, then frozen. Parts of it are passed on, never the whole. */
import { hostname } from 'node:os';
import type { ConntrackSettings } from '../host/conntrack-settings.ts';
import type { IptablesBackend } from '../host/iptables-tools.ts';
import { type Address, type Cidr, familyOf, parseAddress } from '../model/address.ts';
import { NODE_PORTS, type PortRange, parsePortRange, rangeText } from '../model/port-range.ts';
import { type FeatureGates, readFeatureGates } from './feature-gates.ts';
import { FIELDS } from './fields.ts';
import { readServe, type ServeConfig } from './listen.ts';
import {
  checkOrder,
  isOn,
  type Reader,
  readChoice,
  readCidrs,
  readDuration,
  readInteger,
  readTimeout,
} from './readers.ts';

export type SourceConfig =
  | {
      readonly kind: 'manifests';
      readonly path: string;
      /** In which node ports must be. */
      readonly nodePorts: PortRange;
      /** Services may have an address of this node with a port that is in use on it. */
      readonly allowsNodeAddressPorts: boolean;
    }
  | {
      readonly kind: 'kubernetes';
      readonly kubeconfig: string | undefined;
      readonly master: string | undefined;
      /** Of lists of Services and EndpointSlices, where the API server has it. */
      readonly contentType: (typeof CONTENT_TYPES)[number];
    };

/** Kinds of content that the API server can be asked for; the first is kube-proxy's default, too. */
export const CONTENT_TYPES = ['application/vnd.kubernetes.protobuf', 'application/json'] as const;

/** How pods of this node are told from other traffic (docs/semantics.md 5.1). */
export type DetectLocal =
  | { readonly kind: 'cluster-cidr'; readonly cidrs: readonly Cidr[] }
  | { readonly kind: 'node-cidr' }
  | { readonly kind: 'interface'; readonly name: string };

/** Which addresses of the node take node ports (docs/semantics.md 6.9); no CIDRs and not primary: all. */
export interface NodePortAddresses {
  /** The Node's first address; `known`: if it is told of the Node or by --bind-address, otherwise all. */
  readonly primary: boolean | 'known';
  readonly cidrs: readonly Cidr[];
}

/** What IPVS mode is told beside what all modes are. */
export interface IpvsConfig {
  readonly scheduler: string;
  readonly excludeCidrs: readonly Cidr[];
  readonly strictArp: boolean;
  /** Seconds; 0 leaves the kernel's. */
  readonly tcpTimeout: number;
  readonly tcpFinTimeout: number;
  readonly udpTimeout: number;
}

const MODES = ['iptables', 'ipvs', 'nftables'] as const;

export interface Config {
  readonly mode: (typeof MODES)[number];
  readonly ipvs: IpvsConfig;
  readonly source: SourceConfig;
  readonly nodeName: string;
  /** By the configuration; otherwise it is the host's. */
  readonly isNodeNamed: boolean;
  /** Sync until everything is applied, then exit. */
  readonly once: boolean;
  readonly detectLocal: DetectLocal;
  readonly masqueradeAll: boolean;
  readonly masqueradeBit: number;
  readonly nodePortAddresses: NodePortAddresses;
  readonly localhostNodePorts: boolean;
  readonly iptablesBackend: IptablesBackend;
  /** nftables mode counts connections by frontend. */
  readonly countsConnections: boolean;
  /** Milliseconds. */
  readonly syncPeriod: number;
  readonly minSyncPeriod: number;
  readonly bindAddress: Address | undefined;
  readonly conntrack: ConntrackSettings;
  readonly serve: ServeConfig;
  readonly log: LogConfig;
  /** What the kernel prefers to end when memory is short: -1000 never, 1000 first. */
  readonly oomScoreAdj: number;
  /** Those that were set. */
  readonly featureGates: FeatureGates;
  /** Milliseconds; nothing follows from it, since changes come by watch. */
  readonly configSyncPeriod: number;
  /** The fields of the file, as they stood there. */
  readonly given: Readonly<Record<string, unknown>>;
}

export interface LogConfig {
  /** auto: lines for people on a terminal, JSON elsewhere. */
  readonly format: 'auto' | 'json' | 'text';
  readonly verbosity: number;
}

/** Flags as commander hands them over: text, or true. */
export type Flags = Readonly<Record<string, string | boolean | undefined>>;

/** Everything wrong with the configuration, together. */
export class ConfigError extends Error {
  readonly code = 'CONFIG';
}

/** Defaults of kube-proxy (docs/semantics.md 10.2). */
export const DEFAULTS = {
  iptablesSyncPeriod: '30s',
  iptablesMinSyncPeriod: '1s',
  iptablesLocalhostNodeports: true,
  ipvsScheduler: 'rr',
  ipvsSyncPeriod: '30s',
  ipvsMinSyncPeriod: '0s',
  conntrackMaxPerCore: 32_768,
  conntrackMin: 131_072,
} as const;

export interface ConfigOrigins {
  /** Fields of a file, by the flag that has the same meaning, as commander writes it. */
  readonly origins?: ReadonlyMap<string, string>;
  /** The file that --config names, or is to be written. */
  readonly file?: string;
  readonly given?: Readonly<Record<string, unknown>>;
}

/** Throws a ConfigError that lists every fault: each with its flag or field, its value, and what is allowed. */
export function configFromFlags(flags: Flags, { origins, file, given = {} }: ConfigOrigins = {}): Config {
  const faults: string[] = [];
  const name = (flag: string) => fieldOf(flag, flags, origins) ?? `--${flag}`;
  const fault = (flag: string, problem: string) => {
    const field = fieldOf(flag, flags, origins);
    const value = textFlag(flags, flag);
    if (field === undefined) faults.push(`${flagText(flags, flag)}: ${problem}`);
    else faults.push(`--config: ${field}: ${value === undefined ? '' : `${value}: `}${problem}`);
  };
  const read: Reader = { text: (flag) => textFlag(flags, flag), fault, name };
  const mode = readMode(read);
  const bindAddress = readBindAddress(read);
  const config: Config = {
    mode,
    ipvs: mode === 'ipvs' ? readIpvs(read) : readIdleIpvs(read),
    source: readSource(read),
    nodeName: readNodeName(read),
    isNodeNamed: (read.text('hostname-override') ?? '') !== '',
    once: flags.once === true,
    detectLocal: readDetectLocal(read),
    ...readMasquerading(read, { mode, hasFile: file !== undefined }),
    nodePortAddresses: readNodePortAddresses(read, mode),
    localhostNodePorts: isOn(read, 'iptables-localhost-nodeports', DEFAULTS.iptablesLocalhostNodeports),
    iptablesBackend: readChoice(read, 'iptables-backend', { initial: 'auto', choices: ['auto', 'nft', 'legacy'] }),
    countsConnections: isOn(read, 'nftables-count-connections', false),
    ...readPeriods(read, { mode, hasFile: file !== undefined }),
    bindAddress,
    conntrack: readConntrack(read),
    serve: readServe(read, { isIPv6: (read.text('bind-address') ?? '').includes(':'), hasFile: file !== undefined }),
    log: readLog(read),
    oomScoreAdj: readInteger(read, 'oom-score-adj', { initial: -999, least: -1000, most: 1000 }),
    featureGates: readFeatureGates(read),
    configSyncPeriod: readPositive(read, 'config-sync-period', '15m'),
    given,
  };
  readInteger(read, 'kube-api-burst', { initial: 10, least: 0, most: MOST });
  if (faults.length > 0) throw new ConfigError(faults.join('; '));
  return Object.freeze(config);
}

/** `sync-period` → `syncPeriod`: the name under which commander hands a flag over. */
export function camel(flag: string): string {
  return flag.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** The field of a file that says what the flag says; undefined where the command line said it, or no file was read. */
function fieldOf(flag: string, flags: Flags, origins: ConfigOrigins['origins']): string | undefined {
  if (origins === undefined) return undefined;
  const isOnCommandLine = flags[camel(flag)] !== undefined && !origins.has(camel(flag));
  return isOnCommandLine ? undefined : FIELDS.find((field) => field.flag === flag)?.path;
}

/** `--v=x`, or `--v` where it was not given. */
export function flagText(flags: Flags, flag: string): string {
  const value = textFlag(flags, flag);
  return value === undefined ? `--${flag}` : `--${flag}=${value}`;
}

export function textFlag(flags: Flags, flag: string): string | undefined {
  const value = flags[camel(flag)];
  return value === undefined ? undefined : String(value);
}

function readMode(read: Reader): Config['mode'] {
  const modes = [read.text('mode'), read.text('proxy-mode')].filter((mode) => mode !== undefined && mode !== '');
  if (modes.length === 2 && modes[0] !== modes[1])
    read.fault('proxy-mode', `is another mode than --mode=${modes[0]}; give one of them`);
  const mode = modes[0] ?? 'iptables';
  const known = MODES.find((one) => one === mode);
  if (known !== undefined) return known;
  read.fault(read.text('mode') === undefined ? 'proxy-mode' : 'mode', 'must be iptables, ipvs or nftables');
  return 'iptables';
}

function readSource(read: Reader): SourceConfig {
  const path = read.text('manifests');
  const kubeconfig = read.text('kubeconfig');
  const master = read.text('master');
  const contentType = readChoice(read, 'kube-api-content-type', { initial: CONTENT_TYPES[0], choices: CONTENT_TYPES });
  if (path !== undefined && (kubeconfig !== undefined || master !== undefined)) {
    const other = read.name(kubeconfig !== undefined ? 'kubeconfig' : 'master');
    read.fault('manifests', `names one source of objects, and ${other} another; give one of them`);
  }
  if (path === '') read.fault('manifests', 'must name a folder, a file, or - for standard input');
  const nodePorts = readNodePorts(read);
  const allowsNodeAddressPorts = isOn(read, 'allow-node-address-ports', false);
  if (path !== undefined) return { kind: 'manifests', path, nodePorts, allowsNodeAddressPorts };
  return { kind: 'kubernetes', kubeconfig, master, contentType };
}

function readNodePorts(read: Reader): PortRange {
  const found = parsePortRange(read.text('service-node-port-range') || rangeText(NODE_PORTS));
  if (found === undefined) {
    read.fault(
      'service-node-port-range',
      'must be a range of ports from 1 to 65535, such as 30000-32767 or 30000+2767',
    );
  }
  return found ?? NODE_PORTS;
}

function readNodeName(read: Reader): string {
  // Empty is not set; only blank is a mistake (docs/semantics.md 10.4).
  const given = read.text('hostname-override') || undefined;
  const name = (given ?? hostname()).trim().toLowerCase();
  if (name === '') read.fault('hostname-override', 'must not be blank: it is the name of this Node');
  return name;
}

function readDetectLocal(read: Reader): DetectLocal {
  const mode = read.text('detect-local-mode') ?? 'ClusterCIDR';
  if (mode === 'NodeCIDR') return { kind: 'node-cidr' };
  if (mode === 'BridgeInterface' || mode === 'InterfaceNamePrefix') {
    const flag = mode === 'BridgeInterface' ? 'pod-bridge-interface' : 'pod-interface-name-prefix';
    const name = read.text(flag) ?? '';
    // A name goes into rules as it is: what the kernel takes as one (dev_valid_name), and no wildcard of iptables.
    const isName = /^[A-Za-z0-9_.-]+$/.test(name) && name.length <= (mode === 'BridgeInterface' ? 15 : 14);
    const what =
      mode === 'BridgeInterface'
        ? 'must name the bridge of the pods, of at most 15 characters'
        : "must be what the names of the pods' interfaces begin with, of at most 14 characters";
    if (!isName) read.fault(flag, `${what}, because ${read.name('detect-local-mode')} is ${mode}`);
    return { kind: 'interface', name: mode === 'BridgeInterface' ? name : `${name}+` };
  }
  if (mode !== 'ClusterCIDR') {
    read.fault('detect-local-mode', 'must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix');
  }
  const cidrs = readCidrs(read, 'cluster-cidr');
  const families = new Set(cidrs.map(familyOf));
  if (families.size < cidrs.length) read.fault('cluster-cidr', 'must be one CIDR, or one of IPv4 and one of IPv6');
  return { kind: 'cluster-cidr', cidrs };
}

/** In a file each of the two sections speaks of its own mode, and IPVS mode goes by that of iptables (docs/semantics.md 10.3). */
function readMasquerading(
  read: Reader,
  { mode, hasFile }: { readonly mode: Config['mode']; readonly hasFile: boolean },
): Pick<Config, 'masqueradeAll' | 'masqueradeBit'> {
  const isNft = mode === 'nftables';
  const bit = isNft ? 'nftables-masquerade-bit' : 'iptables-masquerade-bit';
  const isSaid = read.text('nftables-masquerade-all') !== undefined || hasFile;
  return {
    masqueradeAll: isOn(read, isNft && isSaid ? 'nftables-masquerade-all' : 'masquerade-all', false),
    masqueradeBit: readInteger(read, bit, { initial: 14, least: 0, most: 31 }),
  };
}

/** Keywords of 1.37: primary, localhost, all, and CIDRs in any mixture. */
const KEYWORDS: Readonly<Record<string, string>> = { localhost: '127.0.0.0/8,::1/128', all: '0.0.0.0/0,::/0' };

/** nftables mode serves node ports on the Node's first address unless told otherwise, as kube-proxy does in that mode. */
function readNodePortAddresses(read: Reader, mode: Config['mode']): NodePortAddresses {
  if (mode === 'nftables' && !read.text('nodeport-addresses')) return { primary: 'known', cidrs: [] };
  const words = (read.text('nodeport-addresses') ?? '').split(',').map((word) => word.trim());
  const texts = words.filter((word) => word !== 'primary').map((word) => KEYWORDS[word] ?? word);
  const flag = 'nodeport-addresses';
  const reader: Reader = { ...read, text: () => texts.join(','), fault: (_, problem) => read.fault(flag, problem) };
  const what = 'primary, localhost, all or a CIDR such as 10.0.0.0/8';
  return { primary: words.includes('primary'), cidrs: readCidrs(reader, flag, what) };
}

function readPeriods(
  read: Reader,
  { mode, hasFile }: { readonly mode: Config['mode']; readonly hasFile: boolean },
): { syncPeriod: number; minSyncPeriod: number } {
  const initial =
    mode === 'ipvs'
      ? { period: DEFAULTS.ipvsSyncPeriod, min: DEFAULTS.ipvsMinSyncPeriod }
      : { period: DEFAULTS.iptablesSyncPeriod, min: DEFAULTS.iptablesMinSyncPeriod };
  // kube-proxy's flags of iptables mode are those of nftables mode as well (docs/semantics.md 10.3).
  const flagOf = (name: string) => {
    const own = `${mode}-${name}`;
    return mode === 'nftables' && !hasFile && read.text(own) === undefined ? `iptables-${name}` : own;
  };
  const [period, min] = [flagOf('sync-period'), flagOf('min-sync-period')];
  const syncPeriod = readPositive(read, period, initial.period);
  const minSyncPeriod = readTimeout(read, min, initial.min);
  if (syncPeriod > 0 && minSyncPeriod > syncPeriod) {
    const shorter = { flag: min, milliseconds: minSyncPeriod };
    checkOrder(read, { shorter, longer: { flag: period, milliseconds: syncPeriod }, mayBeEqual: true });
  }
  return { syncPeriod, minSyncPeriod };
}

/** A scheduler goes to the kernel as it is: letters and digits, of at most 15 (linux/ip_vs.h, IP_VS_SCHEDNAME_MAXLEN). */
const SCHEDULER = /^[a-z0-9]{1,15}$/;

/** What the section of another mode says is not checked (docs/semantics.md 10.3); what is wrong with it counts for nothing. */
function readIdleIpvs(read: Reader): IpvsConfig {
  let isRight = true;
  const found = readIpvs({ ...read, fault: () => (isRight = false) });
  return isRight ? found : readIpvs({ ...read, text: () => undefined, fault: () => undefined });
}

function readIpvs(read: Reader): IpvsConfig {
  const scheduler = read.text('ipvs-scheduler') || DEFAULTS.ipvsScheduler;
  if (!SCHEDULER.test(scheduler)) read.fault('ipvs-scheduler', 'must be the name of a scheduler, such as rr or lc');
  const timeout = (flag: string) => Math.floor(readTimeout(read, flag, '0s') / 1000);
  return {
    scheduler,
    excludeCidrs: readCidrs(read, 'ipvs-exclude-cidrs'),
    strictArp: isOn(read, 'ipvs-strict-arp', false),
    tcpTimeout: timeout('ipvs-tcp-timeout'),
    tcpFinTimeout: timeout('ipvs-tcpfin-timeout'),
    udpTimeout: timeout('ipvs-udp-timeout'),
  };
}

/** A number that a 32-bit field of the API holds. */
const MOST = 2_147_483_647;

function readConntrack(read: Reader): ConntrackSettings {
  const count = (flag: string, initial: number) => readInteger(read, flag, { initial, least: 0, most: MOST });
  return {
    maxPerCore: count('conntrack-max-per-core', DEFAULTS.conntrackMaxPerCore),
    min: count('conntrack-min', DEFAULTS.conntrackMin),
    tcpEstablishedTimeout: readTimeout(read, 'conntrack-tcp-timeout-established', '24h'),
    tcpCloseWaitTimeout: readTimeout(read, 'conntrack-tcp-timeout-close-wait', '1h'),
    tcpBeLiberal: isOn(read, 'conntrack-tcp-be-liberal', false),
    udpTimeout: readTimeout(read, 'conntrack-udp-timeout', '0s'),
    udpStreamTimeout: readTimeout(read, 'conntrack-udp-timeout-stream', '0s'),
  };
}

export function readLog(read: Reader): LogConfig {
  return {
    format: readChoice(read, 'logging-format', { initial: 'auto', choices: ['auto', 'json', 'text'] }),
    verbosity: readInteger(read, 'v', { initial: 0, least: 0, most: MOST }),
  };
}

function readPositive(read: Reader, flag: string, initial: string): number {
  const milliseconds = readDuration(read, flag, initial);
  if (milliseconds <= 0) read.fault(flag, 'must be more than 0');
  return milliseconds;
}

function readBindAddress(read: Reader): Address | undefined {
  const text = read.text('bind-address');
  if (text === undefined || text === '') return undefined;
  const address = parseAddress(text);
  if (address === undefined) read.fault('bind-address', 'must be an IP address');
  return address === '0.0.0.0' || address === '::' ? undefined : address;
}
