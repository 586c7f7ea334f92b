/**
 * The state of IPVS in the kernel. It refuses the same writes as the real one: existing and missing objects, an address without the
 * device, removal of a set that rules use, entries of a full set, a swap of sets that differ in type, a scheduler whose module is missing.
 */

import { type Address, endpointText } from '../../../src/base/address.ts';
import {
  type Destination,
  type IpsetSpec,
  KernelError,
  type KernelWrite,
  type Server,
  type ServerId,
  type Timeouts,
} from '../../../src/kernel/ipvs-kernel.ts';
import type { ServersView } from '../../../src/proxy/modes/view.ts';
import { serverKey } from '../../../src/proxy/modes/virtual-servers/tracked-objects.ts';

export interface HeldDestination extends Destination {
  connections: number;
}

export interface HeldSet {
  readonly spec: IpsetSpec;
  readonly entries: Set<string>;
}

export interface HeldServer {
  server: Server;
  readonly destinations: Map<string, HeldDestination>;
}

type SetWrite = Extract<KernelWrite, { set: unknown }>;
type ServerWrite = Extract<KernelWrite, { server: unknown }>;
type DestinationWrite = Extract<KernelWrite, { destination: unknown }>;

/** The maxelem in the kernel's listing: a bitmap has none. */
export function headerOf({ type, maxelem }: IpsetSpec): number | undefined {
  return type === 'bitmap:port' ? undefined : maxelem;
}

export class IpvsState {
  hasDevice = false;
  readonly addresses = new Set<Address>();
  readonly sets = new Map<string, HeldSet>();
  readonly servers = new Map<string, HeldServer>();
  /** Seconds. */
  timeouts: Timeouts = { tcp: 900, tcpFin: 120, udp: 300 };
  /** Schedulers whose modules the kernel has; undefined: all. */
  readonly #schedulers: ReadonlySet<string> | undefined;
  readonly #isSetUsed: (name: string) => boolean;

  constructor(isSetUsed: (name: string) => boolean, schedulers?: ReadonlySet<string>) {
    this.#isSetUsed = isSetUsed;
    this.#schedulers = schedulers;
  }

  destination(server: ServerId, to: Pick<Destination, 'address' | 'port'>): HeldDestination | undefined {
    return this.servers.get(serverKey(server))?.destinations.get(endpointText(to.address, to.port));
  }

  /** More connections of a destination, or fewer. Does nothing where there is no such destination. */
  countConnections(server: ServerId, to: Pick<Destination, 'address' | 'port'>, more: number): void {
    const found = this.destination(server, to);
    if (found === undefined) return;
    const connections = Math.max(0, found.connections + more);
    this.servers.get(serverKey(server))?.destinations.set(endpointText(to.address, to.port), { ...found, connections });
  }

  /** The whole state to compare, as ipvsadm, ip and ipset print it. */
  dump(): string[] {
    const lines = [...this.addresses].map((address) => `address ${address}`);
    for (const [name, { entries }] of this.sets) for (const entry of entries) lines.push(`set ${name} ${entry}`);
    for (const [key, { server, destinations }] of this.servers) {
      lines.push(`server ${key} ${server.scheduler} ${server.flags} ${server.timeout}`);
      for (const [at, { weight }] of destinations) lines.push(`server ${key} -> ${at} ${weight}`);
    }
    return lines.sort();
  }

  /** As it is now; later writes do not change the result. */
  snapshot(): ServersView {
    const servers = new Map(
      [...this.servers].map(([key, { server, destinations }]) => [
        key,
        { server, destinations: [...destinations.values()], owner: undefined },
      ]),
    );
    const sets = new Map([...this.sets].map(([name, { entries }]) => [name, new Set(entries)]));
    const addresses = new Set(this.addresses);
    return {
      server: (id) => servers.get(serverKey(id)),
      hasEntry: (name, entry) => sets.get(name)?.has(entry) === true,
      hasAddress: (address) => addresses.has(address),
    };
  }

  /** Returns the kernel's refusal. */
  write(write: KernelWrite): KernelError | undefined {
    switch (write.kind) {
      case 'add-device':
        if (this.hasDevice) return EXISTS;
        this.hasDevice = true;
        return undefined;
      case 'remove-device':
        if (!this.hasDevice) return MISSING;
        this.hasDevice = false;
        this.addresses.clear();
        return undefined;
      case 'add-address':
        if (!this.hasDevice) return MISSING;
        this.addresses.add(write.address);
        return undefined;
      case 'remove-address':
        return this.addresses.delete(write.address) ? undefined : MISSING;
      case 'add-set':
      case 'remove-set':
      case 'swap-set':
      case 'add-entry':
      case 'remove-entry':
        return this.#writeSet(write);
      default:
        return 'destination' in write ? this.#writeDestination(write) : this.#writeServer(write);
    }
  }

  /** `ipset create -exist`: a set of this name stays when it is the same (ip_set_core.c, ip_set_create). Returns the kernel's refusal. */
  createIfMissing(spec: IpsetSpec): KernelError | undefined {
    const found = this.sets.get(spec.name)?.spec;
    if (found === undefined) return this.write({ kind: 'add-set', set: spec });
    return found.type === spec.type && headerOf(found) === headerOf(spec) ? undefined : EXISTS;
  }

  #writeSet(write: SetWrite): KernelError | undefined {
    if (write.kind === 'add-set') {
      if (this.sets.has(write.set.name)) return EXISTS;
      this.sets.set(write.set.name, { spec: write.set, entries: new Set() });
      return undefined;
    }
    const set = this.sets.get(write.set);
    if (set === undefined) return MISSING;
    if (write.kind === 'remove-set') {
      if (this.#isSetUsed(write.set)) return new KernelError('environment', 'a rule refers to the set');
      this.sets.delete(write.set);
      return undefined;
    }
    if (write.kind === 'swap-set') return this.#swap(write.set, set, write.with);
    const { spec, entries } = set;
    if (write.kind === 'remove-entry') return entries.delete(write.entry) ? undefined : MISSING;
    const isFull = spec.type !== 'bitmap:port' && entries.size >= spec.maxelem && !entries.has(write.entry);
    if (isFull) return new KernelError('refused', 'the set is full (its maxelem)');
    entries.add(write.entry);
    return undefined;
  }

  /** Rules hold a set by its place among all, and the two sets change their places and names. */
  #swap(name: string, set: HeldSet, other: string): KernelError | undefined {
    const found = this.sets.get(other);
    if (found === undefined) return MISSING;
    const [a, b] = [set.spec, found.spec];
    if (a.type !== b.type || a.family !== b.family) return DIFFERENT_TYPES;
    this.sets.set(name, { ...found, spec: { ...b, name } }).set(other, { ...set, spec: { ...a, name: other } });
    return undefined;
  }

  #writeServer(write: Exclude<ServerWrite, DestinationWrite>): KernelError | undefined {
    const key = serverKey(write.server);
    const found = this.servers.get(key);
    if (write.kind === 'remove-server') return this.servers.delete(key) ? undefined : MISSING;
    if (this.#schedulers?.has(write.server.scheduler) === false) return NO_SCHEDULER;
    if (write.kind === 'add-server') {
      if (found !== undefined) return EXISTS;
      this.servers.set(key, { server: write.server, destinations: new Map() });
      return undefined;
    }
    if (found === undefined) return MISSING;
    found.server = write.server;
    return undefined;
  }

  #writeDestination({ kind, server, destination }: DestinationWrite): KernelError | undefined {
    const found = this.servers.get(serverKey(server));
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
const DIFFERENT_TYPES = new KernelError('refused', 'the sets to swap have different types');
const NO_SCHEDULER = new KernelError('refused', 'ENOENT: no such file or directory');
