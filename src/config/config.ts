/** What a run is told: made once from the flags, then frozen. Parts of it are passed on, never the whole. */
import { hostname } from 'node:os';
import type { ConntrackSettings } from '../host/conntrack-settings.ts';
import type { IptablesBackend } from '../host/iptables-tools.ts';
import { type Address, type Cidr, familyOf, parseAddress, parseCidr } from '../model/address.ts';
import { parseDuration } from './duration.ts';

export type SourceConfig =
  | { readonly kind: 'manifests'; readonly path: string }
  | { readonly kind: 'kubernetes'; readonly kubeconfig: string | undefined; readonly master: string | undefined };

/** How pods of this node are told from other traffic (reference 1.9). */
export type DetectLocal =
  | { readonly kind: 'cluster-cidr'; readonly cidrs: readonly Cidr[] }
  | { readonly kind: 'node-cidr' }
  | { readonly kind: 'interface'; readonly name: string };

/** Which addresses of the node take node ports (reference 1.3); no CIDRs and not primary: all. */
export interface NodePortAddresses {
  readonly primary: boolean;
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

export interface Config {
  readonly mode: 'iptables' | 'ipvs';
  readonly ipvs: IpvsConfig;
  readonly source: SourceConfig;
  readonly nodeName: string;
  /** Sync until everything is applied, then exit. */
  readonly once: boolean;
  readonly detectLocal: DetectLocal;
  readonly masqueradeAll: boolean;
  readonly masqueradeBit: number;
  readonly nodePortAddresses: NodePortAddresses;
  readonly localhostNodePorts: boolean;
  readonly iptablesBackend: IptablesBackend;
  /** Milliseconds. */
  readonly syncPeriod: number;
  readonly minSyncPeriod: number;
  readonly bindAddress: Address | undefined;
  readonly conntrack: ConntrackSettings;
}

/** Flags as commander hands them over: text, or true. */
export type Flags = Readonly<Record<string, string | boolean | undefined>>;

/** Everything wrong with the configuration, together. */
export class ConfigError extends Error {
  readonly code = 'CONFIG';
}

/** Defaults of kube-proxy (reference 1.2), each as its flag's text. */
export const DEFAULTS = {
  mode: 'iptables',
  iptablesMasqueradeBit: '14',
  iptablesSyncPeriod: '30s',
  iptablesMinSyncPeriod: '1s',
  iptablesLocalhostNodeports: true,
  iptablesBackend: 'auto',
  ipvsScheduler: 'rr',
  ipvsSyncPeriod: '30s',
  ipvsMinSyncPeriod: '0s',
  conntrackMaxPerCore: '32768',
  conntrackMin: '131072',
  conntrackTcpTimeoutEstablished: '24h',
  conntrackTcpTimeoutCloseWait: '1h',
} as const;

/** Throws a ConfigError that lists every fault. */
export function configFromFlags(flags: Flags): Config {
  const faults: string[] = [];
  const fault = (flag: string, problem: string) => {
    faults.push(`--${flag}=${String(flags[camel(flag)] ?? '')}: ${problem}`);
  };
  const read = { text: (flag: string) => textFlag(flags, flag), fault };
  const mode = readMode(read);
  const config: Config = {
    mode,
    ipvs: readIpvs(read),
    source: readSource(read),
    nodeName: readNodeName(read),
    once: flags.once === true,
    detectLocal: readDetectLocal(read),
    masqueradeAll: isOn(read, 'masquerade-all', false),
    masqueradeBit: readBit(read),
    nodePortAddresses: readNodePortAddresses(read),
    localhostNodePorts: isOn(read, 'iptables-localhost-nodeports', DEFAULTS.iptablesLocalhostNodeports),
    iptablesBackend: readBackend(read),
    ...readPeriods(read, mode),
    bindAddress: readBindAddress(read),
    conntrack: readConntrack(read),
  };
  if (faults.length > 0) throw new ConfigError(faults.join('; '));
  return Object.freeze(config);
}

interface Reader {
  text(flag: string): string | undefined;
  fault(flag: string, problem: string): void;
}

/** `sync-period` → `syncPeriod`: the name under which commander hands a flag over. */
export function camel(flag: string): string {
  return flag.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function textFlag(flags: Flags, flag: string): string | undefined {
  const value = flags[camel(flag)];
  return value === undefined ? undefined : String(value);
}

function readMode(read: Reader): Config['mode'] {
  const modes = [read.text('mode'), read.text('proxy-mode')].filter((mode) => mode !== undefined && mode !== '');
  if (modes.length === 2 && modes[0] !== modes[1]) read.fault('proxy-mode', `is another mode than --mode=${modes[0]}`);
  const mode = modes[0] ?? DEFAULTS.mode;
  if (mode === 'iptables' || mode === 'ipvs') return mode;
  read.fault(read.text('mode') === undefined ? 'proxy-mode' : 'mode', 'must be iptables or ipvs');
  return 'iptables';
}

function readSource(read: Reader): SourceConfig {
  const path = read.text('manifests');
  const kubeconfig = read.text('kubeconfig');
  const master = read.text('master');
  if (path !== undefined && (kubeconfig !== undefined || master !== undefined)) {
    read.fault('manifests', 'is one source, and --kubeconfig or --master another: name one of them');
  }
  if (path === '') read.fault('manifests', 'must name a folder, a file, or - for standard input');
  if (path !== undefined) return { kind: 'manifests', path };
  return { kind: 'kubernetes', kubeconfig, master };
}

function readNodeName(read: Reader): string {
  const given = read.text('hostname-override');
  const name = (given ?? hostname()).trim().toLowerCase();
  if (name === '') read.fault('hostname-override', 'must not be blank');
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
    if (!isName)
      read.fault(
        flag,
        `must name an interface, of at most 15 characters (a prefix: 14), as --detect-local-mode=${mode} needs it`,
      );
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

function readCidrs(read: Reader, flag: string): Cidr[] {
  const texts = (read.text(flag) ?? '').split(',').filter((text) => text.trim() !== '');
  const cidrs: Cidr[] = [];
  for (const text of texts) {
    const cidr = parseCidr(text);
    if (cidr === undefined) read.fault(flag, `${text} is not a CIDR`);
    else cidrs.push(cidr);
  }
  return cidrs;
}

/** Keywords of 1.37: primary, localhost, all, and CIDRs in any mixture. */
const KEYWORDS: Readonly<Record<string, string>> = { localhost: '127.0.0.0/8,::1/128', all: '0.0.0.0/0,::/0' };

function readNodePortAddresses(read: Reader): NodePortAddresses {
  const words = (read.text('nodeport-addresses') ?? '').split(',').map((word) => word.trim());
  const texts = words.filter((word) => word !== 'primary').map((word) => KEYWORDS[word] ?? word);
  const flag = 'nodeport-addresses';
  const reader: Reader = { text: () => texts.join(','), fault: (_, problem) => read.fault(flag, problem) };
  return { primary: words.includes('primary'), cidrs: readCidrs(reader, flag) };
}

function readBit(read: Reader): number {
  const text = read.text('iptables-masquerade-bit') ?? DEFAULTS.iptablesMasqueradeBit;
  const bit = /^\d+$/.test(text) ? Number(text) : -1;
  if (bit < 0 || bit > 31) read.fault('iptables-masquerade-bit', 'must be 0 to 31');
  return bit;
}

function readBackend(read: Reader): IptablesBackend {
  const text = read.text('iptables-backend') ?? DEFAULTS.iptablesBackend;
  if (text === 'auto' || text === 'nft' || text === 'legacy') return text;
  read.fault('iptables-backend', 'must be auto, nft or legacy');
  return 'auto';
}

function readPeriods(read: Reader, mode: Config['mode']): { syncPeriod: number; minSyncPeriod: number } {
  const initial =
    mode === 'ipvs'
      ? { period: DEFAULTS.ipvsSyncPeriod, min: DEFAULTS.ipvsMinSyncPeriod }
      : { period: DEFAULTS.iptablesSyncPeriod, min: DEFAULTS.iptablesMinSyncPeriod };
  const syncPeriod = readDuration(read, `${mode}-sync-period`, initial.period);
  const minSyncPeriod = readDuration(read, `${mode}-min-sync-period`, initial.min);
  if (syncPeriod <= 0) read.fault(`${mode}-sync-period`, 'must be more than 0');
  if (minSyncPeriod < 0) read.fault(`${mode}-min-sync-period`, 'must not be negative');
  if (minSyncPeriod > syncPeriod) {
    read.fault(`${mode}-min-sync-period`, `must not be longer than --${mode}-sync-period`);
  }
  return { syncPeriod, minSyncPeriod };
}

/** A scheduler goes to the kernel as it is: letters and digits, of at most 15 (linux/ip_vs.h, IP_VS_SCHEDNAME_MAXLEN). */
const SCHEDULER = /^[a-z0-9]{1,15}$/;

function readIpvs(read: Reader): IpvsConfig {
  const scheduler = read.text('ipvs-scheduler') || DEFAULTS.ipvsScheduler;
  if (!SCHEDULER.test(scheduler)) read.fault('ipvs-scheduler', 'must be the name of a scheduler, such as rr or lc');
  const timeout = (flag: string) => {
    const milliseconds = readDuration(read, flag, '0s');
    if (milliseconds < 0) read.fault(flag, 'must not be negative');
    return Math.floor(milliseconds / 1000);
  };
  return {
    scheduler,
    excludeCidrs: readCidrs(read, 'ipvs-exclude-cidrs'),
    strictArp: isOn(read, 'ipvs-strict-arp', false),
    tcpTimeout: timeout('ipvs-tcp-timeout'),
    tcpFinTimeout: timeout('ipvs-tcpfin-timeout'),
    udpTimeout: timeout('ipvs-udp-timeout'),
  };
}

function readDuration(read: Reader, flag: string, initial: string): number {
  const milliseconds = parseDuration(read.text(flag) ?? initial);
  if (milliseconds === undefined) read.fault(flag, 'must be a duration such as 30s or 1m30s');
  return milliseconds ?? Number.NaN;
}

function readConntrack(read: Reader): ConntrackSettings {
  const count = (flag: string, initial: string) => {
    const text = read.text(flag) ?? initial;
    if (!/^\d{1,9}$/.test(text)) read.fault(flag, 'must be a whole number from 0 on');
    return Number(text);
  };
  const timeout = (flag: string, initial: string) => {
    const milliseconds = readDuration(read, flag, initial);
    if (milliseconds < 0) read.fault(flag, 'must not be negative');
    return milliseconds;
  };
  return {
    maxPerCore: count('conntrack-max-per-core', DEFAULTS.conntrackMaxPerCore),
    min: count('conntrack-min', DEFAULTS.conntrackMin),
    tcpEstablishedTimeout: timeout('conntrack-tcp-timeout-established', DEFAULTS.conntrackTcpTimeoutEstablished),
    tcpCloseWaitTimeout: timeout('conntrack-tcp-timeout-close-wait', DEFAULTS.conntrackTcpTimeoutCloseWait),
    tcpBeLiberal: isOn(read, 'conntrack-tcp-be-liberal', false),
    udpTimeout: timeout('conntrack-udp-timeout', '0'),
    udpStreamTimeout: timeout('conntrack-udp-timeout-stream', '0'),
  };
}

function readBindAddress(read: Reader): Address | undefined {
  const text = read.text('bind-address');
  if (text === undefined || text === '') return undefined;
  const address = parseAddress(text);
  if (address === undefined) read.fault('bind-address', 'must be an IP address');
  return address === '0.0.0.0' || address === '::' ? undefined : address;
}

function isOn(read: Reader, flag: string, initial: boolean): boolean {
  const text = read.text(flag) ?? String(initial);
  if (text !== 'true' && text !== 'false') read.fault(flag, 'must be true or false');
  return text === 'true';
}
