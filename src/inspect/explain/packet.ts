/** A packet to explain, and what decides about it beside rules. */
import type { Address } from '../../base/address.ts';

/** The first packet of a connection. */
export interface Packet {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly source: Address;
  readonly destination: Address;
  readonly port: number;
  /** The device it comes in by; undefined when the node itself sends it. */
  readonly device: string | undefined;
  /** What conntrack says of it. Packets that it finds invalid are not translated. */
  readonly state: 'NEW' | 'INVALID';
}

/** What a node is, beside its rules. */
export interface NodeOfPacket {
  /** Addresses of this node. Loopback addresses, and those on the device of IPVS mode, count without being listed. */
  readonly localAddresses: ReadonlySet<string>;
  /**
   * Names of the memories of session affinity that know the packet's source: a `recent` list of iptables, a set of nftables, or
   * `SERVER -> DESTINATION` of IPVS (`destinationKey`).
   */
  readonly remembered: ReadonlySet<string>;
}
