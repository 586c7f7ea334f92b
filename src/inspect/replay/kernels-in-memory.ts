/** The tables of nftables in memory. Every transaction succeeds: a recording says what the kernel refused. */
import { type Address, endpointText, type Family, familyOf } from '../../base/address.ts';
import type {
  Destination,
  IpsetSpec,
  IpvsKernel,
  KernelWrite,
  Server,
  ServerId,
  Timeouts,
} from '../../kernel/ipvs-kernel.ts';
import type { Hook, NftElement, NftKernel, NftRule, NftWrite } from '../../kernel/nftables-kernel.ts';

interface ReplayedChain {
  readonly hook?: Hook;
  readonly rules: readonly NftRule[];
}

interface ReplayedTable {
  readonly chains: Map<string, ReplayedChain>;
  /** Elements of sets by key and end. */
  readonly sets: Map<string, Map<string, NftElement>>;
}

export function tableKernel(): NftKernel {
  const tables = new Map<Family, ReplayedTable>();
  return {
    read: (family) => Promise.resolve(stateOf(tables.get(family))),
    inspect: (family) => Promise.resolve(stateOf(tables.get(family))),
    // A resync reads the table, as the recorded agent did.
    isUnchanged: () => false,
    counts: () => Promise.resolve(new Map()),
    // No packet passes, so nothing remembers a client.
    expirations: () => Promise.resolve(new Map()),
    lastWriter: () => undefined,
    commit(family, writes) {
      for (const write of writes) writeTable(tables, family, write);
      return Promise.resolve([]);
    },
    presence: (family) => Promise.resolve(tables.has(family) ? 'yes' : 'no'),
  };
}

function stateOf(table: ReplayedTable | undefined): Awaited<ReturnType<NftKernel['read']>> {
  if (table === undefined) return undefined;
  const sets = [...table.sets].map(([name, elements]) => [name, [...elements.values()]] as const);
  return { chains: new Map(table.chains), sets: new Map(sets) };
}

function writeTable(tables: Map<Family, ReplayedTable>, family: Family, write: NftWrite): void {
  const table = tables.get(family) ?? { chains: new Map(), sets: new Map() };
  const { chains, sets } = table;
  const chainOf = (name: string): ReplayedChain => chains.get(name) ?? { rules: [] };
  tables.set(family, table);
  switch (write.kind) {
    case 'add-table':
      break;
    case 'delete-table':
      tables.delete(family);
      break;
    case 'add-chain':
      chains.set(write.chain, { ...chainOf(write.chain), ...(write.hook === undefined ? {} : { hook: write.hook }) });
      break;
    case 'flush-chain':
      chains.set(write.chain, { ...chainOf(write.chain), rules: [] });
      break;
    case 'delete-chain':
      chains.delete(write.chain);
      break;
    case 'add-rule':
      chains.set(write.chain, { ...chainOf(write.chain), rules: [...chainOf(write.chain).rules, write.rule] });
      break;
    case 'add-set':
      sets.set(write.set.name, sets.get(write.set.name) ?? new Map());
      break;
    case 'delete-set':
      sets.delete(write.set);
      break;
    default:
      writeElements(sets.get(write.set.name), write);
  }
}

type ElementsWrite = Extract<NftWrite, { readonly elements: unknown }>;

function writeElements(found: Map<string, NftElement> | undefined, { kind, elements }: ElementsWrite): void {
  for (const element of elements) {
    if (kind === 'add-elements') found?.set(element.key + element.end, element);
    else found?.delete(element.key + element.end);
  }
}

// IPVS in memory: every write succeeds, and no destination has connections.

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
      for (const write of writes) writeServers(state, write);
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

function writeServers(state: ReplayedServers, write: KernelWrite): void {
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
