/**
 * Names of the chains of all modes, and a test whether a chain belongs to a service proxy: ours in any mode, or kube-proxy's
 * (docs/iptables.md, docs/ipvs.md). They are in one file because a mode removes the chains of its predecessor.
 */
import type { Table } from './rules.ts';

export const SERVICES = 'KUBE-SERVICES';
export const POSTROUTING = 'KUBE-POSTROUTING';
export const MARK_MASQ = 'KUBE-MARK-MASQ';
export const FORWARD = 'KUBE-FORWARD';
export const PROXY_FIREWALL = 'KUBE-PROXY-FIREWALL';
/** Shared with the kubelet: written when needed, never removed. */
export const FIREWALL = 'KUBE-FIREWALL';
export const CANARY = 'KUBE-PROXY-CANARY';

/** iptables mode. */
export const EXTERNAL_SERVICES = 'KUBE-EXTERNAL-SERVICES';
export const NODE_PORTS = 'KUBE-NODEPORTS';
/** Only in slicewire: hairpin by source address, and refused node ports. */
export const HAIRPIN = 'KUBE-HAIRPIN';
export const NODE_PORT_REJECTS = 'KUBE-NODEPORT-REJECT';

/** IPVS mode. */
export const NODE_PORT = 'KUBE-NODE-PORT';
export const LOAD_BALANCER = 'KUBE-LOAD-BALANCER';
export const SOURCE_RANGES = 'KUBE-SOURCE-RANGES-FIREWALL';
export const IPVS_FILTER = 'KUBE-IPVS-FILTER';
/** kube-proxy has it in the filter table. Ours is in mangle, where the node's own packets are not translated yet. */
export const OUT_FILTER = 'KUBE-IPVS-OUT-FILTER';
/** Only in slicewire: pods and the node reach all endpoints of a Service with policy Local by rules, not by IPVS. */
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

/** The chains of one Service. Only slicewire has KUBE-SEG- and KUBE-LIM-, only kube-proxy before 1.24 has KUBE-XLB-. */
const OF_SERVICE = /^KUBE-(SVC|SVL|EXT|FW|SEP|SEG|LIM|XLB)-/;
/** Leaves and branches of our dispatch trees. */
const OF_TREE = /^KUBE-DS[A-Z]-/;

export function isServiceChain(chain: string): boolean {
  return OF_SERVICE.test(chain);
}

/** Whether rules of such a chain in the table nat may choose a Service: the chain is the root of a tree, a branch or a leaf. */
export function isDispatchChain(chain: string): boolean {
  return chain === SERVICES || chain === NODE_PORTS || chain === LOCAL_DETOUR || OF_TREE.test(chain);
}

/** Whether a chain leads to the endpoints of Services of policy Local in IPVS mode: no packet enters it without an entry in a set. */
export function isDetourChain(key: ChainKey): boolean {
  const { table, chain } = splitChainKey(key);
  return table === 'nat' && (chain === LOCAL_DETOUR || OF_SERVICE.test(chain) || OF_TREE.test(chain));
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
 * Whether a chain belongs to a service proxy (invariant 7). A mode removes the chains of another one in the transaction that
 * writes its own: between two transactions there would be a gap.
 */
export function isOurs(table: Table, chain: string): boolean {
  return STATIC[table].includes(chain) || (table !== 'mangle' && (OF_SERVICE.test(chain) || OF_TREE.test(chain)));
}

/** The kernel's own chains, which may hold jumps of ours. */
export const BUILT_IN: ReadonlySet<string> = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

export function isBuiltIn(key: ChainKey): boolean {
  return BUILT_IN.has(splitChainKey(key).chain);
}
