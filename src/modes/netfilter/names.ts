/** Names of chains that the modes share, and which chains are those of a service proxy: ours of any mode, or kube-proxy's (reference 5.2, 6.5). */
import type { Table } from './rules.ts';

export const SERVICES = 'KUBE-SERVICES';
export const POSTROUTING = 'KUBE-POSTROUTING';
export const MARK_MASQ = 'KUBE-MARK-MASQ';
export const FORWARD = 'KUBE-FORWARD';
export const PROXY_FIREWALL = 'KUBE-PROXY-FIREWALL';
/** Shared with the kubelet: written when it is needed, never removed. */
export const FIREWALL = 'KUBE-FIREWALL';
export const CANARY = 'KUBE-PROXY-CANARY';

/** `table chain`: the key of a chain within a family. */
export type ChainKey = `${Table} ${string}`;

export function chainKey(table: Table, chain: string): ChainKey {
  return `${table} ${chain}`;
}

export function splitChainKey(key: ChainKey): { table: Table; chain: string } {
  const space = key.indexOf(' ');
  return { table: key.slice(0, space) as Table, chain: key.slice(space + 1) };
}

/** `KUBE-SVC-…` and its kin: the chains of one Service; KUBE-XLB- is of kube-proxy before 1.24. */
const OF_SERVICE = /^KUBE-(SVC|SVL|EXT|FW|SEP|XLB)-/;
/** Leaves and branches of our dispatch trees. */
const OF_TREE = /^KUBE-DS[A-Z]-/;

export function isServiceChain(chain: string): boolean {
  return OF_SERVICE.test(chain);
}

const STATIC: Readonly<Record<Table, readonly string[]>> = {
  nat: [
    ...[SERVICES, POSTROUTING, MARK_MASQ, CANARY],
    ...['KUBE-NODEPORTS', 'KUBE-HAIRPIN'],
    ...['KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER', 'KUBE-IPVS-LOCAL'],
  ],
  filter: [
    ...[SERVICES, FORWARD, PROXY_FIREWALL, CANARY],
    ...['KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS', 'KUBE-NODEPORT-REJECT'],
    ...['KUBE-NODE-PORT', 'KUBE-SOURCE-RANGES-FIREWALL', 'KUBE-IPVS-FILTER', 'KUBE-IPVS-OUT-FILTER'],
  ],
  mangle: [CANARY, 'KUBE-IPVS-OUT-FILTER'],
};

/**
 * Whether a chain belongs to a service proxy (invariant 7). A mode removes what another left with the same transaction
 * that writes its own: between two transactions there would be a gap.
 */
export function isOurs(table: Table, chain: string): boolean {
  return STATIC[table].includes(chain) || (table !== 'mangle' && (OF_SERVICE.test(chain) || OF_TREE.test(chain)));
}

/** The kernel's own chains, where jumps of ours may stand. */
export const BUILT_IN: ReadonlySet<string> = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);
