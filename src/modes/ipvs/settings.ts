/** What one family depends on beside the Services. */
import type { Cidr } from '../../model/address.ts';
import type { FamilySettings } from '../netfilter/settings.ts';

export interface IpvsSettings extends FamilySettings {
  /** Name of the kernel's scheduler, such as `rr`. */
  readonly scheduler: string;
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
