/** The tracked objects of one family, and their keys. */

import { type Address, endpointText } from '../../../base/address.ts';
import type { Destination, Server, ServerId } from '../../../kernel/ipvs-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { SetId } from './sets.ts';

/** `TCP 10.96.0.10:80` */
export type ServerKey = `${ServerId['protocol']} ${string}`;

export interface OwnedServer {
  readonly server: Server;
  /** undefined for a server read from the kernel. */
  readonly owner: ServiceKey | undefined;
}

export interface OwnedDestination {
  readonly server: ServerId;
  readonly destination: Destination;
  readonly owner: ServiceKey | undefined;
}

/** A desired or present address of our device. */
export interface OwnedAddress {
  readonly address: Address;
  readonly owner: ServiceKey | undefined;
}

export interface OwnedEntry {
  readonly set: SetId;
  readonly entry: string;
  readonly owner: ServiceKey | undefined;
}

export function serverKey({ protocol, address, port }: ServerId): ServerKey {
  return `${protocol} ${endpointText(address, port)}`;
}

/**
 * Whether the connections of a server end by themselves, so that a removal waits for them. Packets of a TCP connection or an SCTP
 * association whose destination is gone are answered with a reset or an ABORT; the next packet of a UDP flow finds another destination.
 * kube-proxy waits for TCP alone (its graceful_termination.go).
 */
export function drains({ protocol }: Pick<ServerId, 'protocol'>): boolean {
  return protocol !== 'UDP';
}

/** `TCP 10.96.0.10:80 -> 10.244.1.11:8080` */
export function destinationKey(server: ServerId, { address, port }: { address: Address; port: number }): string {
  return `${serverKey(server)} -> ${endpointText(address, port)}`;
}

export function entryKey(set: SetId, entry: string): string {
  return `${set} ${entry}`;
}

/** The entry of a server in the sets of type hash:ip,port. */
export function serverEntry({ protocol, address, port }: ServerId): string {
  return `${address},${protocol.toLowerCase()}:${port}`;
}

export function sameServer(a: OwnedServer, b: OwnedServer): boolean {
  const [x, y] = [a.server, b.server];
  return x.scheduler === y.scheduler && x.flags === y.flags && x.timeout === y.timeout;
}

export function sameDestination(a: OwnedDestination, b: OwnedDestination): boolean {
  return a.destination.weight === b.destination.weight;
}

const FLAGS: Readonly<Record<ServerId['protocol'], string>> = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' };

/** The server as arguments of ipvsadm(8). */
export function serverText({ server }: OwnedServer): string {
  const persistent = server.timeout > 0 ? ` -p ${server.timeout}` : '';
  return `${FLAGS[server.protocol]} ${endpointText(server.address, server.port)} -s ${server.scheduler}${persistent}`;
}

export function destinationText({ server, destination }: OwnedDestination): string {
  const at = `${FLAGS[server.protocol]} ${endpointText(server.address, server.port)}`;
  return `${at} -r ${endpointText(destination.address, destination.port)} -m -w ${destination.weight}`;
}

/** The key of an entry's server: `10.96.0.10,tcp:80` → `TCP 10.96.0.10:80`. */
export function serverKeyOfEntry(entry: string): string {
  const [address = '', socket = ''] = entry.split(',');
  const [protocol = '', port] = socket.split(':');
  return `${protocol.toUpperCase()} ${endpointText(address as Address, Number(port))}`;
}
