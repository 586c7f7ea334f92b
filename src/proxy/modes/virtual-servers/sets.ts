/** The sets of IPVS mode, with kube-proxy's names if it has one, so that people and tools find them. */

import type { Family } from '../../../base/address.ts';
import type { IpsetSpec, SetType } from '../../../kernel/ipvs-kernel.ts';

/** Sets and their types; only slicewire has the last four. */
const TYPES = {
  'KUBE-LOOP-BACK': 'hash:ip,port,ip',
  'KUBE-CLUSTER-IP': 'hash:ip,port',
  'KUBE-EXTERNAL-IP': 'hash:ip,port',
  'KUBE-EXTERNAL-IP-LOCAL': 'hash:ip,port',
  'KUBE-LOAD-BALANCER': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-LOCAL': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-FW': 'hash:ip,port',
  'KUBE-LOAD-BALANCER-SOURCE-CIDR': 'hash:ip,port,net',
  'KUBE-LOAD-BALANCER-SOURCE-IP': 'hash:ip,port,ip',
  'KUBE-NODE-PORT-TCP': 'bitmap:port',
  'KUBE-NODE-PORT-UDP': 'bitmap:port',
  'KUBE-NODE-PORT-SCTP-HASH': 'hash:ip,port',
  'KUBE-NODE-PORT-LOCAL-TCP': 'bitmap:port',
  'KUBE-NODE-PORT-LOCAL-UDP': 'bitmap:port',
  'KUBE-NODE-PORT-LOCAL-SCTP-HASH': 'hash:ip,port',
  'KUBE-HEALTH-CHECK-NODE-PORT': 'bitmap:port',
  'KUBE-IPVS-IPS': 'hash:ip',
  /** The label of our virtual servers: this set lists them, because the kernel keeps no owner. */
  'KUBE-IPVS-SERVERS': 'hash:ip,port',
  /** Frontends of policy Local without an endpoint on this node: outside traffic is dropped. */
  'KUBE-IPVS-DROP': 'hash:ip,port',
  /** Frontends that the node itself may not reach. */
  'KUBE-IPVS-OUT-DROP': 'hash:ip,port',
  /** Frontends of policy Local: for pods and the node rules choose among all endpoints. */
  'KUBE-IPVS-DETOUR': 'hash:ip,port',
} as const satisfies Readonly<Record<string, SetType>>;
export type SetId = keyof typeof TYPES;
export const SET_IDS = Object.keys(TYPES) as SetId[];

/**
 * The order in which entries are added: what sends a packet on, or lets it pass, is there before what leads it there or stops it. They are
 * removed in the reverse order.
 */
export const ENTRY_ORDER: readonly SetId[] = [
  'KUBE-LOOP-BACK',
  'KUBE-HEALTH-CHECK-NODE-PORT',
  'KUBE-LOAD-BALANCER-SOURCE-CIDR',
  'KUBE-LOAD-BALANCER-SOURCE-IP',
  'KUBE-EXTERNAL-IP-LOCAL',
  'KUBE-LOAD-BALANCER-LOCAL',
  'KUBE-NODE-PORT-LOCAL-TCP',
  'KUBE-NODE-PORT-LOCAL-UDP',
  'KUBE-NODE-PORT-LOCAL-SCTP-HASH',
  'KUBE-CLUSTER-IP',
  'KUBE-EXTERNAL-IP',
  'KUBE-LOAD-BALANCER',
  'KUBE-NODE-PORT-TCP',
  'KUBE-NODE-PORT-UDP',
  'KUBE-NODE-PORT-SCTP-HASH',
  'KUBE-IPVS-SERVERS',
  'KUBE-IPVS-IPS',
  'KUBE-IPVS-OUT-DROP',
  'KUBE-LOAD-BALANCER-FW',
  'KUBE-IPVS-DETOUR',
  'KUBE-IPVS-DROP',
];

/** Sets whose entries except a frontend from being masqueraded, each with the set by which it would be. */
export const LOCAL_SETS: ReadonlyMap<SetId, SetId> = new Map([
  ['KUBE-LOAD-BALANCER-LOCAL', 'KUBE-LOAD-BALANCER'],
  ['KUBE-NODE-PORT-LOCAL-TCP', 'KUBE-NODE-PORT-TCP'],
  ['KUBE-NODE-PORT-LOCAL-UDP', 'KUBE-NODE-PORT-UDP'],
  ['KUBE-NODE-PORT-LOCAL-SCTP-HASH', 'KUBE-NODE-PORT-SCTP-HASH'],
]);

/** The sets that kube-proxy does not know, so that their size is ours to choose. */
const OWN: ReadonlySet<SetId> = new Set([
  'KUBE-IPVS-SERVERS',
  'KUBE-IPVS-DROP',
  'KUBE-IPVS-OUT-DROP',
  'KUBE-IPVS-DETOUR',
]);

/**
 * The maxelem with which kube-proxy creates its sets (pkg/proxy/ipvs/ipset/ipset.go, setIPSetDefaults). It runs `ipset create -exist`
 * before each sync. The kernel accepts an existing set only with the same maxelem (ip_set_hash_gen.h, mtype_same_set), and kube-proxy
 * ends the sync where it does not.
 */
export const KUBE_PROXY_MAXELEM = 1 << 16;
/** The largest maxelem of ours. kube-proxy's is too small for the ports of a very large cluster; an empty set costs the same. */
export const MAX_MAXELEM = 1 << 20;
/**
 * A set that this agent enlarged shrinks again when so many entries are left. This is below the limit, so that a number of entries that
 * moves around the limit does not copy the set at each sync.
 */
const SHRINK_BELOW = (KUBE_PROXY_MAXELEM / 8) * 7;
/** Length of the longest set name, without its NUL (linux/netfilter/ipset/ip_set.h). */
const NAME_MAX = 31;

/** kube-proxy's name of a set in a family. IPv6 names are cut to the kernel's limit. */
export function setName(family: Family, id: SetId): string {
  return family === 'IPv4' ? id : id.replace(/^KUBE-/, 'KUBE-6-').slice(0, NAME_MAX);
}

const BY_NAME: Readonly<Record<Family, ReadonlyMap<string, SetId>>> = {
  IPv4: new Map(SET_IDS.map((id) => [setName('IPv4', id), id])),
  IPv6: new Map(SET_IDS.map((id) => [setName('IPv6', id), id])),
};

/** Returns undefined for a name that no set of IPVS mode has. */
export function setNamed(family: Family, name: string): SetId | undefined {
  return BY_NAME[family].get(name);
}

/** Throws RangeError for a set that is not ours. */
export function setId(family: Family, name: string): SetId {
  const id = setNamed(family, name);
  if (id === undefined) throw new RangeError(`${name} is no set of ours`);
  return id;
}

export function setSpec(family: Family, id: SetId): IpsetSpec {
  return {
    name: setName(family, id),
    type: TYPES[id],
    family,
    maxelem: OWN.has(id) ? MAX_MAXELEM : KUBE_PROXY_MAXELEM,
  };
}

/** The set that gets the entries of another one while that is resized. At other times it exists only if an agent ended meanwhile. */
export function spareName(family: Family): string {
  return family === 'IPv4' ? 'KUBE-IPVS-RESIZE' : 'KUBE-6-IPVS-RESIZE';
}

/** The need of a set for room, as far as it is known. */
export interface Demand {
  /** Entries that must fit into it. */
  readonly entries: number;
  /** Its maxelem in the kernel; undefined for a set that does not exist, or a bitmap. */
  readonly now: number | undefined;
  /** Whether this agent made it larger than kube-proxy's. */
  readonly isEnlarged: boolean;
}

/**
 * The maxelem that a set should have: kube-proxy's as long as its entries fit, so that kube-proxy can take it over. Beyond that it is the
 * next power of two that leaves a third of room, and it never grows by less.
 */
export function maxelemOf(id: SetId, { entries, now, isEnlarged }: Demand): number {
  if (OWN.has(id)) return Math.max(now ?? 0, MAX_MAXELEM);
  const isSmall = entries <= (isEnlarged ? SHRINK_BELOW : KUBE_PROXY_MAXELEM);
  if (isSmall) return KUBE_PROXY_MAXELEM;
  if (now !== undefined && now >= Math.min(entries, MAX_MAXELEM)) return now;
  return Math.min(MAX_MAXELEM, 2 ** Math.ceil(Math.log2(entries * (4 / 3))));
}

/** Whether kube-proxy has a set of this name too. */
export function isShared(id: SetId): boolean {
  return !OWN.has(id);
}

export function isBitmap(id: SetId): boolean {
  return TYPES[id] === 'bitmap:port';
}

/** Whether a proxy in IPVS mode makes a set of this name in one of these families. */
export function isProxySet(name: string, families: readonly Family[]): boolean {
  return families.some((family) => name === spareName(family) || setNamed(family, name) !== undefined);
}
