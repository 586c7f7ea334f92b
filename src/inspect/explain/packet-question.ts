/** A question that was understood: who sends to where. */

import type { Protocol } from '../../base/address.ts';
import { type Address, endpointText, type Family, familyOf, isLoopback } from '../../base/address.ts';

export interface PacketSender {
  /** As it was asked. */
  readonly text: string;
  readonly what: 'pod' | 'node' | 'outside';
  readonly address: Address;
  /** The device that the packet comes in by; undefined when the node sends it. */
  readonly device: string | undefined;
  /** The mode recognises the sender as a Pod of this node (docs/semantics.md 5). */
  readonly isLocalPod: boolean;
  /** The address is an example: FROM named none. */
  readonly isExample: boolean;
}

export interface AskedDestination {
  /** As it was asked. */
  readonly text: string;
  readonly address: Address;
  readonly port: number;
  readonly protocol: Protocol;
  readonly family: Family;
}

export interface PacketQuestion {
  readonly from: PacketSender;
  readonly to: AskedDestination;
}

/** A destination before its family is chosen: an address for each family that has one. */
export interface WantedDestination {
  readonly addresses: readonly Address[];
  readonly port: number;
  readonly protocol: Protocol;
}

/** UDP has no connections. */
export function packetWord({ protocol }: Pick<AskedDestination, 'protocol'>): string {
  return protocol === 'UDP' ? 'flow' : 'connection';
}

/** `10.96.0.10:80 (TCP)` */
export function destinationText({ address, port, protocol }: AskedDestination): string {
  return `${endpointText(address, port)} (${protocol})`;
}

/** Whether an address of this node takes node ports (docs/semantics.md 6.9, 6.10). */
export function takesNodePorts(
  address: Address,
  family: { readonly nodePortAddresses: readonly Address[]; readonly localhostNodePorts: boolean },
): boolean {
  if (isLoopback(address)) return family.localhostNodePorts && familyOf(address) === 'IPv4';
  return family.nodePortAddresses.includes(address);
}
