/**
 * IPVS in memory, behind the seam to the kernel. It refuses the same writes as the real one: existing and missing objects, an
 * address without the device, removal of a set that rules use, entries of a full set.
 */
import {
  type Destination,
  type IpvsKernel,
  KernelError,
  type KernelWrite,
  type SeenDestination,
  type SeenSet,
  type Server,
  type ServerId,
  type SetSpec,
  type Template,
  type Timeouts,
} from '../../src/host/ipvs-kernel.ts';
import { type Address, endpointText, type Family, familyOf } from '../../src/model/address.ts';

interface FakeServer {
  server: Server;
  readonly destinations: Map<string, Destination & { connections: number }>;
}

export interface FakeIpvsOptions {
  /** Called before a write. Its result is the outcome, and the write is not carried out. */
  readonly intercept?: (write: KernelWrite) => KernelError | undefined;
  /** Called before a read; it may throw. */
  readonly onRead?: (what: string) => void;
  readonly isSetUsed?: (name: string) => boolean;
}

export class FakeIpvs implements IpvsKernel {
  options: FakeIpvsOptions;
  device = false;
  /** Addresses of the node's other devices. */
  readonly others = new Set<Address>();
  readonly ours = new Set<Address>();
  readonly sets = new Map<string, { spec: SetSpec; entries: Set<string> }>();
  readonly virtual = new Map<string, FakeServer>();
  configured: Timeouts = { tcp: 900, tcpFin: 120, udp: 300 };
  /** What it remembers of every client. */
  remembers: readonly Template[] = [];
  /** All writes that succeeded. */
  readonly written: KernelWrite[] = [];
  /** Number of calls of `write`. */
  sends = 0;

  constructor(options: FakeIpvsOptions = {}) {
    this.options = options;
  }

  async write(writes: readonly KernelWrite[]): Promise<(KernelError | undefined)[]> {
    if (writes.length > 0) this.sends += 1;
    return Promise.resolve(
      writes.map((write) => {
        const error = this.options.intercept?.(write) ?? this.#carryOut(write);
        if (error === undefined) this.written.push(write);
        return error;
      }),
    );
  }

  async hasDevice(): Promise<boolean> {
    this.options.onRead?.('device');
    return Promise.resolve(this.device);
  }

  async addresses(family: Family): Promise<{ ours: Address[]; others: Address[] }> {
    this.options.onRead?.('addresses');
    const of = (all: Iterable<Address>) => [...all].filter((address) => familyOf(address) === family);
    return Promise.resolve({ ours: of(this.ours), others: of(this.others) });
  }

  async servers(): Promise<Server[]> {
    this.options.onRead?.('servers');
    return Promise.resolve([...this.virtual.values()].map(({ server }) => server));
  }

  async destinations(server: ServerId): Promise<SeenDestination[]> {
    this.options.onRead?.('destinations');
    const found = this.virtual.get(keyOf(server));
    if (found === undefined) return Promise.reject(new KernelError('missing', 'ESRCH: no such process'));
    return Promise.resolve([...found.destinations.values()].map((one) => ({ ...one, isMasqueraded: true })));
  }

  async setNames(): Promise<string[]> {
    this.options.onRead?.('sets');
    return Promise.resolve([...this.sets.keys()]);
  }

  async readSet(name: string): Promise<SeenSet | undefined> {
    this.options.onRead?.('set');
    const set = this.sets.get(name);
    return Promise.resolve(set === undefined ? undefined : { type: set.spec.type, entries: [...set.entries] });
  }

  templates(): Promise<readonly Template[]> {
    return Promise.resolve(this.remembers);
  }

  async timeouts(): Promise<Timeouts> {
    this.options.onRead?.('timeouts');
    return Promise.resolve(this.configured);
  }

  setTimeouts({ tcp, tcpFin, udp }: Timeouts): Promise<void> {
    const now = this.configured;
    this.configured = { tcp: tcp || now.tcp, tcpFin: tcpFin || now.tcpFin, udp: udp || now.udp };
    return Promise.resolve();
  }

  /** Sets the connections of a destination. */
  connect(server: ServerId, destination: { address: Address; port: number }, connections: number): void {
    const found = this.virtual
      .get(keyOf(server))
      ?.destinations.get(endpointText(destination.address, destination.port));
    if (found === undefined) throw new Error('no such destination');
    found.connections = connections;
  }

  /** The whole state to compare, as ipvsadm, ip and ipset print it. */
  dump(): string[] {
    const lines = [...this.ours].map((address) => `address ${address}`);
    for (const [name, { entries }] of this.sets) for (const entry of entries) lines.push(`set ${name} ${entry}`);
    for (const [key, { server, destinations }] of this.virtual) {
      lines.push(`server ${key} ${server.scheduler} ${server.flags} ${server.timeout}`);
      for (const [at, { weight }] of destinations) lines.push(`server ${key} -> ${at} ${weight}`);
    }
    return lines.sort();
  }

  #carryOut(write: KernelWrite): KernelError | undefined {
    switch (write.kind) {
      case 'add-device':
        if (this.device) return EXISTS;
        this.device = true;
        return undefined;
      case 'remove-device':
        if (!this.device) return MISSING;
        this.device = false;
        this.ours.clear();
        return undefined;
      case 'add-address':
        if (!this.device) return MISSING;
        this.ours.add(write.address);
        return undefined;
      case 'remove-address':
        return this.ours.delete(write.address) ? undefined : MISSING;
      case 'add-set':
      case 'remove-set':
      case 'add-entry':
      case 'remove-entry':
        return this.#writeSet(write);
      case 'add-server':
        if (this.virtual.has(keyOf(write.server))) return EXISTS;
        this.virtual.set(keyOf(write.server), { server: write.server, destinations: new Map() });
        return undefined;
      case 'change-server': {
        const found = this.virtual.get(keyOf(write.server));
        if (found === undefined) return MISSING;
        found.server = write.server;
        return undefined;
      }
      case 'remove-server':
        return this.virtual.delete(keyOf(write.server)) ? undefined : MISSING;
      default:
        return this.#writeDestination(write);
    }
  }

  #writeSet(write: Extract<KernelWrite, { set: unknown }>): KernelError | undefined {
    if (write.kind === 'add-set') {
      if (this.sets.has(write.set.name)) return EXISTS;
      this.sets.set(write.set.name, { spec: write.set, entries: new Set() });
      return undefined;
    }
    const set = this.sets.get(write.set);
    if (set === undefined) return MISSING;
    if (write.kind === 'remove-set') {
      if (this.options.isSetUsed?.(write.set) === true) return new KernelError('environment', 'the set is in use');
      this.sets.delete(write.set);
      return undefined;
    }
    if (write.kind === 'remove-entry') return set.entries.delete(write.entry) ? undefined : MISSING;
    const isFull =
      set.spec.type !== 'bitmap:port' && set.entries.size >= set.spec.most && !set.entries.has(write.entry);
    if (isFull) return new KernelError('refused', 'the set is full (its maxelem)');
    set.entries.add(write.entry);
    return undefined;
  }

  #writeDestination(write: Extract<KernelWrite, { destination: Destination }>): KernelError | undefined {
    const { kind, server, destination } = write;
    const found = this.virtual.get(keyOf(server));
    if (found === undefined) return MISSING;
    const key = endpointText(destination.address, destination.port);
    const existing = found.destinations.get(key);
    if (kind === 'add-destination') {
      if (existing !== undefined) return EXISTS;
      found.destinations.set(key, { ...destination, connections: 0 });
      return undefined;
    }
    if (existing === undefined) return MISSING;
    if (kind === 'remove-destination') found.destinations.delete(key);
    else found.destinations.set(key, { ...existing, weight: destination.weight });
    return undefined;
  }
}

const EXISTS = new KernelError('exists', 'EEXIST: file already exists');
const MISSING = new KernelError('missing', 'ENOENT: no such file or directory');

function keyOf({ protocol, address, port }: ServerId): string {
  return `${protocol} ${endpointText(address, port)}`;
}
