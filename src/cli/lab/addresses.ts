/** The addresses of the lab, used inside its namespaces only. */

/** An IPv4 address or prefix, and the IPv6 one beside it. */
export interface Addresses {
  readonly v4: string;
  readonly v6: string;
}

export const LAB = {
  podCidr: { v4: '10.244.1.0/24', v6: 'fd00:244:1::/64' },
  clusterCidr: { v4: '10.244.0.0/16', v6: 'fd00:244::/32' },
  node: { v4: '192.168.77.2', v6: 'fd00:77::2' },
  otherNode: { v4: '192.168.77.3', v6: 'fd00:77::3' },
  client: { v4: '192.168.77.100', v6: 'fd00:77::100' },
  bridge: { v4: '10.244.1.1', v6: 'fd00:244:1::1' },
} as const;

/** Address of the n-th pod of this node (from 1). */
export function podAddress(n: number): Addresses {
  return { v4: `10.244.1.${10 + n}`, v6: `fd00:244:1::${10 + n}` };
}

/** Address of the n-th pod of the other node. */
export function remotePodAddress(n: number): Addresses {
  return { v4: `10.244.2.${10 + n}`, v6: `fd00:244:2::${10 + n}` };
}

export const REMOTE_PODS: Addresses = { v4: '10.244.2.0/24', v6: 'fd00:244:2::/64' };
