/** Names of the table's sets and chains. */
import type { NftSet } from '../../host/nftables-kernel.ts';
import { shortHash } from '../netfilter/hash.ts';

/** What is known of a frontend's address, and where it leads. */
export const SETS = {
  /** Addresses and ports of Services → the chain that balances them. */
  services: { name: 'services', key: ['address', 'protocol', 'port'], data: 'verdict' },
  /** The same of node ports, whose key has no address. */
  nodePorts: { name: 'node-ports', key: ['protocol', 'port'], data: 'verdict' },
  /** Endpoints by frontend and number: dense from 0, those of policy Local from LOCAL on. */
  endpoints: { name: 'backends', key: ['address', 'protocol', 'port', 'number'], data: ['address', 'port'] },
  nodePortEndpoints: {
    name: 'node-port-backends',
    key: ['protocol', 'port', 'number'],
    data: ['address', 'port'],
  },
  /** Frontends that count their connections, where that is asked for: beside the maps, of which `nft` loads no counters. */
  serviceConnections: { name: 'service-connections', key: ['address', 'protocol', 'port'], isCounting: true },
  nodePortConnections: { name: 'node-port-connections', key: ['protocol', 'port'], isCounting: true },
  /** Frontends with nothing behind them. */
  refusals: { name: 'refusals', key: ['address', 'protocol', 'port'], data: 'verdict' },
  nodePortRefusals: { name: 'node-port-refusals', key: ['protocol', 'port'], data: 'verdict' },
  /** Load balancer addresses that not everybody may use, and who may. */
  guarded: { name: 'guarded', key: ['address', 'protocol', 'port'] },
  sourceRanges: { name: 'source-ranges', key: ['address', 'protocol', 'port', 'address'], hasRanges: true },
  /** Endpoints that may reach themselves: source and destination. */
  hairpin: { name: 'hairpin', key: ['address', 'address'] },
  /** Cluster IPs, whatever their ports. */
  clusterIPs: { name: 'cluster-ips', key: ['address'] },
  /** Where cluster IPs come from (ServiceCIDR): of all protocols, since the kernel takes such ranges only in concatenations. */
  serviceCidrs: { name: 'service-cidrs', key: ['protocol', 'address'], hasRanges: true },
  nodePortAddresses: { name: 'node-port-addresses', key: ['address'] },
} as const satisfies Record<string, NftSet>;
export type SetName = keyof typeof SETS;

/** The sets that are always there, whether they hold anything or not; counters only where connections are counted. */
export function standingSets(countsConnections: boolean): readonly NftSet[] {
  return Object.values<NftSet>(SETS).filter(({ isCounting }) => countsConnections || isCounting !== true);
}

/**
 * Sets of the table as it was written at first, whose number was of a type that `nft` lists and does not load. A set cannot be changed, nor
 * given another content at one moment with all rules that look into it. So those of today have other names, and so have the chains
 * that look into them: Services go over one by one, each in its transaction, and what nothing leads to any more goes after them.
 */
const FORMER: ReadonlyMap<string, NftSet> = new Map(
  ['endpoints', 'node-port-endpoints'].map((name) => [name, { name, key: [] }]),
);

const MEMORY = 'affinity-';

/** Clients that went to an endpoint; `id`: of the endpoint of a Service. */
export function memorySet(id: string): NftSet {
  return { name: `${MEMORY}${id}`, key: ['address'], isMemory: true };
}

const BY_NAME = new Map<string, NftSet>(Object.values(SETS).map((set) => [set.name, set]));

/** A set by its name: one of the skeleton, or a memory. */
export function setNamed(name: string): NftSet {
  return BY_NAME.get(name) ?? FORMER.get(name) ?? memorySet(name.slice(MEMORY.length));
}

export function isKnownSet(name: string): boolean {
  return BY_NAME.has(name) || FORMER.has(name) || name.startsWith(MEMORY);
}

/** What chains and memories of Services with affinity are called by: kube-proxy's hash of Service, protocol and endpoint. */
export function stickyId(...of: readonly string[]): string {
  return shortHash(of.join('')).toLowerCase();
}

/** The first number of endpoints of policy Local. */
export const LOCAL = 0x8000_0000;

export const DISPATCH = 'services';
export const REFUSE = 'refuse';
export const REFUSALS = 'no-endpoints';
export const GUARD = 'source-ranges';
export const CLUSTER_IPS = 'cluster-ips';

/** How a packet came to a Service: by its cluster IP, by another address, by a node port. */
export type EntryPoint = 'cluster-ip' | 'external' | 'node-port';

export interface BalancerSpec {
  readonly entry: EntryPoint;
  /** Which endpoints: all, or those of policy Local. */
  readonly isLocal: boolean;
  /** The packet's source becomes the node's. Of a cluster IP it is as the settings say. */
  readonly masquerades: boolean;
  readonly endpoints: number;
}

/** `external-of-5`, `external-pods-of-5`, `node-port-here-of-3`, `cluster-ip-of-5`, `cluster-ip-local-of-2`. */
export function balancerName({ entry, isLocal, masquerades, endpoints }: BalancerSpec): string {
  return `${entry}${whoOf(entry, isLocal, masquerades)}-of-${endpoints}`;
}

function whoOf(entry: EntryPoint, isLocal: boolean, masquerades: boolean): string {
  if (entry === 'cluster-ip') return isLocal ? '-local' : '';
  if (masquerades) return '';
  return isLocal ? '-here' : '-pods';
}

/** Of an external entry under policy Local: how many endpoints there are, and how many here. */
export interface LocalPolicySpec {
  readonly entry: Exclude<EntryPoint, 'cluster-ip'>;
  readonly all: number;
  readonly here: number;
}

export function localPolicyName({ entry, all, here }: LocalPolicySpec): string {
  return `${entry}-local-of-${all}-${here}`;
}
