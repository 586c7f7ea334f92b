/** Virtual servers, sets and addresses as a view (`proxy/modes/view.ts`). Pure. */
import type { Address, Family } from '../../../base/address.ts';
import type { ServersView } from '../view.ts';
import { setNamed } from './sets.ts';
import type { ServersState } from './state.ts';
import {
  entryKey,
  type ObservedServers,
  type OwnedAddress,
  type OwnedDestination,
  type OwnedEntry,
  type OwnedServer,
  serverKey,
} from './tracked-objects.ts';

interface ViewedServers {
  readonly family: Family;
  readonly servers: ReadonlyMap<string, OwnedServer>;
  /** Returns undefined when they were not read. */
  readonly destinationsOf: (server: string) => readonly OwnedDestination[] | undefined;
  readonly entries: ReadonlyMap<string, OwnedEntry>;
  readonly addresses: ReadonlyMap<Address, OwnedAddress>;
  /** The Service of a server that was read. */
  readonly ownerOf: (server: string) => string | undefined;
}

/** Returns undefined until the servers were read. */
export function believedServers(state: ServersState): ServersView | undefined {
  const { servers, destinations, entries, addresses } = state;
  const [known, all] = [servers.applied, destinations.applied];
  if (known === undefined || all === undefined || !entries.applied || !addresses.applied) return undefined;
  return serversView({
    family: state.settings.family,
    servers: known,
    destinationsOf: (server) => [...state.index.destinationsOf(server)].flatMap((key) => all.get(key) ?? []),
    entries: entries.applied,
    addresses: addresses.applied,
    ownerOf: (server) => ownerOf(state, server),
  });
}

export function desiredServers(state: ServersState): ServersView {
  const { desired } = state.destinations;
  return serversView({
    family: state.settings.family,
    servers: state.servers.desired,
    destinationsOf: (server) => (state.wanted.get(server) ?? []).flatMap((key) => desired.get(key) ?? []),
    entries: state.entries.desired,
    addresses: state.addresses.desired,
    ownerOf: (server) => ownerOf(state, server),
  });
}

/** `isRead` returns whether the destinations of a server were read. */
export function seenServers(
  state: ServersState,
  seen: ObservedServers,
  isRead: (server: string) => boolean,
): ServersView {
  const byServer = Map.groupBy(seen.destinations.values(), ({ server }) => serverKey(server));
  return serversView({
    ...seen,
    family: state.settings.family,
    destinationsOf: (server) => (isRead(server) ? (byServer.get(server as `TCP ${string}`) ?? []) : undefined),
    ownerOf: (server) => ownerOf(state, server),
  });
}

/** The kernel does not store the Service of a server. */
export function ownerOf({ servers }: ServersState, key: string): string | undefined {
  return servers.desired.get(key)?.owner ?? servers.applied?.get(key)?.owner;
}

function serversView(of: ViewedServers): ServersView {
  return {
    server(id) {
      const key = serverKey(id);
      const found = of.servers.get(key);
      if (found === undefined) return undefined;
      const destinations = of.destinationsOf(key);
      if (destinations === undefined) throw new RangeError(`the destinations of ${key} were not read`);
      return {
        server: found.server,
        destinations: destinations.map(({ destination }) => destination),
        owner: found.owner ?? of.ownerOf(key),
      };
    },
    hasEntry(name, entry) {
      const set = setNamed(of.family, name);
      return set !== undefined && of.entries.has(entryKey(set, entry));
    },
    hasAddress: (address) => of.addresses.has(address),
  };
}
