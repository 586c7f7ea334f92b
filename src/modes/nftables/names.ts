/** Names of the table's sets and chains. */
import type { NftSet } from '../../host/nftables-kernel.ts';

/** What is known of a frontend's address, and where it leads. */
export const SETS = {
  /** Addresses and ports of Services → the chain that balances them. */
  services: { name: 'services', key: ['address', 'protocol', 'port'], data: 'verdict' },
  /** The same of node ports, whose key has no address. */
  nodePorts: { name: 'node-ports', key: ['protocol', 'port'], data: 'verdict' },
  /** External addresses → the cluster IP under which the Service's endpoints stand. */
  external: { name: 'external', key: ['address', 'protocol', 'port'], data: ['address', 'protocol', 'port'] },
  externalNodePorts: { name: 'external-node-ports', key: ['protocol', 'port'], data: ['address', 'protocol', 'port'] },
  /** Endpoints by cluster IP and number: dense from 0, those of policy Local from LOCAL on. */
  endpoints: { name: 'endpoints', key: ['address', 'protocol', 'port', 'number'], data: ['address', 'port'] },
  /** Frontends with nothing behind them. */
  refusals: { name: 'refusals', key: ['address', 'protocol', 'port'], data: 'verdict' },
  nodePortRefusals: { name: 'node-port-refusals', key: ['protocol', 'port'], data: 'verdict' },
  /** Load balancer addresses that not everybody may use, and who may. */
  guarded: { name: 'guarded', key: ['address', 'protocol', 'port'] },
  sourceRanges: { name: 'source-ranges', key: ['address', 'protocol', 'port', 'address'], hasRanges: true },
  /** Endpoints that may reach themselves: source and destination. */
  hairpin: { name: 'hairpin', key: ['address', 'address'] },
  nodePortAddresses: { name: 'node-port-addresses', key: ['address'] },
  /** Of Services with affinity: which endpoints a client may be remembered for. */
  sticky: { name: 'sticky-endpoints', key: ['address', 'protocol', 'port', 'address', 'port'] },
  stickyLocal: { name: 'sticky-local-endpoints', key: ['address', 'protocol', 'port', 'address', 'port'] },
} as const satisfies Record<string, NftSet>;
export type SetName = keyof typeof SETS;

const MEMORY = 'affinity-';

/** Who was sent where, for so many seconds. */
export function memorySet(seconds: number): NftSet {
  const key = ['address', 'address', 'protocol', 'port'] as const;
  return { name: `${MEMORY}${seconds}`, key, data: ['address', 'port'], isMemory: true };
}

export function isMemory(set: string): boolean {
  return set.startsWith(MEMORY);
}

/** The first number of endpoints of policy Local. */
export const LOCAL = 0x8000_0000;

export const DISPATCH = 'services';
export const REFUSE = 'refuse';
export const REFUSALS = 'no-endpoints';
export const GUARD = 'source-ranges';

/** How a packet came to a Service: by its cluster IP, by another address, by a node port. */
export type Entry = 'cluster-ip' | 'external' | 'node-port';

export interface BalancerSpec {
  readonly entry: Entry;
  /** Which endpoints: all, or those of policy Local. */
  readonly isLocal: boolean;
  /** The packet's source becomes the node's. Of a cluster IP it is as the settings say. */
  readonly masquerades: boolean;
  readonly endpoints: number;
  /** 0 for no affinity. */
  readonly affinitySeconds: number;
}

/** `external-5`, `external-pods-5`, `node-port-here-3`, `cluster-ip-5-sticky-10800`. */
export function balancerName({ entry, isLocal, masquerades, endpoints, affinitySeconds }: BalancerSpec): string {
  const who = entry === 'cluster-ip' ? (isLocal ? '-local' : '') : masquerades ? '' : isLocal ? '-here' : '-pods';
  const sticky = affinitySeconds > 0 ? `-sticky-${affinitySeconds}` : '';
  return `${entry}${who}-${endpoints}${sticky}`;
}

/** Of an external entry under policy Local: how many endpoints there are, and how many here. */
export interface LocalPolicySpec {
  readonly entry: Exclude<Entry, 'cluster-ip'>;
  readonly all: number;
  readonly here: number;
  readonly affinitySeconds: number;
}

export function localPolicyName({ entry, all, here, affinitySeconds }: LocalPolicySpec): string {
  const sticky = affinitySeconds > 0 ? `-sticky-${affinitySeconds}` : '';
  return `${entry}-local-${all}-${here}${sticky}`;
}
