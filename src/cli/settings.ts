/** From the configuration, the Node and this machine to the settings of each family. */
import type { Config, NodePortAddresses } from '../config/config.ts';
import { interfaceAddresses, routable } from '../host/node-facts.ts';
import type { Sysctls } from '../host/sysctls.ts';
import { type Address, addressBytes, cidrContains, type Family, familyOf, isLoopback } from '../model/address.ts';
import type { NodeView } from '../model/objects.ts';
import type { IsNodeAddress } from '../model/udp-flows.ts';
import type { IptablesSettings, LocalDetector } from '../modes/iptables/settings.ts';

const BE_LIBERAL = 'net/netfilter/nf_conntrack_tcp_be_liberal';

export interface SettingsInput {
  readonly config: Config;
  readonly node: NodeView | undefined;
  readonly family: Family;
  readonly sysctls: Sysctls;
}

export async function iptablesSettings({ config, node, family, sysctls }: SettingsInput): Promise<IptablesSettings> {
  const nodeAddresses = ownAddresses(config, node, family);
  const cidrs = ofFamily(config.nodePortAddresses, family);
  const localhostNodePorts = family === 'IPv4' && config.localhostNodePorts && admitsLoopback(cidrs);
  return {
    family,
    masqueradeBit: config.masqueradeBit,
    masqueradeAll: config.masqueradeAll,
    localDetector: localDetector(config, node, family),
    nodePortAddresses: nodePortAddresses(config.nodePortAddresses, { family, own: nodeAddresses, localhostNodePorts }),
    localhostNodePorts,
    dropInvalid: (await sysctls.read(BE_LIBERAL)) !== '1',
    nodeAddresses,
  };
}

/** The Node's addresses of a family; --bind-address replaces the one of its family; without a Node, the interfaces' (reference 1.7). */
function ownAddresses(config: Config, node: NodeView | undefined, family: Family): Address[] {
  const { bindAddress } = config;
  if (bindAddress !== undefined && familyOf(bindAddress) === family) return [bindAddress];
  const known = routable(node?.addresses ?? [], family);
  return known.length > 0 ? known : routable(interfaceAddresses(), family);
}

function localDetector({ detectLocal }: Config, node: NodeView | undefined, family: Family): LocalDetector {
  if (detectLocal.kind === 'interface') return detectLocal;
  const cidrs = detectLocal.kind === 'cluster-cidr' ? detectLocal.cidrs : (node?.podCIDRs ?? []);
  const cidr = cidrs.find((candidate) => familyOf(candidate) === family);
  return cidr === undefined ? { kind: 'none' } : { kind: 'cidr', cidr };
}

type Cidrs = NodePortAddresses['cidrs'];

function ofFamily({ cidrs }: NodePortAddresses, family: Family): Cidrs {
  return cidrs.filter((cidr) => familyOf(cidr) === family);
}

function isAll(cidrs: Cidrs): boolean {
  return cidrs.some((cidr) => cidr.endsWith('/0'));
}

interface Reachable {
  readonly family: Family;
  readonly own: readonly Address[];
  readonly localhostNodePorts: boolean;
}

/** All addresses, or those that are on this node now and inside the CIDRs (reference 1.3). */
function nodePortAddresses(
  wanted: NodePortAddresses,
  { family, own, localhostNodePorts }: Reachable,
): 'all' | Address[] {
  const cidrs = ofFamily(wanted, family);
  const primary = wanted.primary ? own.slice(0, 1) : [];
  if (isAll(cidrs) || (cidrs.length === 0 && primary.length === 0)) return 'all';
  const inside = interfaceAddresses().filter(
    (address) => (localhostNodePorts || !isLoopback(address)) && cidrs.some((cidr) => cidrContains(cidr, address)),
  );
  return [...new Set([...primary, ...inside])];
}

/** Which addresses of this node, as bytes, take node ports now. */
export function nodePortFilter({ family, nodePortAddresses, localhostNodePorts }: IptablesSettings): IsNodeAddress {
  const wanted = nodePortAddresses === 'all' ? routable(interfaceAddresses(), family) : nodePortAddresses;
  const bytes = new Set(wanted.map(addressBytes));
  const isLoopback = (address: string) => localhostNodePorts && family === 'IPv4' && address.charCodeAt(0) === 127;
  return (address) => bytes.has(address) || isLoopback(address);
}

/** Node ports on 127.0.0.0/8 are wanted unless the list leaves loopback out. */
function admitsLoopback(cidrs: Cidrs): boolean {
  if (cidrs.length === 0 || isAll(cidrs)) return true;
  return cidrs.some((cidr) => cidr.startsWith('127.') || cidrContains(cidr, '127.0.0.0' as Address));
}
