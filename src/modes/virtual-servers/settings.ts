/** What virtual servers depend on beside the Services: of one family, and of the node. */
import type { Cidr, Family } from '../../model/address.ts';

export interface ServersSettings {
  readonly family: Family;
  /** Virtual servers with an address in these are never removed. */
  readonly excludeCidrs: readonly Cidr[];
  /** Node ports on all addresses of the node's other devices, or on those in these ranges. */
  readonly nodePortCidrs: 'all' | readonly Cidr[];
}

/** What is set once for the node: seconds, 0 leaves the kernel's; and whether to answer ARP for our device's addresses. */
export interface IpvsNodeSettings {
  readonly tcpTimeout: number;
  readonly tcpFinTimeout: number;
  readonly udpTimeout: number;
  readonly strictArp: boolean;
}
