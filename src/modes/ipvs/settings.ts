/** What one family depends on beside the Services. */
import type { Address, Cidr, Family } from '../../model/address.ts';
import type { LocalDetector } from '../netfilter/local-traffic.ts';

export interface IpvsSettings {
  readonly family: Family;
  readonly masqueradeBit: number;
  readonly masqueradeAll: boolean;
  readonly localDetector: LocalDetector;
  /** Name of the kernel's scheduler, such as `rr`. */
  readonly scheduler: string;
  /** Virtual servers with an address in these are never removed. */
  readonly excludeCidrs: readonly Cidr[];
  /** Node ports on all addresses of the node's other devices, or on those in these ranges. */
  readonly nodePortCidrs: 'all' | readonly Cidr[];
  /** The node's own addresses: a source range that holds one lets the node itself in (reference 6.4). */
  readonly nodeAddresses: readonly Address[];
}

/** What is set once for the node: seconds, 0 leaves the kernel's; and whether to answer ARP for our device's addresses. */
export interface IpvsNodeSettings {
  readonly tcpTimeout: number;
  readonly tcpFinTimeout: number;
  readonly udpTimeout: number;
  readonly strictArp: boolean;
}
