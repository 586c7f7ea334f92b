/** The sets of IPVS mode, by kube-proxy's names wherever it has one, so that people and tools find them. */
import type { SetSpec, SetType } from '../../host/ipvs-kernel.ts';
import type { Family } from '../../model/address.ts';

/** Sets and their types; the last four are ours. */
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
  /** Every virtual server of ours: they carry no label, and this is it. */
  'KUBE-IPVS-SERVERS': 'hash:ip,port',
  /** Of policy Local, without an endpoint here: what comes from elsewhere is dropped. */
  'KUBE-IPVS-DROP': 'hash:ip,port',
  /** What the node itself may not reach. */
  'KUBE-IPVS-OUT-DROP': 'hash:ip,port',
  /** Of policy Local: pods and the node go by the cluster IP. */
  'KUBE-IPVS-DETOUR': 'hash:ip,port',
} as const satisfies Readonly<Record<string, SetType>>;
export type SetId = keyof typeof TYPES;
export const SET_IDS = Object.keys(TYPES) as SetId[];

/** Entries of a hash at most. kube-proxy's 65,536 are fewer than the ports of a large cluster; an empty set costs the same. */
const MOST_ENTRIES = 1 << 20;
/** Longest name of a set, without its NUL (linux/netfilter/ipset/ip_set.h). */
const NAME_MAX = 31;

/** kube-proxy's name of a set in a family: of IPv6 cut to what the kernel takes. */
export function setName(family: Family, id: SetId): string {
  return family === 'IPv4' ? id : id.replace(/^KUBE-/, 'KUBE-6-').slice(0, NAME_MAX);
}

export function setSpec(family: Family, id: SetId): SetSpec {
  return { name: setName(family, id), type: TYPES[id], family, most: MOST_ENTRIES };
}

/** Throws RangeError for a set that is not ours. */
export function setId(family: Family, name: string): SetId {
  const id = SET_IDS.find((each) => setName(family, each) === name);
  if (id === undefined) throw new RangeError(`${name} is no set of ours`);
  return id;
}
