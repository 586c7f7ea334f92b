/** Names of chains in iptables mode: kube-proxy's wherever it has one, so that people and tools find them (reference 5.2, 5.3). */

import type { Protocol } from '../../model/objects.ts';
import type { TreeNames } from '../netfilter/dispatch-tree.ts';
import { shortHash } from '../netfilter/hash.ts';
import type { Table } from '../netfilter/rules.ts';

export const SERVICES = 'KUBE-SERVICES';
export const EXTERNAL_SERVICES = 'KUBE-EXTERNAL-SERVICES';
export const NODE_PORTS = 'KUBE-NODEPORTS';
export const POSTROUTING = 'KUBE-POSTROUTING';
export const MARK_MASQ = 'KUBE-MARK-MASQ';
export const FORWARD = 'KUBE-FORWARD';
export const PROXY_FIREWALL = 'KUBE-PROXY-FIREWALL';
/** Shared with the kubelet: written when it is needed, never removed. */
export const FIREWALL = 'KUBE-FIREWALL';
export const CANARY = 'KUBE-PROXY-CANARY';
/** Ours: hairpin by source address, and refused node ports. */
export const HAIRPIN = 'KUBE-HAIRPIN';
export const NODE_PORT_REJECTS = 'KUBE-NODEPORT-REJECT';

/** The trees, by what they dispatch. The last letter of the prefix tells them apart in one table. */
export const TREES = {
  services: { table: 'nat', root: SERVICES, prefix: 'KUBE-DSS' },
  nodePorts: { table: 'nat', root: NODE_PORTS, prefix: 'KUBE-DSN' },
  hairpin: { table: 'nat', root: HAIRPIN, prefix: 'KUBE-DSM' },
  rejects: { table: 'filter', root: SERVICES, prefix: 'KUBE-DSR' },
  externalRejects: { table: 'filter', root: EXTERNAL_SERVICES, prefix: 'KUBE-DSX' },
  nodePortRejects: { table: 'filter', root: NODE_PORT_REJECTS, prefix: 'KUBE-DSP' },
  healthPorts: { table: 'filter', root: NODE_PORTS, prefix: 'KUBE-DSH' },
  firewall: { table: 'filter', root: PROXY_FIREWALL, prefix: 'KUBE-DSF' },
} as const satisfies Readonly<Record<string, TreeNames & { table: Table }>>;
export type TreeName = keyof typeof TREES;

/** `table chain`: the key of a chain within a family. */
export type ChainKey = `${Table} ${string}`;

export function chainKey(table: Table, chain: string): ChainKey {
  return `${table} ${chain}`;
}

export function splitChainKey(key: ChainKey): { table: Table; chain: string } {
  const space = key.indexOf(' ');
  return { table: key.slice(0, space) as Table, chain: key.slice(space + 1) };
}

export type ServiceChainKind = 'SVC' | 'SVL' | 'EXT' | 'FW';

/** `KUBE-SVC-…` and its kin for a Service port. */
export function serviceChain(kind: ServiceChainKind, id: string, protocol: Protocol): string {
  return `KUBE-${kind}-${shortHash(id + protocol.toLowerCase())}`;
}

/** `KUBE-SEP-…` for one endpoint of a Service port. */
export function endpointChain(id: string, protocol: Protocol, endpoint: string): string {
  return `KUBE-SEP-${shortHash(id + protocol.toLowerCase() + endpoint)}`;
}

const STATIC: Readonly<Record<Table, readonly string[]>> = {
  nat: [SERVICES, NODE_PORTS, POSTROUTING, MARK_MASQ, HAIRPIN, CANARY],
  filter: [SERVICES, EXTERNAL_SERVICES, NODE_PORTS, FORWARD, PROXY_FIREWALL, NODE_PORT_REJECTS, CANARY],
  mangle: [CANARY],
};

/** Chains of Services (kube-proxy's, also KUBE-XLB- of its releases before 1.24) and of our trees. */
const OURS = /^KUBE-(SVC|SVL|EXT|FW|SEP|XLB)-|^KUBE-DS[A-Z]-/;

/** Whether a chain belongs to a service proxy: ours, or left by kube-proxy (invariant 7). */
export function isOurs(table: Table, chain: string): boolean {
  return STATIC[table].includes(chain) || (table !== 'mangle' && OURS.test(chain));
}
