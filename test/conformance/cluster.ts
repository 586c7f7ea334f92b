/** The places of the stories: the lab's network (src/cli/lab/lab.ts) in both families. */

import { type Address, type Cidr, type Family, parseAddress, parseCidr } from '../../src/base/address.ts';
import { LAB, podAddress, remotePodAddress } from '../../src/cli/lab/lab.ts';

/** Who sends the packet: a pod of this node, a pod of another node, that one of them that may be a backend, the node itself, somebody outside. */
export type Origin = 'pod-1' | 'pod-2' | 'pod-3' | 'remote-pod' | 'other' | 'node' | 'outside';

/** Who can be behind a Service: pods of this node, and one of another. */
export type BackendName = 'pod-1' | 'pod-2' | 'other';

export interface StoryCluster {
  readonly family: Family;
  readonly clusterCidr: Cidr;
  /** Of this node's pods. */
  readonly podCidr: Cidr;
  readonly node: Address;
  readonly otherNode: Address;
  readonly loopback: Address;
  /** The node's address on the bridge of its pods. */
  readonly gateway: Address;
  /** Addresses that belong to this node. */
  readonly local: ReadonlySet<string>;
  address(who: Origin | BackendName): Address;
  /** The n-th cluster IP, external IP, load-balancer address: nobody's own. */
  clusterIP(n: number): Address;
  isClusterIP(address: string): boolean;
  externalIP(n: number): Address;
  vip(n: number): Address;
}

export function cluster(family: Family): StoryCluster {
  const is4 = family === 'IPv4';
  const pick = ({ v4, v6 }: { v4: string; v6: string }): Address => {
    const parsed = parseAddress(is4 ? v4 : v6);
    if (parsed === undefined) throw new Error('the lab has an address that is none');
    return parsed;
  };
  const range = ({ v4, v6 }: { v4: string; v6: string }): Cidr => {
    const parsed = parseCidr(is4 ? v4 : v6);
    if (parsed === undefined) throw new Error('the lab has a range that is none');
    return parsed;
  };
  const numbered = (v4: string, v6: string) => (n: number) => pick({ v4: `${v4}${n}`, v6: `${v6}${n}` });
  const places: Readonly<Record<Origin | BackendName, { v4: string; v6: string }>> = {
    'pod-1': podAddress(1),
    'pod-2': podAddress(2),
    'pod-3': podAddress(3),
    other: remotePodAddress(1),
    'remote-pod': remotePodAddress(2),
    node: LAB.node,
    outside: LAB.client,
  };
  return {
    family,
    clusterCidr: range(LAB.clusterCidr),
    podCidr: range(LAB.podCidr),
    node: pick(LAB.node),
    otherNode: pick(LAB.otherNode),
    loopback: pick({ v4: '127.0.0.1', v6: '::1' }),
    gateway: pick(LAB.bridge),
    local: new Set([pick(LAB.node), pick(LAB.bridge)]),
    address: (who) => pick(places[who]),
    clusterIP: numbered('10.96.0.', 'fd00:96::'),
    isClusterIP: (address) => address.startsWith('10.96.0.') || address.startsWith('fd00:96::'),
    externalIP: numbered('192.0.2.', 'fd00:192::'),
    vip: numbered('198.51.100.', 'fd00:198::'),
  };
}

/** The device by which a packet comes into the node; undefined when the node sends it. */
export function deviceOf(origin: Origin): string | undefined {
  if (origin === 'node') return undefined;
  return origin.startsWith('pod-') ? 'cni0' : 'eth0';
}
