/** Makes the configuration from flags. Defaults are kube-proxy's (k8s.io/kubernetes, pkg/proxy/apis/config/v1alpha1/defaults.go). */

import { hostname } from 'node:os';
import { type Address, familyOf, parseAddress } from '../base/address.ts';
import type { ConntrackSettings } from '../kernel/conntrack-settings.ts';
import { schedulerProblem } from '../proxy/model/ipvs-scheduler.ts';
import { MODE_NAMES, MODES } from '../proxy/model/modes.ts';
import { NODE_PORTS, type PortRange, parsePortRange, rangeText } from '../proxy/model/port-range.ts';
import {
  AUTO,
  CONTENT_TYPES,
  type Config,
  DATAPATH_CHECKS,
  type DetectLocal,
  FAILOVERS,
  type IpvsConfig,
  type ModeChoice,
  type NodePortAddresses,
  type RecordingConfig,
  type SourceConfig,
  TAKEOVERS,
  type TakeoverConfig,
} from './config.ts';
import { readFeatureGates } from './feature-gates.ts';
import { FIELDS } from './file-fields.ts';
import { ConfigError, camel, type Flags, flagText, textFlag } from './flags.ts';
import { readServe } from './listen.ts';
import {
  checkOrder,
  type FlagReader,
  isOn,
  MAX_INT32,
  readChoice,
  readCidrs,
  readInteger,
  readLog,
  readPositive,
  readSize,
  readTimeout,
} from './readers.ts';

export interface ConfigOrigins {
  /** Fields of a file, by the flag with the same meaning in camel case. */
  readonly origins?: ReadonlyMap<string, string>;
  /** The file that --config names, or is to be written. */
  readonly file?: string;
  readonly given?: Readonly<Record<string, unknown>>;
}

/** The first of `configsFromFlags`. */
export function configFromFlags(flags: Flags, origins: ConfigOrigins = {}): Config {
  const [config] = configsFromFlags(flags, origins);
  return config;
}

/**
 * One configuration. Where the mode is auto, there is one for each mode that may be chosen, each with `modeChoice.why` undefined. Throws a
 * ConfigError that lists every fault with its flag or field, its value, and the allowed values.
 */
export function configsFromFlags(
  flags: Flags,
  { origins, file, given = {} }: ConfigOrigins = {},
): readonly [Config, ...Config[]] {
  // Modes share most flags, and so their faults.
  const faults = new Set<string>();
  const name = (flag: string) => fieldOf(flag, flags, origins) ?? `--${flag}`;
  const fault = (flag: string, problem: string) => {
    const field = fieldOf(flag, flags, origins);
    const value = textFlag(flags, flag);
    if (field === undefined) faults.add(`${flagText(flags, flag)}: ${problem}`);
    else faults.add(`--config: ${field}: ${value === undefined ? '' : `${value}: `}${problem}`);
  };
  const read: FlagReader = { text: (flag) => textFlag(flags, flag), fault, name };
  const { modes, choice } = readMode(read);
  const once = flags.once === true;
  const [first, ...others] = modes;
  const build = (mode: Config['mode']): Config =>
    Object.freeze({
      mode,
      modeChoice: choice,
      once,
      given,
      ...readInMode(read, { mode, once, hasFile: file !== undefined }),
    });
  const configs = [build(first), ...others.map(build)] as const;
  readInteger(read, 'kube-api-burst', { initial: 10, least: 0, most: MAX_INT32 });
  if (faults.size > 0) throw new ConfigError([...faults].join('; '));
  return configs;
}

interface InMode {
  readonly mode: Config['mode'];
  readonly once: boolean;
  readonly hasFile: boolean;
}

/** Some flags are for one mode alone, and some have another default in each mode. */
function readInMode(read: FlagReader, inMode: InMode): Omit<Config, 'mode' | 'modeChoice' | 'once' | 'given'> {
  const { mode, hasFile } = inMode;
  const bindAddress = readBindAddress(read);
  return {
    ipvs: MODES[mode].balancesBy === 'virtual servers' ? readIpvs(read) : readIdleIpvs(read),
    source: readSource(read),
    nodeName: readNodeName(read),
    isNodeNamed: (read.text('hostname-override') ?? '') !== '',
    detectLocal: readDetectLocal(read),
    ...readMasquerading(read, inMode),
    nodePortAddresses: readNodePortAddresses(read, mode),
    localhostNodePorts: isOn(read, 'iptables-localhost-nodeports', true),
    iptablesBackend: readChoice(read, 'iptables-backend', { initial: 'auto', choices: ['auto', 'nft', 'legacy'] }),
    resetGone: isOn(read, 'reset-gone', false),
    failover: readChoice(read, 'failover', { initial: 'none', choices: FAILOVERS }),
    takeover: readTakeover(read, inMode.once),
    datapathCheck: readChoice(read, 'datapath-check', { initial: 'none', choices: DATAPATH_CHECKS }),
    datapathAddresses: readDatapathAddresses(read),
    serviceMetrics: isOn(read, 'service-metrics', false),
    countsConnections: isOn(read, 'nftables-count-connections', false),
    ...readPeriods(read, inMode),
    bindAddress,
    conntrack: readConntrack(read),
    serve: readServe(read, { isIPv6: (read.text('bind-address') ?? '').includes(':'), hasFile }),
    log: readLog(read),
    recording: readRecording(read),
    oomScoreAdj: readInteger(read, 'oom-score-adj', { initial: -999, least: -1000, most: 1000 }),
    featureGates: readFeatureGates(read),
    configSyncPeriod: readPositive(read, 'config-sync-period', '15m'),
  };
}

/** The file's field with the meaning of a flag; undefined where the command line set the flag, or no file was read. */
function fieldOf(flag: string, flags: Flags, origins: ConfigOrigins['origins']): string | undefined {
  if (origins === undefined) return undefined;
  const isOnCommandLine = flags[camel(flag)] !== undefined && !origins.has(camel(flag));
  return isOnCommandLine ? undefined : FIELDS.find((field) => field.flag === flag)?.path;
}

/** The modes that the configuration allows, at least one. */
interface ChosenModes {
  readonly modes: readonly [Config['mode'], ...Config['mode'][]];
  readonly choice: ModeChoice;
}

function readMode(read: FlagReader): ChosenModes {
  const given = [read.text('mode'), read.text('proxy-mode')].filter((mode) => mode !== undefined && mode !== '');
  if (given.length === 2 && given[0] !== given[1])
    read.fault('proxy-mode', `contradicts --mode=${given[0]}; give one of them`);
  const [mode] = given;
  if (mode === undefined) return { modes: ['iptables'], choice: { by: 'default' } };
  if (mode === AUTO) return { modes: MODE_NAMES, choice: { by: AUTO, why: undefined } };
  const known = MODE_NAMES.find((one) => one === mode);
  if (known === undefined)
    read.fault(read.text('mode') === undefined ? 'proxy-mode' : 'mode', 'must be iptables, ipvs, nftables or auto');
  return { modes: [known ?? 'iptables'], choice: { by: 'configuration' } };
}

function readNodeName(read: FlagReader): string {
  // An empty name means «not set»; a blank one is a mistake.
  const given = read.text('hostname-override') || undefined;
  const name = (given ?? hostname()).trim().toLowerCase();
  if (name === '') read.fault('hostname-override', 'must not be blank: it is the name of this Node');
  return name;
}

/** The sections iptables and nftables of a file are for these modes. IPVS mode uses the iptables section. */
function readMasquerading(
  read: FlagReader,
  { mode, hasFile }: InMode,
): Pick<Config, 'masqueradeAll' | 'masqueradeBit'> {
  const isNft = MODES[mode].rulesBy === 'nftables';
  const bit = isNft ? 'nftables-masquerade-bit' : 'iptables-masquerade-bit';
  const hasOwn = read.text('nftables-masquerade-all') !== undefined || hasFile;
  return {
    masqueradeAll: isOn(read, isNft && hasOwn ? 'nftables-masquerade-all' : 'masquerade-all', false),
    masqueradeBit: readInteger(read, bit, { initial: 14, least: 0, most: 31 }),
  };
}

function readPeriods(read: FlagReader, { mode, hasFile }: InMode): { syncPeriod: number; minSyncPeriod: number } {
  // nftables mode has no such flags in kube-proxy: it uses those of iptables mode.
  const flagOf = (name: string) => {
    const own = `${mode}-${name}`;
    return MODES[mode].rulesBy === 'nftables' && !hasFile && read.text(own) === undefined ? `iptables-${name}` : own;
  };
  const [period, min] = [flagOf('sync-period'), flagOf('min-sync-period')];
  const syncPeriod = readPositive(read, period, '30s');
  const minSyncPeriod = readTimeout(read, min, MODES[mode].minSyncPeriod);
  if (syncPeriod > 0 && minSyncPeriod > syncPeriod) {
    const shorter = { flag: min, milliseconds: minSyncPeriod };
    checkOrder(read, { shorter, longer: { flag: period, milliseconds: syncPeriod }, mayBeEqual: true });
  }
  return { syncPeriod, minSyncPeriod };
}

function readConntrack(read: FlagReader): ConntrackSettings {
  const count = (flag: string, initial: number) => readInteger(read, flag, { initial, least: 0, most: MAX_INT32 });
  return {
    maxPerCore: count('conntrack-max-per-core', 32_768),
    min: count('conntrack-min', 131_072),
    tcpEstablishedTimeout: readTimeout(read, 'conntrack-tcp-timeout-established', '24h'),
    tcpCloseWaitTimeout: readTimeout(read, 'conntrack-tcp-timeout-close-wait', '1h'),
    tcpBeLiberal: isOn(read, 'conntrack-tcp-be-liberal', false),
    udpTimeout: readTimeout(read, 'conntrack-udp-timeout', '0s'),
    udpStreamTimeout: readTimeout(read, 'conntrack-udp-timeout-stream', '0s'),
  };
}

function readBindAddress(read: FlagReader): Address | undefined {
  const text = read.text('bind-address');
  if (text === undefined || text === '') return undefined;
  const address = parseAddress(text);
  if (address === undefined) read.fault('bind-address', 'must be an IP address');
  return address === '0.0.0.0' || address === '::' ? undefined : address;
}

function readTakeover(read: FlagReader, once: boolean): TakeoverConfig {
  const how = readChoice(read, 'takeover', { initial: 'none', choices: TAKEOVERS });
  if (how === 'confirm' && once) read.fault('takeover', 'needs an agent that stays, and --once ends');
  return { how, window: readPositive(read, 'takeover-window', '60s') };
}

function readDatapathAddresses(read: FlagReader): readonly Address[] {
  const flag = 'datapath-addresses';
  const texts = (read.text(flag) ?? '192.0.2.80,2001:db8::80').split(',').filter((text) => text !== '');
  const addresses: Address[] = [];
  for (const text of texts) {
    const address = parseAddress(text);
    if (address === undefined) read.fault(flag, `${text} is not an IP address`);
    else if (addresses.some((one) => familyOf(one) === familyOf(address)))
      read.fault(flag, `${text} is the second address of its family`);
    else addresses.push(address);
  }
  return addresses;
}

const DEFAULT_SCHEDULER = 'rr';

/** Other modes do not check the settings of IPVS, as in kube-proxy. Invalid settings are replaced by the defaults. */
function readIdleIpvs(read: FlagReader): IpvsConfig {
  let isRight = true;
  const found = readIpvs({ ...read, fault: () => (isRight = false) });
  return isRight ? found : readIpvs({ ...read, text: () => undefined, fault: () => undefined });
}

function readIpvs(read: FlagReader): IpvsConfig {
  const scheduler = read.text('ipvs-scheduler') || DEFAULT_SCHEDULER;
  const problem = schedulerProblem(scheduler);
  if (problem !== undefined) read.fault('ipvs-scheduler', problem);
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

const MEBIBYTE = 2 ** 20;

function readRecording(read: FlagReader): RecordingConfig | undefined {
  const folder = read.text('record-dir');
  const size = readSize(read, 'record-size', { initial: '64Mi', least: MEBIBYTE, most: 2 ** 40 });
  if (folder === undefined) return undefined;
  if (folder === '') read.fault('record-dir', 'must name a folder');
  return { folder, size };
}

/** Where the objects come from: a cluster, or manifests. */
function readSource(read: FlagReader): SourceConfig {
  const path = read.text('manifests');
  // An empty path means «not set», as in kube-proxy.
  const kubeconfig = read.text('kubeconfig') || undefined;
  const master = read.text('master') || undefined;
  const contentType = readChoice(read, 'kube-api-content-type', { initial: CONTENT_TYPES[0], choices: CONTENT_TYPES });
  if (path !== undefined && (kubeconfig !== undefined || master !== undefined)) {
    const other = read.name(kubeconfig !== undefined ? 'kubeconfig' : 'master');
    read.fault('manifests', `cannot be combined with ${other}: both name a source of objects; give one of them`);
  }
  if (path === '') read.fault('manifests', 'must name a folder, a file, or - for standard input');
  const nodePorts = readNodePorts(read);
  const allowsNodeAddressPorts = isOn(read, 'allow-node-address-ports', false);
  if (path !== undefined) return { kind: 'manifests', path, nodePorts, allowsNodeAddressPorts };
  return { kind: 'kubernetes', kubeconfig, master, contentType };
}

function readNodePorts(read: FlagReader): PortRange {
  const found = parsePortRange(read.text('service-node-port-range') || rangeText(NODE_PORTS));
  if (found === undefined) {
    read.fault(
      'service-node-port-range',
      'must be a range of ports from 1 to 65535, such as 30000-32767 or 30000+2767',
    );
  }
  return found ?? NODE_PORTS;
}

function readDetectLocal(read: FlagReader): DetectLocal {
  const mode = read.text('detect-local-mode') ?? 'ClusterCIDR';
  if (mode === 'NodeCIDR') return { kind: 'node-cidr' };
  if (mode === 'BridgeInterface' || mode === 'InterfaceNamePrefix') {
    const flag = mode === 'BridgeInterface' ? 'pod-bridge-interface' : 'pod-interface-name-prefix';
    const name = read.text(flag) ?? '';
    // The name goes into rules unchanged: it must be valid for the kernel (dev_valid_name), without iptables' wildcard.
    const isName = /^[A-Za-z0-9_.-]+$/.test(name) && name.length <= (mode === 'BridgeInterface' ? 15 : 14);
    const what =
      mode === 'BridgeInterface'
        ? 'must be the name of the pod bridge, at most 15 characters'
        : 'must be the prefix of pod interface names, at most 14 characters';
    if (!isName) read.fault(flag, `${what}, because ${read.name('detect-local-mode')} is ${mode}`);
    return { kind: 'interface', name: mode === 'BridgeInterface' ? name : `${name}+` };
  }
  if (mode !== 'ClusterCIDR') {
    read.fault('detect-local-mode', 'must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix');
  }
  const cidrs = readCidrs(read, 'cluster-cidr');
  const families = new Set(cidrs.map(familyOf));
  if (families.size < cidrs.length) read.fault('cluster-cidr', 'must be one CIDR, or one IPv4 CIDR and one IPv6 CIDR');
  return { kind: 'cluster-cidr', cidrs };
}

/** kube-proxy 1.37's keywords, which may be mixed with CIDRs. */
const KEYWORDS: ReadonlyMap<string, string> = new Map([
  ['localhost', '127.0.0.0/8,::1/128'],
  ['all', '0.0.0.0/0,::/0'],
]);

/** By default nftables mode serves node ports on the Node's first address only, as kube-proxy does in that mode. */
function readNodePortAddresses(read: FlagReader, mode: Config['mode']): NodePortAddresses {
  if (MODES[mode].nodePortsAt === 'primary' && !read.text('nodeport-addresses')) return { primary: 'known', cidrs: [] };
  const words = (read.text('nodeport-addresses') ?? '').split(',').map((word) => word.trim());
  const texts = words.filter((word) => word !== 'primary').map((word) => KEYWORDS.get(word) ?? word);
  const flag = 'nodeport-addresses';
  const reader: FlagReader = { ...read, text: () => texts.join(','), fault: (_, problem) => read.fault(flag, problem) };
  const what = 'primary, localhost, all or a CIDR such as 10.0.0.0/8';
  return { primary: words.includes('primary'), cidrs: readCidrs(reader, flag, what) };
}
