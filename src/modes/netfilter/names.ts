/**
 * Names of the chains of all modes, and which chains are those of a service proxy: ours of any mode, or kube-proxy's
 * (docs/iptables.md, docs/ipvs.md). They stand together because a mode removes what another left.
 */
import type { Table } from './rules.ts';

export const SERVICES = 'KUBE-SERVICES';
export const POSTROUTING = 'KUBE-POSTROUTING';
export const MARK_MASQ = 'KUBE-MARK-MASQ';
export const FORWARD = 'KUBE-FORWARD';
export const PROXY_FIREWALL = 'KUBE-PROXY-FIREWALL';
/** Shared with the kubelet: written when it is needed, never removed. */
export const FIREWALL = 'KUBE-FIREWALL';
export const CANARY = 'KUBE-PROXY-CANARY';

/** Of iptables mode. */
export const EXTERNAL_SERVICES = 'KUBE-EXTERNAL-SERVICES';
export const NODE_PORTS = 'KUBE-NODEPORTS';
/** Ours: hairpin by source address, and refused node ports. */
export const HAIRPIN = 'KUBE-HAIRPIN';
export const NODE_PORT_REJECTS = 'KUBE-NODEPORT-REJECT';

/** Of IPVS mode. */
export const NODE_PORT = 'KUBE-NODE-PORT';
export const LOAD_BALANCER = 'KUBE-LOAD-BALANCER';
export const SOURCE_RANGES = 'KUBE-SOURCE-RANGES-FIREWALL';
export const IPVS_FILTER = 'KUBE-IPVS-FILTER';
/** kube-proxy's, in the filter table; ours stands in mangle, where the node's own packets are not translated yet. */
export const OUT_FILTER = 'KUBE-IPVS-OUT-FILTER';
/** Ours: pods and the node go to all endpoints of a Service of policy Local, by way of its cluster IP. */
export const LOCAL_DETOUR = 'KUBE-IPVS-LOCAL';

/** `table chain`: the key of a chain within a family. */
export type ChainKey = `${Table} ${string}`;

export function chainKey(table: Table, chain: string): ChainKey {
  return `${table} ${chain}`;
}

export function splitChainKey(key: ChainKey): { table: Table; chain: string } {
  const space = key.indexOf(' ');
  return { table: key.slice(0, space) as Table, chain: key.slice(space + 1) };
}

/** `KUBE-SVC-…` and its kin: the chains of one Service; KUBE-SEG- is ours alone, KUBE-XLB- of kube-proxy before 1.24. */
const OF_SERVICE = /^KUBE-(SVC|SVL|EXT|FW|SEP|SEG|XLB)-/;
/** Leaves and branches of our dispatch trees. */
const OF_TREE = /^KUBE-DS[A-Z]-/;

export function isServiceChain(chain: string): boolean {
  return OF_SERVICE.test(chain);
}

const STATIC: Readonly<Record<Table, readonly string[]>> = {
  nat: [
    ...[SERVICES, POSTROUTING, MARK_MASQ, CANARY],
    ...[NODE_PORTS, HAIRPIN],
    ...[NODE_PORT, LOAD_BALANCER, LOCAL_DETOUR],
  ],
  filter: [
    ...[SERVICES, FORWARD, PROXY_FIREWALL, CANARY],
    ...[EXTERNAL_SERVICES, NODE_PORTS, NODE_PORT_REJECTS],
    ...[NODE_PORT, SOURCE_RANGES, IPVS_FILTER, OUT_FILTER],
  ],
  mangle: [CANARY, OUT_FILTER],
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
