/** The settings of each mode and family, from the configuration, the Node and this machine. */
import {
  type Address,
  addressBytes,
  type Cidr,
  cidrContains,
  type Family,
  familyOf,
  holdsAll,
  hostCidr,
  isLoopback,
} from '../base/address.ts';
import { sameData } from '../base/equal.ts';
import type { Config, IpvsConfig } from '../config/config.ts';
import { firstOf } from '../inspect/wire/format.ts';
import type { IptablesTools } from '../kernel/iptables-tools.ts';
import type { IpvsKernel } from '../kernel/ipvs-kernel.ts';
import { routable } from '../kernel/node-facts.ts';
import type { Sysctls } from '../kernel/sysctls.ts';
import type { IsNodeAddress } from '../proxy/model/flow-leftovers.ts';
import type { NodeView } from '../proxy/model/objects.ts';
import type { IptablesSettings } from '../proxy/modes/iptables/static-chains.ts';
import type { IpvsSettings } from '../proxy/modes/ipvs/static-chains.ts';
import type { FamilySettings, LocalDetector } from '../proxy/modes/netfilter/local-traffic.ts';
import type { NftablesSettings } from '../proxy/modes/nftables/chains.ts';
import { MAX_NAMED } from './log-lines.ts';
import type { Platform } from './platform.ts';

const BE_LIBERAL = 'net/netfilter/nf_conntrack_tcp_be_liberal';

interface SettingsInput {
  readonly config: Config;
  readonly node: NodeView | undefined;
  readonly family: Family;
  readonly sysctls: Sysctls;
  /** Addresses of this machine's interfaces; it must have all of the family. */
  readonly interfaces: readonly Address[];
  /** True when nf_conntrack_tcp_be_liberal will be set before rules are written. Otherwise the kernel's present value counts. */
  readonly willBeLiberal?: boolean;
}

type OnThisMachine = Omit<SettingsInput, 'sysctls' | 'interfaces'> & { readonly platform: Platform };

/** The settings of iptables mode on this machine. */
export async function readSettings(input: OnThisMachine): Promise<IptablesSettings> {
  const { machine, kernel } = input.platform;
  const interfaces = await machine.addresses(input.family);
  return await iptablesSettings({ ...input, sysctls: kernel.settings, interfaces });
}

export async function iptablesSettings(input: SettingsInput): Promise<IptablesSettings> {
  const { config, family } = input;
  const wanted = wantedCidrs(input);
  const localhostNodePorts = family === 'IPv4' && config.localhostNodePorts && admitsLoopback(wanted);
  return { ...(await translatingSettings(input, { localhostNodePorts })), localhostNodePorts };
}

/** The settings of nftables mode on this machine. */
export async function nftablesSettings(
  input: OnThisMachine & { readonly serviceCidrs: readonly Cidr[] | undefined },
): Promise<NftablesSettings> {
  const { machine, kernel } = input.platform;
  const interfaces = await machine.addresses(input.family);
  const settings = await translatingSettings(
    { ...input, sysctls: kernel.settings, interfaces },
    { localhostNodePorts: false },
  );
  return {
    ...settings,
    serviceCidrs: input.serviceCidrs?.filter((cidr) => familyOf(cidr) === input.family),
    countsConnections: input.config.countsConnections || input.config.serviceMetrics,
  };
}

/** The settings that iptables and nftables mode share, because both translate addresses by rules. */
async function translatingSettings(
  input: SettingsInput,
  { localhostNodePorts }: { readonly localhostNodePorts: boolean },
): Promise<Omit<NftablesSettings, 'serviceCidrs' | 'countsConnections'>> {
  const { sysctls, interfaces, willBeLiberal = false } = input;
  const shared = familySettings(input);
  const wanted = wantedCidrs(input);
  return {
    ...shared,
    nodePortAddresses: nodePortAddresses(wanted, { interfaces, localhostNodePorts }),
    dropInvalid: !willBeLiberal && (await sysctls.read(BE_LIBERAL)) !== '1',
  };
}

/** The settings of IPVS mode. */
export function ipvsSettings(input: Omit<SettingsInput, 'sysctls'>): IpvsSettings {
  const { ipvs } = input.config;
  const shared = familySettings(input);
  const wanted = wantedCidrs(input);
  const { scheduler, excludeCidrs } = ipvs;
  return { ...shared, scheduler, excludeCidrs, nodePortCidrs: wanted.length === 0 ? 'all' : wanted };
}

/** The input of settings on this machine. */
export interface OnMachine {
  readonly config: Config;
  /** Reads the own Node as it is now. */
  readonly node: () => NodeView | undefined;
  readonly platform: Platform;
}

export async function readIpvsSettings({ config, node, platform }: OnMachine, family: Family): Promise<IpvsSettings> {
  return ipvsSettings({ config, node: node(), family, interfaces: await platform.machine.addresses(family) });
}

/** The options of IPVS mode on this machine, as the mode or as a predecessor. */
export async function ipvsOptions<M extends { readonly tools: IptablesTools }>(
  { config, node, members, platform }: OnMachine & { readonly members: readonly M[] },
  kernel: IpvsKernel,
) {
  const families = await Promise.all(
    members.map(async (member) => ({
      ...member,
      settings: await readIpvsSettings({ config, node, platform }, member.tools.family),
    })),
  );
  return { families, node: config.ipvs, kernel, sysctls: platform.kernel.settings };
}

/** The settings that all modes share. */
function familySettings(input: Omit<SettingsInput, 'sysctls'>): FamilySettings {
  const { config, node, family } = input;
  return {
    family,
    masqueradeBit: config.masqueradeBit,
    masqueradeAll: config.masqueradeAll,
    localDetector: localDetector(config, node, family),
    nodeAddresses: ownAddresses(input),
    ...(config.resetGone ? { refusesByReset: true } : {}),
  };
}

/** The kernel settings of IPVS mode (docs/semantics.md 8.5), by name. */
export function ipvsKernelSettings({ strictArp }: IpvsConfig, kernelRelease: string): Map<string, string> {
  const wanted = new Map([
    ['net/ipv4/vs/conntrack', '1'],
    ['net/ipv4/vs/expire_nodest_conn', '1'],
    ['net/ipv4/vs/expire_quiescent_template', '1'],
    ['net/ipv4/ip_forward', '1'],
  ]);
  // Before Linux 5.9, with 1, a client that reused its port waited a second (k8s#81775).
  const [major = 0, minor = 0] = kernelRelease.split('.').map(Number);
  if (major < 5 || (major === 5 && minor < 9)) wanted.set('net/ipv4/vs/conn_reuse_mode', '0');
  if (strictArp) wanted.set('net/ipv4/conf/all/arp_ignore', '1').set('net/ipv4/conf/all/arp_announce', '2');
  return wanted;
}

/**
 * The Node's addresses of a family. --bind-address replaces those of its family; without a Node, the interfaces' addresses count
 * (docs/semantics.md 9.1).
 */
function ownAddresses(input: Omit<SettingsInput, 'sysctls'>): Address[] {
  const known = knownAddresses(input);
  return known.length > 0 ? known : routable(input.interfaces, input.family);
}

function knownAddresses({ config: { bindAddress }, node, family }: Omit<SettingsInput, 'sysctls'>): Address[] {
  if (bindAddress !== undefined && familyOf(bindAddress) === family) return [bindAddress];
  return routable(node?.addresses ?? [], family);
}

function localDetector({ detectLocal }: Config, node: NodeView | undefined, family: Family): LocalDetector {
  if (detectLocal.kind === 'interface') return detectLocal;
  const cidrs = detectLocal.kind === 'cluster-cidr' ? detectLocal.cidrs : (node?.podCIDRs ?? []);
  const cidr = cidrs.find((candidate) => familyOf(candidate) === family);
  return cidr === undefined ? { kind: 'none' } : { kind: 'cidr', cidr };
}

/**
 * The CIDRs of a family in which node ports are served. An empty list means all addresses, also for a family that the configuration does not
 * mention (docs/semantics.md 6.9). `primary` is the Node's first address.
 */
function wantedCidrs(input: Omit<SettingsInput, 'sysctls'>): Cidr[] {
  const { cidrs, primary } = input.config.nodePortAddresses;
  const wanted = cidrs.filter((cidr) => familyOf(cidr) === input.family);
  const addresses = primary === true ? ownAddresses(input) : primary === 'known' ? knownAddresses(input) : [];
  wanted.push(...addresses.slice(0, 1).map(hostCidr));
  return wanted.some(holdsAll) ? [] : wanted;
}

interface Reachable {
  readonly interfaces: readonly Address[];
  readonly localhostNodePorts: boolean;
}

/** All addresses, where no CIDR is wanted; otherwise this node's addresses inside the CIDRs. */
function nodePortAddresses(wanted: readonly Cidr[], { interfaces, localhostNodePorts }: Reachable): 'all' | Address[] {
  if (wanted.length === 0) return 'all';
  const isServed = (address: Address) =>
    (localhostNodePorts || !isLoopback(address)) && wanted.some((cidr) => cidrContains(cidr, address));
  return [...new Set(interfaces.filter(isServed))];
}

/** Tests whether an address, as bytes, takes node ports. Where the rules serve all addresses, those of these interfaces count. */
export function nodePortFilter(
  {
    family,
    nodePortAddresses,
    localhostNodePorts = false,
  }: Pick<NftablesSettings, 'family' | 'nodePortAddresses'> & Partial<Pick<IptablesSettings, 'localhostNodePorts'>>,
  interfaces: readonly Address[],
): IsNodeAddress {
  if (nodePortAddresses !== 'all') {
    const listed = new Set(nodePortAddresses.map(addressBytes));
    return (address) => listed.has(address);
  }
  const own = new Set(routable(interfaces, family).map(addressBytes));
  return (address) => own.has(address) || (localhostNodePorts && address.charCodeAt(0) === 127);
}

/** The same test for IPVS mode. */
export function ipvsNodePortFilter({ nodePortCidrs }: IpvsSettings, interfaces: readonly Address[]): IsNodeAddress {
  const isServed = (address: Address) =>
    !isLoopback(address) && (nodePortCidrs === 'all' || nodePortCidrs.some((cidr) => cidrContains(cidr, address)));
  const served = new Set(interfaces.filter(isServed).map(addressBytes));
  return (address) => served.has(address);
}

/** Node ports are served on 127.0.0.0/8, unless the wanted CIDRs exclude loopback. */
function admitsLoopback(wanted: readonly Cidr[]): boolean {
  if (wanted.length === 0) return true;
  return wanted.some((cidr) => cidr.startsWith('127.') || cidrContains(cidr, '127.0.0.0' as Address));
}

/** A fact of the Node, the cluster or this machine that changed since rules were made from it. */
export interface ChangedFact {
  readonly family: Family;
  /** The name of a setting of the family, or `tools` for the tools of iptables. */
  readonly fact: string;
  readonly from: unknown;
  readonly to: unknown;
}

type Setting = keyof IptablesSettings | keyof IpvsSettings | keyof NftablesSettings;

/** Text of the facts that can change while a configuration stays. */
const FACT_TEXTS: Readonly<Partial<Record<Setting | 'tools', string>>> = {
  nodeAddresses: 'addresses of the Node',
  localDetector: 'source of traffic from local pods',
  nodePortAddresses: 'addresses that take node ports',
  nodePortCidrs: 'ranges that take node ports',
  localhostNodePorts: 'node ports on loopback',
  dropInvalid: 'drop of packets that conntrack calls invalid',
  serviceCidrs: 'ranges of cluster IPs',
  tools: 'tools of iptables',
};

/** The settings of a family that differ from those before. */
export function changedFacts(before: FamilySettings, now: FamilySettings): ChangedFact[] {
  const from = { ...before } as Readonly<Record<string, unknown>>;
  const to = { ...now } as Readonly<Record<string, unknown>>;
  const names = [...new Set([...Object.keys(from), ...Object.keys(to)])];
  return names
    .filter((fact) => !sameData(from[fact], to[fact]))
    .map((fact) => ({ family: before.family, fact, from: from[fact], to: to[fact] }));
}

/** `IPv4 addresses of the Node: from 192.0.2.1 to 192.0.2.2` */
export function changedFactText({ family, fact, from, to }: ChangedFact): string {
  const name = FACT_TEXTS[fact as Setting] ?? fact;
  return `${family} ${name}: from ${valueText(from)} to ${valueText(to)}`;
}

function valueText(value: unknown): string {
  if (value === undefined) return 'unknown';
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  if (Array.isArray(value)) return value.length === 0 ? 'none' : firstOf(value.map(String), MAX_NAMED);
  if (isDetector(value)) return detectorText(value);
  return String(value);
}

function isDetector(value: unknown): value is LocalDetector {
  return typeof value === 'object' && value !== null && 'kind' in value;
}

function detectorText(detector: LocalDetector): string {
  if (detector.kind === 'cidr') return detector.cidr;
  return detector.kind === 'interface' ? `the interface ${detector.name}` : 'unknown';
}
