/** Flags → one configuration. Defaults are those of kube-proxy (k8s.io/kubernetes, pkg/proxy/apis/config/v1alpha1/defaults.go). */
import { hostname } from 'node:os';
import { type Address, parseAddress } from '../base/address.ts';
import type { ConntrackSettings } from '../kernel/conntrack-settings.ts';
import { AUTO, type Config, FAILOVERS, MODES, type ModeChoice } from './config.ts';
import { readFeatureGates } from './feature-gates.ts';
import { FIELDS } from './fields.ts';
import { ConfigError, camel, type Flags, flagText, textFlag } from './flags.ts';
import { readIdleIpvs, readIpvs } from './ipvs.ts';
import { readServe } from './listen.ts';
import { readLog } from './log.ts';
import {
  checkOrder,
  isOn,
  MOST_INT32,
  type Reader,
  readChoice,
  readInteger,
  readPositive,
  readTimeout,
} from './readers.ts';
import { readRecording } from './recording.ts';
import { readSource } from './source.ts';
import { readDetectLocal, readNodePortAddresses } from './traffic.ts';

export interface ConfigOrigins {
  /** Fields of a file, by the flag with the same meaning in camel case. */
  readonly origins?: ReadonlyMap<string, string>;
  /** The file that --config names, or is to be written. */
  readonly file?: string;
  readonly given?: Readonly<Record<string, unknown>>;
}

/** As `configsFromFlags`; of several, the first. */
export function configFromFlags(flags: Flags, origins: ConfigOrigins = {}): Config {
  const [config] = configsFromFlags(flags, origins);
  return config;
}

/**
 * One configuration; where the mode is auto, one for each mode that may be chosen, and `modeChoice.why` is undefined in each. Throws a
 * ConfigError that lists every fault with its flag or field, its value, and the allowed values.
 */
export function configsFromFlags(
  flags: Flags,
  { origins, file, given = {} }: ConfigOrigins = {},
): readonly [Config, ...Config[]] {
  // Modes share most flags, and then their faults.
  const faults = new Set<string>();
  const name = (flag: string) => fieldOf(flag, flags, origins) ?? `--${flag}`;
  const fault = (flag: string, problem: string) => {
    const field = fieldOf(flag, flags, origins);
    const value = textFlag(flags, flag);
    if (field === undefined) faults.add(`${flagText(flags, flag)}: ${problem}`);
    else faults.add(`--config: ${field}: ${value === undefined ? '' : `${value}: `}${problem}`);
  };
  const read: Reader = { text: (flag) => textFlag(flags, flag), fault, name };
  const { modes, choice } = readMode(read);
  const once = flags.once === true;
  const [first, ...others] = modes;
  const build = (mode: Config['mode']): Config =>
    Object.freeze({
      mode,
      modeChoice: choice,
      once,
      given,
      ...readInMode(read, { mode, hasFile: file !== undefined }),
    });
  const configs = [build(first), ...others.map(build)] as const;
  readInteger(read, 'kube-api-burst', { initial: 10, least: 0, most: MOST_INT32 });
  if (faults.size > 0) throw new ConfigError([...faults].join('; '));
  return configs;
}

interface InMode {
  readonly mode: Config['mode'];
  readonly hasFile: boolean;
}

/** Some flags mean one mode alone, and some have another default in each. */
function readInMode(read: Reader, inMode: InMode): Omit<Config, 'mode' | 'modeChoice' | 'once' | 'given'> {
  const { mode, hasFile } = inMode;
  const bindAddress = readBindAddress(read);
  return {
    ipvs: mode === 'ipvs' ? readIpvs(read) : readIdleIpvs(read),
    source: readSource(read),
    nodeName: readNodeName(read),
    isNodeNamed: (read.text('hostname-override') ?? '') !== '',
    detectLocal: readDetectLocal(read),
    ...readMasquerading(read, inMode),
    nodePortAddresses: readNodePortAddresses(read, mode),
    localhostNodePorts: isOn(read, 'iptables-localhost-nodeports', true),
    iptablesBackend: readChoice(read, 'iptables-backend', { initial: 'auto', choices: ['auto', 'nft', 'legacy'] }),
    failover: readChoice(read, 'failover', { initial: 'none', choices: FAILOVERS }),
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
interface Asked {
  readonly modes: readonly [Config['mode'], ...Config['mode'][]];
  readonly choice: ModeChoice;
}

function readMode(read: Reader): Asked {
  const asked = [read.text('mode'), read.text('proxy-mode')].filter((mode) => mode !== undefined && mode !== '');
  if (asked.length === 2 && asked[0] !== asked[1])
    read.fault('proxy-mode', `contradicts --mode=${asked[0]}; give one of them`);
  const [mode] = asked;
  if (mode === undefined) return { modes: ['iptables'], choice: { by: 'default' } };
  if (mode === AUTO) return { modes: MODES, choice: { by: AUTO, why: undefined } };
  const known = MODES.find((one) => one === mode);
  if (known === undefined)
    read.fault(read.text('mode') === undefined ? 'proxy-mode' : 'mode', 'must be iptables, ipvs, nftables or auto');
  return { modes: [known ?? 'iptables'], choice: { by: 'configuration' } };
}

function readNodeName(read: Reader): string {
  // An empty name means «not set»; a blank one is a mistake.
  const given = read.text('hostname-override') || undefined;
  const name = (given ?? hostname()).trim().toLowerCase();
  if (name === '') read.fault('hostname-override', 'must not be blank: it is the name of this Node');
  return name;
}

/** Each of the two sections of a file belongs to its own mode; IPVS mode uses the iptables section. */
function readMasquerading(read: Reader, { mode, hasFile }: InMode): Pick<Config, 'masqueradeAll' | 'masqueradeBit'> {
  const isNft = mode === 'nftables';
  const bit = isNft ? 'nftables-masquerade-bit' : 'iptables-masquerade-bit';
  const isSaid = read.text('nftables-masquerade-all') !== undefined || hasFile;
  return {
    masqueradeAll: isOn(read, isNft && isSaid ? 'nftables-masquerade-all' : 'masquerade-all', false),
    masqueradeBit: readInteger(read, bit, { initial: 14, least: 0, most: 31 }),
  };
}

function readPeriods(read: Reader, { mode, hasFile }: InMode): { syncPeriod: number; minSyncPeriod: number } {
  const initial = mode === 'ipvs' ? { period: '30s', min: '0s' } : { period: '30s', min: '1s' };
  // nftables mode has no such flags in kube-proxy: it uses those of iptables mode.
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

function readConntrack(read: Reader): ConntrackSettings {
  const count = (flag: string, initial: number) => readInteger(read, flag, { initial, least: 0, most: MOST_INT32 });
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

function readBindAddress(read: Reader): Address | undefined {
  const text = read.text('bind-address');
  if (text === undefined || text === '') return undefined;
  const address = parseAddress(text);
  if (address === undefined) read.fault('bind-address', 'must be an IP address');
  return address === '0.0.0.0' || address === '::' ? undefined : address;
}
