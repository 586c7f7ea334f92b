/** The virtual servers of one family: what is desired and believed of them, of the connections that they have, and of their rules. Does no I/O. */
import type { KernelWrite, SeenDestination, Server, ServerId } from '../../host/ipvs-kernel.ts';
import type { Address } from '../../model/address.ts';
import type { ChainKey } from '../netfilter/names.ts';
import type { Chain } from '../netfilter/rules.ts';
import type { FamilyTables } from '../netfilter/tables.ts';
import {
  destinationKey,
  entryKey,
  type OwnedAddress,
  type OwnedDestination,
  type OwnedEntry,
  type OwnedServer,
  serverKey,
} from './objects.ts';
import { ServerIndex } from './server-index.ts';
import { SET_IDS, type SetId, setId, setSpec } from './sets.ts';
import type { ServersSettings } from './settings.ts';
import { type Seen, ServerTrackers } from './trackers.ts';

/** A virtual server with all that is behind it. */
export interface WantedServer extends OwnedServer {
  readonly destinations: readonly OwnedDestination[];
}

/** What changed; undefined for what should not be. */
export interface DesiredChanges {
  readonly servers: ReadonlyMap<string, WantedServer | undefined>;
  readonly addresses: ReadonlyMap<Address, OwnedAddress | undefined>;
  readonly entries: ReadonlyMap<string, OwnedEntry | undefined>;
  readonly chains: ReadonlyMap<ChainKey, Chain | undefined>;
}

export class ServersState extends ServerTrackers {
  readonly settings: ServersSettings;
  readonly tables: FamilyTables;
  readonly index = new ServerIndex();
  /** Connections of destinations as they were last seen. */
  readonly connections = new Map<string, number>();
  /** Destinations that a server should have. */
  readonly #wanted = new Map<string, readonly string[]>();
  #rendered = 0;

  constructor(settings: ServersSettings, tables: FamilyTables) {
    super();
    this.settings = settings;
    this.tables = tables;
  }

  get isKnown(): boolean {
    return this.servers.applied !== undefined && this.tables.isKnown;
  }

  /** What was desired of this family since the state was made, as often as it was. */
  get rendered(): number {
    return this.#rendered;
  }

  override get compared(): number {
    return super.compared + this.tables.compared;
  }

  /** Nothing but sets is left of ours. */
  get isEmptied(): boolean {
    return this.servers.applied?.size === 0 && this.addresses.applied?.size === 0 && this.tables.isEmpty;
  }

  /** Want the sets that the rules name. */
  desireSets(): void {
    for (const id of SET_IDS) this.sets.desire(id, setSpec(this.settings.family, id));
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

  override observe(seen: Seen): void {
    super.observe(seen);
    this.connections.clear();
    for (const [key, count] of seen.connections) this.connections.set(key, count);
    this.index.rebuild(seen.servers, seen.destinations);
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
    for (const key of this.index.destinationsOf(serverKey(server))) this.connections.delete(key);
    for (const one of seen) this.connections.set(destinationKey(server, one), one.connections);
  }

  /** A write succeeded. `owner` is kept with it. */
  wrote(write: KernelWrite, owner: string | undefined): void {
    switch (write.kind) {
      case 'add-set':
        this.sets.wrote(setId(this.settings.family, write.set.name), write.set);
        break;
      case 'remove-set':
        this.#setGone(setId(this.settings.family, write.set));
        break;
      case 'add-entry':
      case 'remove-entry': {
        const set = setId(this.settings.family, write.set);
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
        this.index.addServer(serverKey(write.server), write.server.address);
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

  /** With all of its entries. */
  #setGone(id: SetId): void {
    this.sets.wrote(id, undefined);
    for (const [key, { set }] of [...(this.entries.applied ?? [])]) if (set === id) this.entries.wrote(key, undefined);
  }

  #serverGone(server: ServerId): void {
    const key = serverKey(server);
    for (const destination of this.index.destinationsOf(key)) {
      this.destinations.wrote(destination, undefined);
      this.connections.delete(destination);
    }
    this.index.removeServer(key, server.address);
    this.servers.wrote(key, undefined);
  }

  #wroteDestination(
    kind: 'add-destination' | 'change-destination' | 'remove-destination',
    one: OwnedDestination,
  ): void {
    const key = destinationKey(one.server, one.destination);
    if (kind !== 'remove-destination') {
      this.index.addDestination(serverKey(one.server), key);
      this.destinations.wrote(key, one);
      return;
    }
    this.index.removeDestination(serverKey(one.server), key);
    this.connections.delete(key);
    this.destinations.wrote(key, undefined);
  }
}
