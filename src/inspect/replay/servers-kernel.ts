/** IPVS in memory: every write succeeds, and no destination has connections. */

import { type Address, endpointText, familyOf } from '../../base/address.ts';
import type {
  Destination,
  IpsetSpec,
  IpvsKernel,
  KernelWrite,
  Server,
  ServerId,
  Timeouts,
} from '../../kernel/ipvs-kernel.ts';

interface ReplayedServers {
  hasDevice: boolean;
  timeouts: Timeouts;
  readonly addresses: Set<Address>;
  readonly sets: Map<string, { readonly spec: IpsetSpec; readonly entries: Set<string> }>;
  readonly servers: Map<string, { server: Server; readonly destinations: Map<string, Destination> }>;
}

/** `others`: addresses of the node's other devices. */
export function serversKernel(others: readonly Address[]): IpvsKernel {
  const state: ReplayedServers = {
    hasDevice: false,
    timeouts: { tcp: 900, tcpFin: 120, udp: 300 },
    addresses: new Set(),
    sets: new Map(),
    servers: new Map(),
  };
  return {
    write(writes) {
      for (const write of writes) carryOut(state, write);
      return Promise.resolve(writes.map(() => undefined));
    },
    hasDevice: () => Promise.resolve(state.hasDevice),
    addresses(family) {
      const of = (all: Iterable<Address>) => [...all].filter((address) => familyOf(address) === family);
      return Promise.resolve({ ours: of(state.addresses), others: of(others) });
    },
    servers: () => Promise.resolve([...state.servers.values()].map(({ server }) => server)),
    counts: () => Promise.resolve([]),
    destinations(id) {
      const found = [...(state.servers.get(keyOf(id))?.destinations.values() ?? [])];
      return Promise.resolve(found.map((one) => ({ ...one, connections: 0, isMasqueraded: true })));
    },
    setNames: () => Promise.resolve([...state.sets.keys()]),
    readSet(name) {
      const set = state.sets.get(name);
      return Promise.resolve(set && { type: set.spec.type, maxelem: set.spec.maxelem, entries: [...set.entries] });
    },
    templates: () => Promise.resolve([]),
    timeouts: () => Promise.resolve(state.timeouts),
    setTimeouts({ tcp, tcpFin, udp }) {
      const now = state.timeouts;
      state.timeouts = { tcp: tcp || now.tcp, tcpFin: tcpFin || now.tcpFin, udp: udp || now.udp };
      return Promise.resolve();
    },
  };
}

function keyOf({ protocol, address, port }: ServerId): string {
  return `${protocol} ${endpointText(address, port)}`;
}

function carryOut(state: ReplayedServers, write: KernelWrite): void {
  const { addresses, sets, servers } = state;
  switch (write.kind) {
    case 'add-device':
    case 'remove-device':
      state.hasDevice = write.kind === 'add-device';
      addresses.clear();
      break;
    case 'add-address':
      addresses.add(write.address);
      break;
    case 'remove-address':
      addresses.delete(write.address);
      break;
    case 'add-set':
      sets.set(write.set.name, { spec: write.set, entries: new Set() });
      break;
    case 'remove-set':
      sets.delete(write.set);
      break;
    case 'swap-set':
      swap(sets, write.set, write.with);
      break;
    case 'add-entry':
      sets.get(write.set)?.entries.add(write.entry);
      break;
    case 'remove-entry':
      sets.get(write.set)?.entries.delete(write.entry);
      break;
    default:
      writeServer(servers, write);
  }
}

function swap(sets: ReplayedServers['sets'], a: string, b: string): void {
  const [first, second] = [sets.get(a), sets.get(b)];
  if (first === undefined || second === undefined) return;
  sets.set(a, second).set(b, first);
}

type ServerWrite = Extract<KernelWrite, { readonly server: unknown }>;

function writeServer(servers: ReplayedServers['servers'], write: ServerWrite): void {
  const found = servers.get(keyOf(write.server));
  switch (write.kind) {
    case 'add-server':
      servers.set(keyOf(write.server), { server: write.server, destinations: new Map() });
      break;
    case 'change-server':
      if (found !== undefined) found.server = write.server;
      break;
    case 'remove-server':
      servers.delete(keyOf(write.server));
      break;
    case 'remove-destination':
      found?.destinations.delete(endpointText(write.destination.address, write.destination.port));
      break;
    default:
      found?.destinations.set(endpointText(write.destination.address, write.destination.port), write.destination);
  }
}
