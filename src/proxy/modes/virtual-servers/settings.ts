/** The settings that virtual servers depend on: of one family, and of the node. */
import type { Cidr, Family } from '../../../base/address.ts';

export interface ServersSettings {
  readonly family: Family;
  /** Virtual servers with an address in these ranges are never removed. */
  readonly excludeCidrs: readonly Cidr[];
  /** Node ports on all addresses of the node's other devices, or on those in these ranges. */
  readonly nodePortCidrs: 'all' | readonly Cidr[];
}

/** Settings of the node. Timeouts in seconds, 0 keeps the kernel's. `strictArp`: do not answer ARP for our device's addresses. */
export interface IpvsNodeSettings {
  readonly tcpTimeout: number;
  readonly tcpFinTimeout: number;
  readonly udpTimeout: number;
  readonly strictArp: boolean;
}
