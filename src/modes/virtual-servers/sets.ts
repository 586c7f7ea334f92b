/** The sets of IPVS mode, with kube-proxy's names if it has one, so that people and tools find them. */
import type { SetSpec, SetType } from '../../host/ipvs-kernel.ts';
import type { Family } from '../../model/address.ts';

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

/** Most entries of a hash. kube-proxy's 65,536 are too few for the ports of a large cluster; an empty set costs the same. */
export const MOST_ENTRIES = 1 << 20;
/** Length of the longest set name, without its NUL (linux/netfilter/ipset/ip_set.h). */
const NAME_MAX = 31;

/** kube-proxy's name of a set in a family. IPv6 names are cut to the kernel's limit. */
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
