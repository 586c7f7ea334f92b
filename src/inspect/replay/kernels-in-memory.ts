/** Kernels in memory: rules of iptables, tables of nftables, virtual servers of IPVS. Every write succeeds, because a recording has what the kernel refused. */
import { type Address, endpointText, FAMILIES, type Family, familyOf } from '../../base/address.ts';
import type { Command, CommandResult, CommandRunner } from '../../kernel/commands.ts';
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
import type { Sysctls } from '../../kernel/sysctls.ts';
import type { RecordedParts } from '../history/shapes.ts';

/** The kernels that a replay writes to. */
export interface ReplayKernels {
  readonly commands: CommandRunner;
  readonly nft: NftKernel;
  readonly ipvs: IpvsKernel;
  readonly sysctls: Sysctls;
}

/** Kernels that keep every write. */
export function kernelsInMemory({ interfaces }: Pick<RecordedParts, 'interfaces'>): ReplayKernels {
  const values = new Map<string, string>();
  return {
    commands: rulesKernel(),
    nft: tableKernel(),
    ipvs: serversKernel(interfaces),
    sysctls: {
      read: (name) => Promise.resolve(values.get(name) ?? '0'),
      write(name, value) {
        values.set(name, value);
        return Promise.resolve();
      },
    },
  };
}

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
    ruleCounts: () => Promise.resolve(new Map()),
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

interface ReplayedServers {
  hasDevice: boolean;
  timeouts: Timeouts;
  readonly addresses: Set<Address>;
  readonly sets: Map<string, { readonly spec: IpsetSpec; readonly entries: Set<string> }>;
  readonly servers: Map<string, { server: Server; readonly destinations: Map<string, Destination> }>;
}

/** IPVS, where no destination has connections. `others`: addresses of the node's other devices. */
function serversKernel(others: readonly Address[]): IpvsKernel {
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

type SavedChains = Map<string, string[]>;

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
};

/** The rules of iptables in memory, behind the seam to commands. */
function rulesKernel(): CommandRunner {
  const tables = new Map(FAMILIES.map((family) => [family, emptyTables()]));
  return {
    run: (command) => Promise.resolve(runCommand(tables, command)),
  };
}

function emptyTables(): Map<string, SavedChains> {
  const tables = Object.entries(BUILT_IN);
  return new Map(tables.map(([table, chains]) => [table, new Map(chains.map((chain) => [chain, []]))]));
}

function runCommand(
  families: ReadonlyMap<Family, Map<string, SavedChains>>,
  { file, args, input }: Command,
): CommandResult {
  const tables = families.get(file.startsWith('ip6') ? 'IPv6' : 'IPv4') ?? new Map<string, SavedChains>();
  if (file.endsWith('-save')) return done(saved(tables));
  if (file.endsWith('-restore')) {
    restore(tables, input?.() ?? []);
    return done('');
  }
  const chain = args[args.indexOf('-S') + 1] ?? '';
  const exists = tables.get(args[args.indexOf('-t') + 1] ?? '')?.has(chain) === true;
  return exists ? done('') : { exitCode: 1, stdout: '', stderr: 'No chain/target/match by that name.' };
}

function done(stdout: string): CommandResult {
  return { exitCode: 0, stdout, stderr: '' };
}

function saved(tables: ReadonlyMap<string, SavedChains>): string {
  const lines: string[] = [];
  for (const [table, chains] of tables) {
    lines.push(`*${table}`);
    for (const name of chains.keys())
      lines.push(`:${name} ${BUILT_IN[table]?.includes(name) === true ? 'ACCEPT' : '-'} [0:0]`);
    for (const [name, rules] of chains) for (const rule of rules) lines.push(`-A ${name} ${rule}`);
    lines.push('COMMIT');
  }
  return `${lines.join('\n')}\n`;
}

/** Lines of iptables-restore, as `proxy/modes/netfilter/restore-text.ts` writes them. */
function restore(tables: ReadonlyMap<string, SavedChains>, lines: Iterable<string>): void {
  let chains: SavedChains = new Map();
  for (const line of lines) {
    if (line.startsWith('*')) chains = tables.get(line.slice(1)) ?? new Map();
    else if (line.startsWith(':')) chains.set(line.slice(1, line.indexOf(' ')), []);
    else edit(chains, line);
  }
}

function edit(chains: SavedChains, line: string): void {
  const [verb, name = '', ...rest] = line.split(' ');
  const rules = chains.get(name) ?? [];
  if (verb === '-A') rules.push(rest.join(' '));
  else if (verb === '-I') rules.unshift(rest.slice(1).join(' '));
  else if (verb === '-D' && rules.includes(rest.join(' '))) rules.splice(rules.indexOf(rest.join(' ')), 1);
  else if (verb === '-X') chains.delete(name);
}
