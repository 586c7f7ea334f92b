/** The virtual servers, sets and addresses of one family: the objects, their keys and texts, and a tracker for each kind. Does no I/O. */
import { type Address, endpointText, type Family } from '../../../base/address.ts';
import type { Destination, IpsetSpec, Server, ServerId } from '../../../kernel/ipvs-kernel.ts';
import type { Drift, DriftKind } from '../../model/drift.ts';
import type { ServiceKey } from '../../model/objects.ts';
import { Tracker } from '../../reconcile/tracker.ts';
import type { SetId } from './sets.ts';

/** `TCP 10.96.0.10:80` */
export type ServerKey = `${ServerId['protocol']} ${string}`;

export interface OwnedServer {
  readonly server: Server;
  /** Undefined for a server read from the kernel. */
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
  /** All of them, where there are several. */
  readonly owners?: readonly ServiceKey[];
}

export interface OwnedEntry {
  readonly set: SetId;
  readonly entry: string;
  readonly owner: ServiceKey | undefined;
  /** All of them, where there are several. */
  readonly owners?: readonly ServiceKey[];
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

/** Address and port are the key. A field that is not compared here is never repaired. */
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

/** The result of reading one family. */
export interface ObservedServers {
  readonly sets: ReadonlyMap<SetId, IpsetSpec>;
  /** Whether an agent that ended while it resized a set left the spare set behind (`spareName`). */
  readonly hasSpare: boolean;
  readonly entries: ReadonlyMap<string, OwnedEntry>;
  readonly servers: ReadonlyMap<string, OwnedServer>;
  readonly destinations: ReadonlyMap<string, OwnedDestination>;
  /** Connections by the key of the destination. */
  readonly connections: ReadonlyMap<string, number>;
  readonly addresses: ReadonlyMap<Address, OwnedAddress>;
}

/** Desired and believed state: a tracker for each kind of object. */
export class ServerTrackers {
  /** The size of a set depends on its entries (`SetSizes`). */
  readonly sets = new Tracker<SetId, IpsetSpec>(sameSet);
  readonly entries = new Tracker<string, OwnedEntry>(() => true);
  readonly servers = new Tracker<string, OwnedServer>(sameServer);
  readonly destinations = new Tracker<string, OwnedDestination>(sameDestination);
  readonly addresses = new Tracker<Address, OwnedAddress>(() => true);

  /** Number of values compared for plans. */
  get compared(): number {
    const trackers = [this.sets, this.entries, this.servers, this.destinations, this.addresses];
    return trackers.reduce((sum, { compared }) => sum + compared, 0);
  }

  /** Number of writes that succeeded. */
  get writes(): number {
    const trackers = [this.sets, this.entries, this.servers, this.destinations, this.addresses];
    return trackers.reduce((sum, { writes }) => sum + writes, 0);
  }

  observe(seen: ObservedServers): void {
    this.sets.observe(seen.sets);
    this.entries.observe(withOwners(seen.entries, this.entries.applied));
    this.servers.observe(withOwners(seen.servers, this.servers.applied));
    this.destinations.observe(withOwners(seen.destinations, this.destinations.applied));
    this.addresses.observe(withOwners(seen.addresses, this.addresses.applied));
  }

  /** The changes of other programs. */
  driftFrom(seen: ObservedServers, family: Family): Drift[] {
    const drift = (kind: DriftKind, names: readonly string[]) =>
      names.map((name): Drift => ({ family, kind, table: '', name, target: '', difference: { kind: 'changed' } }));
    return [
      ...drift('server', this.servers.driftFrom(seen.servers)),
      ...drift('destination', this.destinations.driftFrom(seen.destinations)),
      ...drift('entry', this.entries.driftFrom(seen.entries)),
      ...drift('address', this.addresses.driftFrom(seen.addresses)),
    ];
  }

  /** Discard the believed state, after a write whose outcome is unknown or a failed reading. */
  forget(): void {
    for (const tracker of [this.sets, this.entries, this.servers, this.destinations, this.addresses]) tracker.forget();
  }
}

/** Whether rules can use either set. The sizes do not matter. */
export function sameSet(a: IpsetSpec, b: IpsetSpec): boolean {
  return a.type === b.type && a.family === b.family;
}

/** The kernel does not store the Service of an object, so known owners are kept. */
function withOwners<K, V extends { readonly owner: string | undefined }>(
  seen: ReadonlyMap<K, V>,
  believed: ReadonlyMap<K, V> | undefined,
): ReadonlyMap<K, V> {
  if (believed === undefined) return seen;
  const owned = new Map<K, V>();
  for (const [key, value] of seen) {
    const owner = believed.get(key)?.owner;
    owned.set(key, owner === undefined ? value : { ...value, owner });
  }
  return owned;
}
