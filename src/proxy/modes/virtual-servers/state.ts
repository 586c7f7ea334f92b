/** The virtual servers of one family: desired and believed state, their connections, and their rules. Does no I/O. */
import { type Address, type Cidr, endpointText, type Family } from '../../../base/address.ts';
import type { IpsetSpec, KernelWrite, SeenDestination, Server, ServerId } from '../../../kernel/ipvs-kernel.ts';
import type { GoneEndpoint } from '../../model/gone-endpoints.ts';
import type { FamilyRules } from '../netfilter/family-rules.ts';
import type { ChainKey } from '../netfilter/names.ts';
import type { Chain } from '../netfilter/rules.ts';
import {
  isBitmap,
  isShared,
  KUBE_PROXY_MAXELEM,
  maxelemOf,
  SET_IDS,
  type SetId,
  setId,
  setName,
  setSpec,
  spareName,
} from './sets.ts';
import {
  destinationKey,
  drains,
  entryKey,
  type ObservedServers,
  type OwnedAddress,
  type OwnedDestination,
  type OwnedEntry,
  type OwnedServer,
  ServerTrackers,
  serverKey,
} from './tracked-objects.ts';

/** The settings of one family on which its virtual servers depend. */
export interface ServersSettings {
  readonly family: Family;
  /** Virtual servers with an address in these ranges are never removed. */
  readonly excludeCidrs: readonly Cidr[];
  /** Node ports on all addresses of the node's other devices, or on those in these ranges. */
  readonly nodePortCidrs: 'all' | readonly Cidr[];
}

/** A virtual server with its destinations. */
export interface WantedServer extends OwnedServer {
  readonly destinations: readonly OwnedDestination[];
}

/** Changed desired objects; an object to remove is undefined. */
export interface DesiredChanges {
  readonly servers: ReadonlyMap<string, WantedServer | undefined>;
  readonly addresses: ReadonlyMap<Address, OwnedAddress | undefined>;
  readonly entries: ReadonlyMap<string, OwnedEntry | undefined>;
  readonly chains: ReadonlyMap<ChainKey, Chain | undefined>;
}

export class ServersState extends ServerTrackers {
  readonly settings: ServersSettings;
  readonly tables: FamilyRules;
  readonly index = new ServerIndex();
  readonly sizes = new SetSizes();
  /** See `ObservedServers`; also while this agent resizes a set. */
  hasSpare = false;
  /** Connections of destinations at the last reading. */
  readonly connections = new Map<string, number>();
  /** Endpoints that are gone, as `ip:port`, of destinations that are not removed yet. */
  readonly #gone = new Set<string>();
  /** The keys of the desired destinations of each server. */
  readonly wanted = new Map<string, readonly string[]>();
  /** Sets that could not be made smaller, and the spare set that could not be removed: they wait for the next reading. */
  readonly #kept = new Set<string>();
  /** The last reported cause by set: each is reported once. */
  readonly #reportedCauses = new Map<string, string>();
  #rendered = 0;

  constructor(settings: ServersSettings, tables: FamilyRules) {
    super();
    this.settings = settings;
    this.tables = tables;
  }

  get isKnown(): boolean {
    return this.servers.applied !== undefined && this.tables.isKnown;
  }

  /** Number of objects desired since the state was made; see `ModeWork`. */
  get rendered(): number {
    return this.#rendered;
  }

  override get compared(): number {
    return super.compared + this.tables.compared;
  }

  /** Whether nothing of ours but sets remains. */
  get isEmptied(): boolean {
    return this.servers.applied?.size === 0 && this.addresses.applied?.size === 0 && this.tables.isEmpty;
  }

  /** Whether a set should have another size, with its present entries. */
  get needsResize(): boolean {
    return this.sets.desired.keys().some((id) => this.resizeOf(id, 0) !== undefined);
  }

  /** The resize that a set needs when it takes so many entries more. One that could not be made smaller waits for the next reading. */
  resizeOf(id: SetId, more: number): { readonly from: number; readonly to: number } | undefined {
    const [from, to] = [this.sizes.now(id), this.sizes.wanted(id, more)];
    if (from === undefined || from === to) return undefined;
    // A set of another type is not ours, and stays as it is.
    if (this.sets.delta().update.has(id)) return undefined;
    return to < from && this.#kept.has(setName(this.settings.family, id)) ? undefined : { from, to };
  }

  /** Whether a spare set exists, and its removal has not failed since the last reading. */
  get isSpareRemovable(): boolean {
    return this.hasSpare && !this.#kept.has(spareName(this.settings.family));
  }

  /** Record that a set stays as it is until the next reading. Returns whether the cause is another one than before. */
  keepAsIs(set: string, cause: string): boolean {
    this.#kept.add(set);
    const isNew = this.#reportedCauses.get(set) !== cause;
    this.#reportedCauses.set(set, cause);
    return isNew;
  }

  /** The sets that kube-proxy has too, and would not take over in their size. */
  enlargedSets(): { readonly set: string; readonly maxelem: number }[] {
    const { family } = this.settings;
    const shared = this.sets.desired.keys().filter(isShared);
    const sized = shared.map((id) => ({ set: setName(family, id), maxelem: this.sizes.now(id) ?? 0 }));
    return [...sized.filter(({ maxelem }) => maxelem > KUBE_PROXY_MAXELEM)];
  }

  /** Desire the sets to which the rules refer. */
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
      for (const old of this.wanted.get(key) ?? []) if (!now.has(old)) this.destinations.desire(old, undefined);
      for (const [name, one] of now) {
        this.destinations.desire(name, one);
        this.#gone.delete(endpointOf(one));
      }
      if (wanted === undefined) this.wanted.delete(key);
      else this.wanted.set(key, [...now.keys()]);
    }
    for (const [address, wanted] of addresses) this.addresses.desire(address, wanted);
    for (const [key, wanted] of entries) this.entries.desire(key, wanted);
    for (const [key, chain] of chains) this.tables.desire(key, chain);
  }

  /** These endpoints are gone: their connections are not waited for. */
  end(gone: readonly GoneEndpoint[]): void {
    for (const { address, port } of gone) this.#gone.add(endpointText(address, port));
  }

  /** The connections of a former destination, as its removal waits for them: those of an endpoint that is gone never end well. */
  connectionsOf(destination: OwnedDestination): number {
    if (!drains(destination.server) || this.#gone.has(endpointOf(destination))) return 0;
    return this.connections.get(destinationKey(destination.server, destination.destination)) ?? 0;
  }

  /** Desire these servers as they are, with their destinations and addresses: for a predecessor, which desires nothing of its own. */
  hold(keys: ReadonlySet<string>): void {
    const held = new Set<Address>();
    for (const [key, one] of this.servers.applied ?? []) {
      if (!keys.has(key)) continue;
      this.servers.desire(key, one);
      held.add(one.server.address);
    }
    for (const [key, one] of this.destinations.applied ?? [])
      if (keys.has(serverKey(one.server))) this.destinations.desire(key, one);
    for (const [address, one] of this.addresses.applied ?? [])
      if (held.has(address)) this.addresses.desire(address, one);
  }

  /** Desire none of them any more, also where the believed state was forgotten meanwhile. */
  release(): void {
    for (const key of [...this.servers.desired.keys()]) this.servers.desire(key, undefined);
    for (const key of [...this.destinations.desired.keys()]) this.destinations.desire(key, undefined);
    for (const address of [...this.addresses.desired.keys()]) this.addresses.desire(address, undefined);
  }

  override observe(seen: ObservedServers): void {
    super.observe(seen);
    this.hasSpare = seen.hasSpare;
    this.#kept.clear();
    this.sizes.observe(seen.sets, seen.entries.values());
    this.connections.clear();
    for (const [key, count] of seen.connections) this.connections.set(key, count);
    this.index.rebuild(seen.servers, seen.destinations);
    const present = new Set([...seen.destinations.values()].map(endpointOf));
    for (const endpoint of this.#gone) if (!present.has(endpoint)) this.#gone.delete(endpoint);
  }

  /** Servers with draining destinations. */
  drainingServers(): Server[] {
    const draining = new Map<string, Server>();
    for (const { server, destination } of this.destinations.delta().remove.values()) {
      const known = this.servers.applied?.get(serverKey(server))?.server;
      if (drains(server) && destination.weight === 0 && known !== undefined) {
        draining.set(serverKey(server), known);
      }
    }
    return [...draining.values()];
  }

  /** Record the present connections of a server's destinations. */
  sawConnections(server: ServerId, seen: readonly SeenDestination[]): void {
    for (const key of this.index.destinationsOf(serverKey(server))) this.connections.delete(key);
    for (const one of seen) this.connections.set(destinationKey(server, one), one.connections);
  }

  /** Record a successful write with its owner. */
  wrote(write: KernelWrite, owner: string | undefined): void {
    switch (write.kind) {
      case 'add-set':
        this.#setMade(write.set);
        break;
      case 'remove-set':
        if (write.set === spareName(this.settings.family)) this.spareGone();
        else this.#setGone(setId(this.settings.family, write.set));
        break;
      case 'swap-set': // Only `apply.ts` swaps, and records the result itself (`resized`).
        break;
      case 'add-entry':
      case 'remove-entry': {
        const set = setId(this.settings.family, write.set);
        const key = entryKey(set, write.entry);
        const value = write.kind === 'add-entry' ? { set, entry: write.entry, owner } : undefined;
        this.sizes.changed(set, Number(value !== undefined) - Number(this.entries.applied?.has(key) === true));
        this.entries.wrote(key, value);
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

  spareGone(): void {
    this.hasSpare = false;
    this.#reportedCauses.delete(spareName(this.settings.family));
  }

  /** Record that a set has another maxelem, and still has its entries. */
  resized(id: SetId, maxelem: number): void {
    this.#reportedCauses.delete(setName(this.settings.family, id));
    this.sizes.became(id, maxelem);
  }

  #setMade(set: IpsetSpec): void {
    const id = setId(this.settings.family, set.name);
    this.sets.wrote(id, set);
    this.sizes.became(id, set.maxelem);
  }

  /** Record the removal of a set with all its entries. */
  #setGone(id: SetId): void {
    this.sets.wrote(id, undefined);
    this.sizes.gone(id);
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

function endpointOf({ destination: { address, port } }: OwnedDestination): string {
  return endpointText(address, port);
}

/** The destinations of each virtual server in the kernel, and the servers on each address, by their keys. */
class ServerIndex {
  readonly #destinations = new Map<string, Set<string>>();
  readonly #servers = new Map<Address, Set<string>>();

  /** Replace the index by what was read. */
  rebuild(servers: ReadonlyMap<string, OwnedServer>, destinations: ReadonlyMap<string, OwnedDestination>): void {
    this.#destinations.clear();
    this.#servers.clear();
    for (const [key, { server }] of servers) this.addServer(key, server.address);
    for (const [key, { server }] of destinations) this.addDestination(serverKey(server), key);
  }

  destinationsOf(server: string): Iterable<string> {
    return this.#destinations.get(server) ?? [];
  }

  serversAt(address: Address): Iterable<string> {
    return this.#servers.get(address) ?? [];
  }

  addServer(server: string, address: Address): void {
    this.#servers.set(address, (this.#servers.get(address) ?? new Set()).add(server));
  }

  addDestination(server: string, destination: string): void {
    this.#destinations.set(server, (this.#destinations.get(server) ?? new Set()).add(destination));
  }

  /** Remove a server with all its destinations. */
  removeServer(server: string, address: Address): void {
    this.#destinations.delete(server);
    const at = this.#servers.get(address);
    at?.delete(server);
    if (at?.size === 0) this.#servers.delete(address);
  }

  removeDestination(server: string, destination: string): void {
    this.#destinations.get(server)?.delete(destination);
  }
}

/** The sizes of one family's sets: the believed entries and maxelem of each, and the maxelem that it should have. */
class SetSizes {
  readonly #entries = new Map<SetId, number>();
  readonly #maxelem = new Map<SetId, number>();
  /** The sets that this agent enlarged. */
  readonly #enlarged = new Set<SetId>();

  /** Replace the believed sizes by the read ones. */
  observe(sets: ReadonlyMap<SetId, IpsetSpec>, entries: Iterable<Pick<OwnedEntry, 'set'>>): void {
    this.#entries.clear();
    this.#maxelem.clear();
    for (const { set } of entries) this.changed(set, 1);
    for (const [id, { maxelem }] of sets) if (!isBitmap(id)) this.#maxelem.set(id, maxelem);
  }

  /** Record that a set has more entries, or fewer. */
  changed(id: SetId, more: number): void {
    this.#entries.set(id, (this.#entries.get(id) ?? 0) + more);
  }

  /** Record that a set was created or resized. */
  became(id: SetId, maxelem: number): void {
    if (isBitmap(id)) return;
    this.#maxelem.set(id, maxelem);
    if (maxelem > KUBE_PROXY_MAXELEM) this.#enlarged.add(id);
    else this.#enlarged.delete(id);
  }

  gone(id: SetId): void {
    this.#entries.delete(id);
    this.#maxelem.delete(id);
    this.#enlarged.delete(id);
  }

  /** The maxelem of a set in the kernel; undefined for one that does not exist, or a bitmap. */
  now(id: SetId): number | undefined {
    return this.#maxelem.get(id);
  }

  /** The maxelem that a set should have when it takes so many entries more. */
  wanted(id: SetId, more: number): number {
    const entries = (this.#entries.get(id) ?? 0) + more;
    return maxelemOf(id, { entries, now: this.now(id), isEnlarged: this.#enlarged.has(id) });
  }
}
