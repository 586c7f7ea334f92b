/** The sets of the table with their keys, and the names of its chains. Pure. */

import { type Address, addressWidth, type Family, type Protocol, portOf } from '../../../base/address.ts';
import type { Latin1Bytes, NftElement, NftSet } from '../../../kernel/nftables-kernel.ts';
import type { HashedBy } from '../../model/objects.ts';
import type { UdpFrontend } from '../../model/udp-flows.ts';
import { shortHash } from '../netfilter/key-space.ts';
import { protocolOf } from '../nft-table/element-bytes.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { addressOf } from '../nft-table/print.ts';

/** The sets and maps of the table. */
export const SETS = {
  /** Addresses and ports of Services → their balancing chain. */
  services: { name: 'services', key: ['address', 'protocol', 'port'], data: 'verdict' },
  /** The same for node ports, whose key has no address. */
  nodePorts: { name: 'node-ports', key: ['protocol', 'port'], data: 'verdict' },
  /** Endpoints by frontend and number. Numbers have no gaps: from 0, and from LOCAL for policy Local. */
  endpoints: { name: 'backends', key: ['address', 'protocol', 'port', 'number'], data: ['address', 'port'] },
  nodePortEndpoints: {
    name: 'node-port-backends',
    key: ['protocol', 'port', 'number'],
    data: ['address', 'port'],
  },
  /** Frontends that count their connections, if configured. In sets of their own, because `nft` loads no counters of maps. */
  serviceConnections: { name: 'service-connections', key: ['address', 'protocol', 'port'], isCounting: true },
  nodePortConnections: { name: 'node-port-connections', key: ['protocol', 'port'], isCounting: true },
  /** Frontends without endpoints, and those with limits: what was not translated is refused there. */
  refusals: { name: 'refusals', key: ['address', 'protocol', 'port'], data: 'verdict' },
  nodePortRefusals: { name: 'node-port-refusals', key: ['protocol', 'port'], data: 'verdict' },
  /** Load balancer addresses with source ranges, and the permitted sources. */
  guarded: { name: 'guarded', key: ['address', 'protocol', 'port'] },
  sourceRanges: { name: 'source-ranges', key: ['address', 'protocol', 'port', 'address'], hasRanges: true },
  /** Endpoints that may reach themselves, as source and destination. */
  hairpin: { name: 'hairpin', key: ['address', 'address'] },
  /** Cluster IPs, for any port. */
  clusterIPs: { name: 'cluster-ips', key: ['address'] },
  /** Ranges of cluster IPs (ServiceCIDR), for all protocols: the kernel takes such ranges only in concatenations. */
  serviceCidrs: { name: 'service-cidrs', key: ['protocol', 'address'], hasRanges: true },
  nodePortAddresses: { name: 'node-port-addresses', key: ['address'] },
} as const satisfies Record<string, NftSet>;
export type SetName = keyof typeof SETS;

/** The sets that always exist, even if empty; counters only if connections are counted. */
export function permanentSets(countsConnections: boolean): readonly NftSet[] {
  return Object.values<NftSet>(SETS).filter(({ isCounting }) => countsConnections || isCounting !== true);
}

/**
 * Sets of the first form of the table. Their numbers had a type that `nft` lists but does not load. The type of a set cannot
 * change, and a set cannot get new content in one step with all rules that use it. So the present sets have other names,
 * and so have the chains that use them. Services move one by one, each in its transaction; then the unused objects are removed.
 */
const FORMER: ReadonlyMap<string, NftSet> = new Map(
  ['endpoints', 'node-port-endpoints'].map((name) => [name, { name, key: [] }]),
);

const MEMORY = 'affinity-';

/** The set of the clients of an endpoint; `id` names a Service's endpoint. */
export function memorySet(id: string): NftSet {
  return { name: `${MEMORY}${id}`, key: ['address'], isMemory: true };
}

const TALLY = 'clients-';

/**
 * The set of the clients of a ServicePort, each with its open connections. An element keeps the limit that it was made with (nft_dynset.c),
 * so another limit has another set.
 */
export function tallySet(id: string, most: number): NftSet {
  return tallyNamed(`${TALLY}${id}-${most}`);
}

function tallyNamed(name: string): NftSet {
  return { name, key: ['address'], isMemory: true, isTally: true };
}

const BY_NAME = new Map<string, NftSet>(Object.values(SETS).map((set) => [set.name, set]));

/** The set of a name: a permanent one, a memory or a tally. */
export function setNamed(name: string): NftSet {
  if (name.startsWith(TALLY)) return tallyNamed(name);
  return BY_NAME.get(name) ?? FORMER.get(name) ?? memorySet(name.slice(MEMORY.length));
}

export function isKnownSet(name: string): boolean {
  return BY_NAME.has(name) || FORMER.has(name) || name.startsWith(MEMORY) || name.startsWith(TALLY);
}

/** How the sets of the table belong together, for the code that writes it. */
export const LAYOUT: TableLayout = {
  sets: Object.values<NftSet>(SETS),
  setNamed: (name) => (isKnownSet(name) ? setNamed(name) : undefined),
  // Packets of an endpoint to itself are masqueraded some time after they were translated.
  lasting: [SETS.hairpin],
  neededFirst: [SETS.hairpin, SETS.nodePortAddresses],
  afterFrontend: new Map<NftSet, (family: Family) => number>([
    [SETS.services, () => 0],
    [SETS.serviceConnections, () => 0],
    [SETS.nodePortConnections, () => 0],
    [SETS.refusals, () => 0],
    [SETS.guarded, () => 0],
    [SETS.endpoints, () => 4],
    [SETS.sourceRanges, (family) => addressWidth(family) / 8],
    [SETS.nodePorts, () => 0],
    [SETS.nodePortRefusals, () => 0],
    [SETS.nodePortEndpoints, () => 4],
  ]),
};

/** The UDP frontends that the table translates. */
export function udpFrontendsIn(
  family: Family,
  elementsOf: (set: NftSet) => Iterable<Pick<NftElement, 'key'>>,
): UdpFrontend[] {
  const found: UdpFrontend[] = [];
  for (const set of [SETS.services, SETS.nodePorts]) {
    for (const { key } of elementsOf(set)) {
      if (protocolOf(key.charCodeAt(addressLength(set, family))) !== 'UDP') continue;
      const { address, port } = frontendOf(set, key, family);
      found.push({ family, address, port });
    }
  }
  return found;
}

/** Length in bytes of the address at the start of a key, or 0. */
function addressLength(set: NftSet, family: Family): number {
  return set.key[0] === 'address' ? addressWidth(family) / 8 : 0;
}

/** The frontend of a key in `services`, `node-ports`, or a set with the same keys. */
export function frontendOf(
  set: NftSet,
  key: Latin1Bytes,
  family: Family,
): { readonly address: Address | undefined; readonly protocol: Protocol | undefined; readonly port: number } {
  const width = addressLength(set, family);
  return {
    address: width === 0 ? undefined : addressOf(key.slice(0, width)),
    protocol: protocolOf(key.charCodeAt(width)),
    port: portOf(key.slice(width + 4, width + 6)),
  };
}

/** The id in the names of chains and sets that one ServicePort has: kube-proxy's hash of Service, protocol and endpoint. */
export function ownId(...of: readonly string[]): string {
  return shortHash(of.join('')).toLowerCase();
}

/** The number of the first endpoint of policy Local. */
export const LOCAL = 0x8000_0000;

export const DISPATCH = 'services';
export const REFUSE = 'refuse';
/** Refuses connections beyond a limit; it exists where a Service has one. */
export const REFUSE_OVER_LIMIT = 'refuse-over-limit';
export const REFUSALS = 'no-endpoints';
export const GUARD = 'source-ranges';
export const CLUSTER_IPS = 'cluster-ips';

/** The way by which a packet reached a Service: cluster IP, another address, or node port. */
export type EntryPoint = 'cluster-ip' | 'external' | 'node-port';

export interface BalancerSpec {
  readonly entry: EntryPoint;
  /** The endpoints of policy Local only, instead of all. */
  readonly isLocal: boolean;
  /** Masquerade every packet. For cluster IPs the settings decide. */
  readonly masquerades: boolean;
  readonly endpoints: number;
  /** By what of the client its number is chosen; absent: by chance. */
  readonly hashes?: HashedBy | undefined;
}

/** `external-of-5`, `external-pods-of-5`, `node-port-here-of-3`, `cluster-ip-of-5`, `cluster-ip-local-of-2`. */
export function balancerName({ entry, isLocal, masquerades, endpoints, hashes }: BalancerSpec): string {
  return `${entry}${backendsWord(entry, isLocal, masquerades)}${hashWord(hashes)}-of-${endpoints}`;
}

function hashWord(hashes: HashedBy | undefined): string {
  if (hashes === undefined) return '';
  return hashes === 'address' ? '-by-address' : '-by-address-and-port';
}

function backendsWord(entry: EntryPoint, isLocal: boolean, masquerades: boolean): string {
  if (entry === 'cluster-ip') return isLocal ? '-local' : '';
  if (masquerades) return '';
  return isLocal ? '-here' : '-pods';
}

/** That id of a ServicePort as a whole. */
export function portId({ id, protocol }: { readonly id: string; readonly protocol: Protocol }): string {
  return ownId(id, protocol.toLowerCase());
}

/** The chain that refuses the connections of a ServicePort beyond its limits, and the one before a chain that leads there first. */
export function limitChain(id: string): string {
  return `limit-${id}`;
}

export function limitedName(id: string, chain: string): string {
  return `limit-${id}-to-${chain}`;
}

/** An external entry under policy Local: the number of all endpoints, and of those on this node. */
export interface LocalPolicySpec {
  readonly entry: Exclude<EntryPoint, 'cluster-ip'>;
  readonly all: number;
  readonly here: number;
  readonly hashes?: HashedBy | undefined;
}

export function localPolicyName({ entry, all, here, hashes }: LocalPolicySpec): string {
  return `${entry}-local${hashWord(hashes)}-of-${all}-${here}`;
}
