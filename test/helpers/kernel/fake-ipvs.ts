/**
 * IPVS in memory, behind the seam to the kernel.
 */

import { type Address, type Family, familyOf } from '../../../src/base/address.ts';
import {
  type IpvsKernel,
  type IpvsQuestions,
  KernelError,
  type KernelWrite,
  type SeenDestination,
  type SeenSet,
  type Server,
  type ServerCounts,
  type ServerId,
  type Template,
  type Timeouts,
} from '../../../src/kernel/ipvs-kernel.ts';
import { serverKey } from '../../../src/proxy/modes/virtual-servers/tracked-objects.ts';
import { headerOf, IpvsState } from './ipvs-state.ts';

export interface FakeIpvsOptions {
  /** Called before a write. Its result is the outcome, and the write is not carried out. */
  readonly intercept?: (write: KernelWrite) => KernelError | undefined;
  /** Called before a read; it may throw. */
  readonly onRead?: (what: string) => void;
  readonly isSetUsed?: (name: string) => boolean;
}

export class FakeIpvs implements IpvsKernel {
  options: FakeIpvsOptions;
  /** Questions that are being asked, over sockets of their own. */
  asking = 0;
  readonly questions: IpvsQuestions = {
    ask: async (question) => {
      this.asking += 1;
      try {
        return await question(this);
      } finally {
        this.asking -= 1;
      }
    },
  };
  readonly state: IpvsState;
  /** Addresses of the node's other devices. */
  readonly others = new Set<Address>();
  configured: Timeouts = { tcp: 900, tcpFin: 120, udp: 300 };
  /** What it remembers of every client. */
  remembers: readonly Template[] = [];
  /** What it has counted. */
  counted: readonly ServerCounts[] = [];
  /** All writes that succeeded. */
  readonly written: KernelWrite[] = [];
  /** Number of calls of `write`. */
  sends = 0;

  constructor(options: FakeIpvsOptions = {}) {
    this.options = options;
    this.state = new IpvsState((name) => this.options.isSetUsed?.(name) === true);
  }

  get device(): boolean {
    return this.state.hasDevice;
  }

  set device(isThere: boolean) {
    this.state.hasDevice = isThere;
  }

  get ours(): IpvsState['addresses'] {
    return this.state.addresses;
  }

  get sets(): IpvsState['sets'] {
    return this.state.sets;
  }

  get virtual(): IpvsState['servers'] {
    return this.state.servers;
  }

  async write(writes: readonly KernelWrite[]): Promise<(KernelError | undefined)[]> {
    if (writes.length > 0) this.sends += 1;
    return Promise.resolve(
      writes.map((write) => {
        const error = this.options.intercept?.(write) ?? this.state.write(write);
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

  counts(): Promise<readonly ServerCounts[]> {
    this.options.onRead?.('counts');
    return Promise.resolve(this.counted);
  }

  async destinations(server: ServerId): Promise<SeenDestination[]> {
    this.options.onRead?.('destinations');
    const found = this.virtual.get(serverKey(server));
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
    return Promise.resolve(set && { type: set.spec.type, maxelem: headerOf(set.spec), entries: [...set.entries] });
  }

  templates(): Promise<readonly Template[]> {
    this.options.onRead?.('templates');
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
    const found = this.state.destination(server, destination);
    if (found === undefined) throw new Error('no such destination');
    found.connections = connections;
  }

  dump(): string[] {
    return this.state.dump();
  }
}
