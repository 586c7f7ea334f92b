/** What is desired and believed of one family: a tracker for each kind of thing, and the ways between them. Does no I/O. */
import type { KernelWrite, SeenDestination, Server, ServerId, SetSpec } from '../../host/ipvs-kernel.ts';
import type { Address } from '../../model/address.ts';
import { Tracker } from '../../reconcile/tracker.ts';
import type { DesiredChanges } from '../ipvs/desire.ts';
import type { IpvsSettings } from '../ipvs/settings.ts';
import type { FamilyTables } from '../netfilter/tables.ts';
import {
  destinationKey,
  entryKey,
  type OwnedAddress,
  type OwnedDestination,
  type OwnedEntry,
  type OwnedServer,
  sameDestination,
  sameServer,
  serverKey,
} from './objects.ts';
import { SET_IDS, type SetId, setName, setSpec } from './sets.ts';

/** What was read of one family. */
export interface Seen {
  readonly sets: ReadonlyMap<SetId, SetSpec>;
  readonly entries: ReadonlyMap<string, OwnedEntry>;
  readonly servers: ReadonlyMap<string, OwnedServer>;
  readonly destinations: ReadonlyMap<string, OwnedDestination>;
  /** Connections of destinations, by their keys. */
  readonly connections: ReadonlyMap<string, number>;
  readonly addresses: ReadonlyMap<Address, OwnedAddress>;
}

export class FamilyState {
  readonly settings: IpvsSettings;
  readonly tables: FamilyTables;
  readonly sets = new Tracker<SetId, SetSpec>((a, b) => a.type === b.type && a.family === b.family);
  readonly entries = new Tracker<string, OwnedEntry>(() => true);
  readonly servers = new Tracker<string, OwnedServer>(sameServer);
  readonly destinations = new Tracker<string, OwnedDestination>(sameDestination);
  readonly addresses = new Tracker<Address, OwnedAddress>(() => true);
  /** Connections of destinations as they were last seen. */
  readonly connections = new Map<string, number>();
  /** Destinations that a server should have, and those that it has in the kernel. */
  readonly #wanted = new Map<string, readonly string[]>();
  readonly #standing = new Map<string, Set<string>>();
  readonly #serversAt = new Map<Address, Set<string>>();
  readonly #setIds: ReadonlyMap<string, SetId>;
  #rendered = 0;
  /** Why the last read failed, if it did. */
  unread: string | undefined;

  constructor(settings: IpvsSettings, tables: FamilyTables, { isPredecessor }: { isPredecessor: boolean }) {
    this.settings = settings;
    this.tables = tables;
    this.#setIds = new Map(SET_IDS.map((id) => [setName(settings.family, id), id]));
    if (!isPredecessor) for (const id of SET_IDS) this.sets.desire(id, setSpec(settings.family, id));
  }

  get isKnown(): boolean {
    return this.servers.applied !== undefined && this.tables.isKnown;
  }

  /** What was desired of this family since the state was made, as often as it was. */
  get rendered(): number {
    return this.#rendered;
  }

  /** What was compared for plans. */
  get compared(): number {
    const trackers = [this.sets, this.entries, this.servers, this.destinations, this.addresses, this.tables];
    return trackers.reduce((sum, { compared }) => sum + compared, 0);
  }

  /** Nothing but sets is left of ours. */
  get isEmptied(): boolean {
    return this.servers.applied?.size === 0 && this.addresses.applied?.size === 0 && this.tables.isEmpty;
  }

  desire({ servers, addresses, entries, chains }: DesiredChanges): void {
    this.#rendered += servers.size + addresses.size + entries.size + chains.size;
    for (const [key, wanted] of servers) {
      this.servers.desire(key, wanted);
      const now = new Map(
        (wanted?.destinations ?? []).map((one) => [destinationKey(one.server, one.destination), one]),
      );
      this.#rendered += now.size;
      for (const old of this.#wanted.get(key) ?? []) if (!now.has(old)) this.destinations.desire(old, undefined);
      for (const [name, one] of now) this.destinations.desire(name, one);
      if (wanted === undefined) this.#wanted.delete(key);
      else this.#wanted.set(key, [...now.keys()]);
    }
    for (const [address, wanted] of addresses) this.addresses.desire(address, wanted);
    for (const [key, wanted] of entries) this.entries.desire(key, wanted);
    for (const [key, chain] of chains) this.tables.desire(key, chain);
  }

  observe(seen: Seen): void {
    this.sets.observe(seen.sets);
    this.entries.observe(withOwners(seen.entries, this.entries.applied));
    this.servers.observe(withOwners(seen.servers, this.servers.applied));
    this.destinations.observe(withOwners(seen.destinations, this.destinations.applied));
    this.addresses.observe(withOwners(seen.addresses, this.addresses.applied));
    this.connections.clear();
    for (const [key, count] of seen.connections) this.connections.set(key, count);
    this.#standing.clear();
    this.#serversAt.clear();
    for (const [key, { server }] of seen.servers) this.#index(key, server);
    for (const [key, { server }] of seen.destinations) this.#indexDestination(serverKey(server), key);
  }

  /** What another program changed since it was written, as keys. */
  driftFrom(seen: Seen): string[] {
    const { family } = this.settings;
    return [
      ...this.servers.driftFrom(seen.servers).map((key) => `server ${key}`),
      ...this.destinations.driftFrom(seen.destinations).map((key) => `destination ${key}`),
      ...this.entries.driftFrom(seen.entries).map((key) => `entry ${key}`),
      ...this.addresses.driftFrom(seen.addresses).map((address) => `address ${address}`),
    ].map((what) => `${family} ${what}`);
  }

  /** Servers with destinations whose connections are waited for. */
  drainingServers(): Server[] {
    const draining = new Map<string, Server>();
    for (const { server, destination } of this.destinations.delta().remove.values()) {
      const known = this.servers.applied?.get(serverKey(server))?.server;
      if (server.protocol === 'TCP' && destination.weight === 0 && known !== undefined) {
        draining.set(serverKey(server), known);
      }
    }
    return [...draining.values()];
  }

  /** Connections of a server's destinations, as they are now. */
  sawConnections(server: ServerId, seen: readonly SeenDestination[]): void {
    for (const key of this.destinationsOf(serverKey(server))) this.connections.delete(key);
    for (const one of seen) this.connections.set(destinationKey(server, one), one.connections);
  }

  /** After a write whose outcome is not known, or a read that failed. */
  forget(): void {
    for (const tracker of [this.sets, this.entries, this.servers, this.destinations, this.addresses]) tracker.forget();
  }

  /** A write succeeded. `owner` is kept with it. */
  wrote(write: KernelWrite, owner: string | undefined): void {
    switch (write.kind) {
      case 'add-set':
        this.sets.wrote(this.#setId(write.set.name), write.set);
        break;
      case 'remove-set':
        this.#setGone(this.#setId(write.set));
        break;
      case 'add-entry':
      case 'remove-entry': {
        const set = this.#setId(write.set);
        const value = write.kind === 'add-entry' ? { set, entry: write.entry, owner } : undefined;
        this.entries.wrote(entryKey(set, write.entry), value);
        break;
      }
      case 'add-address':
      case 'remove-address':
        this.addresses.wrote(
          write.address,
          write.kind === 'add-address' ? { address: write.address, owner } : undefined,
        );
        break;
      case 'add-server':
      case 'change-server':
        this.#index(serverKey(write.server), write.server);
        this.servers.wrote(serverKey(write.server), { server: write.server, owner });
        break;
      case 'remove-server':
        this.#serverGone(write.server);
        break;
      case 'add-destination':
      case 'change-destination':
      case 'remove-destination':
        this.#wroteDestination(write.kind, { server: write.server, destination: write.destination, owner });
        break;
    }
  }

  /** Keys of the destinations that a server has in the kernel. */
  destinationsOf(server: string): Iterable<string> {
    return this.#standing.get(server) ?? [];
  }

  /** Keys of the servers that the kernel has on an address. */
  serversAt(address: Address): Iterable<string> {
    return this.#serversAt.get(address) ?? [];
  }

  #setId(name: string): SetId {
    const id = this.#setIds.get(name);
    if (id === undefined) throw new RangeError(`${name} is no set of ours`);
    return id;
  }

  /** With all of its entries. */
  #setGone(id: SetId): void {
    this.sets.wrote(id, undefined);
    for (const [key, { set }] of [...(this.entries.applied ?? [])]) if (set === id) this.entries.wrote(key, undefined);
  }

  #serverGone(server: ServerId): void {
    const key = serverKey(server);
    for (const destination of this.destinationsOf(key)) {
      this.destinations.wrote(destination, undefined);
      this.connections.delete(destination);
    }
    this.#standing.delete(key);
    const at = this.#serversAt.get(server.address);
    at?.delete(key);
    if (at?.size === 0) this.#serversAt.delete(server.address);
    this.servers.wrote(key, undefined);
  }

  #wroteDestination(
    kind: 'add-destination' | 'change-destination' | 'remove-destination',
    one: OwnedDestination,
  ): void {
    const key = destinationKey(one.server, one.destination);
    if (kind !== 'remove-destination') {
      this.#indexDestination(serverKey(one.server), key);
      this.destinations.wrote(key, one);
      return;
    }
    this.#standing.get(serverKey(one.server))?.delete(key);
    this.connections.delete(key);
    this.destinations.wrote(key, undefined);
  }

  #index(key: string, { address }: ServerId): void {
    const at = this.#serversAt.get(address) ?? new Set();
    this.#serversAt.set(address, at.add(key));
  }

  #indexDestination(server: string, key: string): void {
    const standing = this.#standing.get(server) ?? new Set();
    this.#standing.set(server, standing.add(key));
  }
}

/** The kernel does not say whose a thing is: whose it was is kept. */
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
