/** Read our objects of one family: sets, servers with their destinations, addresses (invariant 7). */

import { type Address, type Cidr, cidrContains, type Family, familyOf } from '../../../base/address.ts';
import { breath } from '../../../base/clock.ts';
import {
  type IpsetSpec,
  type IpvsReader,
  type Server,
  type SetType,
  TRIAL_SERVER,
} from '../../../kernel/ipvs-kernel.ts';
import { SET_IDS, type SetId, setName, spareName } from './sets.ts';
import type { ServersState } from './state.ts';
import {
  destinationKey,
  entryKey,
  type ObservedServers,
  type OwnedDestination,
  type OwnedEntry,
  type OwnedServer,
  type ServerKey,
  serverEntry,
  serverKey,
} from './tracked-objects.ts';

/** Addresses of the node's other devices. */
export interface HostAddresses {
  readonly all: ReadonlySet<Address>;
  /** Addresses that serve node ports. */
  readonly nodePorts: readonly Address[];
}

/** Servers whose destinations are read before the event loop runs again. */
const SERVERS_AT_ONCE = 100;

export interface SeenServers {
  readonly seen: ObservedServers;
  readonly host: HostAddresses;
  /** Keys of the family's servers that belong to other programs, as far as is known now. */
  readonly foreign: ReadonlySet<string>;
}

/**
 * Throws when any part cannot be read, because a part is not the whole (invariant 2). `only` limits the servers whose destinations are
 * read.
 *
 * Addresses and sets come first. They tell our servers from others, and kube-proxy writes each of them after its server. So a
 * predecessor that writes meanwhile shows none here without its server: they would be removed, and the server would stay for ever.
 */
export async function observeServers(
  kernel: IpvsReader,
  state: ServersState,
  only: (key: ServerKey) => boolean = () => true,
): Promise<SeenServers> {
  const { family, nodePortCidrs } = state.settings;
  const { ours, others } = await kernel.addresses(family);
  const host = { all: new Set(others), nodePorts: others.filter((address) => isIn(nodePortCidrs, address)) };
  const names = new Set(await kernel.setNames());
  const { sets, entries } = await readSets(kernel, family, names);
  const isOurs = ownership(state, { ours: new Set(ours), host, entries });
  const servers = new Map<string, OwnedServer>();
  const foreign = new Set<string>();
  const destinations = new Map<string, OwnedDestination>();
  const connections = new Map<string, number>();
  for (const server of (await kernel.servers()).filter(({ address }) => familyOf(address) === family)) {
    if (!isOurs(server)) {
      foreign.add(serverKey(server));
      continue;
    }
    servers.set(serverKey(server), { server, owner: undefined });
    if (!only(serverKey(server))) continue;
    for (const { weight, isMasqueraded, ...seen } of await kernel.destinations(server)) {
      const key = destinationKey(server, seen);
      // The forwarding method is not ours: weight -1 forces a change.
      const destination = { ...seen, weight: isMasqueraded ? weight : -1 };
      destinations.set(key, { server, destination, owner: undefined });
      if (seen.connections > 0) connections.set(key, seen.connections);
    }
    if (servers.size % SERVERS_AT_ONCE === 0) await breath();
  }
  const addresses = new Map(ours.map((address) => [address, { address, owner: undefined }]));
  const hasSpare = names.has(spareName(family));
  return { seen: { sets, hasSpare, entries, servers, destinations, connections, addresses }, host, foreign };
}

function isIn(ranges: 'all' | readonly Cidr[], address: Address): boolean {
  return ranges === 'all' || ranges.some((range) => cidrContains(range, address));
}

async function readSets(kernel: IpvsReader, family: Family, names: ReadonlySet<string>) {
  const sets = new Map<SetId, IpsetSpec>();
  const entries = new Map<string, OwnedEntry>();
  for (const id of SET_IDS) {
    const name = setName(family, id);
    const read = names.has(name) ? await kernel.readSet(name) : undefined;
    if (read === undefined) continue;
    sets.set(id, { name, type: read.type as SetType, family, maxelem: read.maxelem ?? 0 });
    for (const entry of read.entries) entries.set(entryKey(id, entry), { set: id, entry, owner: undefined });
    await breath();
  }
  return { sets, entries };
}

/** kube-proxy's sets that name each of its servers but those of node ports. */
const OF_SERVERS: readonly SetId[] = [
  'KUBE-CLUSTER-IP',
  'KUBE-EXTERNAL-IP',
  'KUBE-EXTERNAL-IP-LOCAL',
  'KUBE-LOAD-BALANCER',
];

interface Traces {
  readonly ours: ReadonlySet<Address>;
  readonly host: HostAddresses;
  readonly entries: ReadonlyMap<string, OwnedEntry>;
}

/** A process that ended while it tried a scheduler left it. */
const TRIAL = serverKey(TRIAL_SERVER);

/**
 * Decides which virtual servers are ours: those that a Service wants, that tried a scheduler, that have our label, or whose address is on our
 * device.
 * kube-proxy has no label: its servers whose address is not on the device, because the node has it already or somebody removed it, are
 * recognised by its sets, which name a frontend that no Service has any more. Another server without a label in an excluded range is never
 * ours.
 */
function ownership(state: ServersState, { ours, host, entries }: Traces): (server: Server) => boolean {
  const { excludeCidrs } = state.settings;
  const isStale = (set: SetId, entry: string) => {
    const key = entryKey(set, entry);
    return entries.has(key) && !state.entries.desired.has(key);
  };
  const isNodePort = (server: Server) =>
    server.protocol === 'SCTP'
      ? isStale('KUBE-NODE-PORT-SCTP-HASH', serverEntry(server))
      : isStale(`KUBE-NODE-PORT-${server.protocol}`, String(server.port));
  const isNamed = (server: Server) => OF_SERVERS.some((set) => isStale(set, serverEntry(server)));
  return (server) => {
    if (state.servers.desired.has(serverKey(server)) || serverKey(server) === TRIAL) return true;
    if (entries.has(entryKey('KUBE-IPVS-SERVERS', serverEntry(server)))) return true;
    if (excludeCidrs.some((range) => cidrContains(range, server.address))) return false;
    return ours.has(server.address) || isNamed(server) || (host.all.has(server.address) && isNodePort(server));
  };
}
