/** Names of chains in iptables mode: kube-proxy's if it has one, so that people and tools find them (docs/iptables.md). */

import type { Protocol } from '../../model/objects.ts';
import type { TreeNames } from '../netfilter/dispatch-tree.ts';
import { shortHash } from '../netfilter/hash.ts';
import {
  EXTERNAL_SERVICES,
  HAIRPIN,
  NODE_PORT_REJECTS,
  NODE_PORTS,
  PROXY_FIREWALL,
  SERVICES,
} from '../netfilter/names.ts';
import type { Table } from '../netfilter/rules.ts';

/** The dispatch trees. The last letter of the prefix distinguishes the trees of one table. */
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

export type ServiceChainKind = 'SVC' | 'SVL' | 'EXT' | 'FW';

/** `KUBE-SVC-…`, `KUBE-EXT-…` and so on for a Service port: their names share a hash, which is computed once. */
export function serviceChains(id: string, protocol: Protocol): (kind: ServiceChainKind) => string {
  const hash = shortHash(id + protocol.toLowerCase());
  return (kind) => `KUBE-${kind}-${hash}`;
}

/** `KUBE-SEP-…` for one endpoint of a Service port. */
export function endpointChain(id: string, protocol: Protocol, endpoint: string): string {
  return `KUBE-SEP-${shortHash(id + protocol.toLowerCase() + endpoint)}`;
}

/** `KUBE-SEG-…` for a group of the endpoints of a balancing chain. */
export function groupChain(chain: string, group: number): string {
  return `KUBE-SEG-${shortHash(`${chain} ${group}`)}`;
}
