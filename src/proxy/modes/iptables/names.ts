/** Names of chains in iptables mode: kube-proxy's if it has one, so that people and tools find them (docs/iptables.md). */

import type { TreeNames } from '../netfilter/dispatch-tree.ts';
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
