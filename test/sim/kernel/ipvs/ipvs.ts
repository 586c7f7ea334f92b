/**
 * IPVS of a simulated machine: kube-ipvs0 with its addresses, sets, virtual servers and their connections, which end by time. It
 * survives the processes. Its calls are those of the real one: writes to one socket go in one send.
 */
import { MAX_REQUESTS } from '../../../../native/netlink-socket.ts';
import type { OpenIpvs } from '../../../../src/agent/platform.ts';
import { type Address, type Family, familyOf } from '../../../../src/base/address.ts';
import {
  type Destination,
  IpvsUnusable,
  KernelError,
  type KernelWrite,
  type SeenDestination,
  type SeenSet,
  type ServerId,
  type Template,
  type Timeouts,
} from '../../../../src/kernel/ipvs-kernel.ts';
import type { ServersView } from '../../../../src/proxy/modes/view.ts';
import { serverKey } from '../../../../src/proxy/modes/virtual-servers/tracked-objects.ts';
import { headerOf, IpvsState } from '../../../helpers/kernel/ipvs-state.ts';
import type { LaterCall, SimProcess } from '../../engine/process.ts';
import type { SimTime } from '../../engine/time.ts';
import { openFailure, socketFailure } from '../failures.ts';

export interface IpvsOptions {
  readonly time: SimTime;
  readonly onCommit: (write: KernelWrite) => void;
  readonly isSetUsed: (name: string) => boolean;
  /** The addresses of the other devices. */
  readonly others: (family: Family) => readonly Address[];
}

/** Those whose modules this kernel has. */
const SCHEDULERS: ReadonlySet<string> = new Set(['rr', 'wrr', 'lc', 'wlc', 'sh', 'mh']);

export class SimIpvs {
  readonly state: IpvsState;
  /** The kernel lacks the modules. */
  isMissing = false;
  /** What it remembers of clients. */
  templates: readonly Template[] = [];
  /** Called after each write that was carried out. */
  onWrite: (write: KernelWrite) => void = () => undefined;
  readonly #options: IpvsOptions;
  #view: ServersView | undefined;

  constructor(options: IpvsOptions) {
    this.#options = options;
    this.state = new IpvsState(options.isSetUsed, SCHEDULERS);
  }

  /** The same object until something changes. */
  view(): ServersView {
    this.#view ??= this.state.snapshot();
    return this.#view;
  }

  /** Sets and schedulers of others: this machine has none beside ours. */
  othersAsText(): string {
    const ofOthers = [...this.state.sets].filter(([name]) => !name.startsWith('KUBE-'));
    return ofOthers.map(([name, { entries }]) => `set ${name} ${[...entries].join(' ')}`).join('\n');
  }

  /** Opens a connection of a destination that ends after so many milliseconds. */
  connect(server: ServerId, to: Pick<Destination, 'address' | 'port'>, milliseconds: number): void {
    if (this.state.destination(server, to) === undefined) return;
    this.state.countConnections(server, to, 1);
    const end = () => this.state.countConnections(server, to, -1);
    this.#options.time.after(milliseconds, end, { isDead: false });
  }

  /** Any program writes. Returns the kernel's refusal. */
  write(write: KernelWrite): KernelError | undefined {
    const error = this.state.write(write);
    if (error !== undefined) return error;
    this.#view = undefined;
    this.onWrite(write);
    this.#options.onCommit(write);
    return undefined;
  }

  /** Rejects with IpvsUnusable; with the signal's reason where that ends a slow modprobe. */
  open(process: SimProcess, signal: AbortSignal): Promise<OpenIpvs> {
    const call: LaterCall<OpenIpvs> = {
      what: 'open IPVS',
      effect: () => {
        if (this.isMissing) throw new IpvsUnusable('IPVS cannot be used in this kernel: load the module ip_vs');
        return new OpenedIpvs(process, this, this.#options.others);
      },
      loadsFirst: true,
      undo: (opened) => opened.close(),
      fail: (variant) => {
        throw new IpvsUnusable(`IPVS cannot be used in this kernel: ${openFailure(variant).message}`);
      },
    };
    return process.call(call, signal);
  }
}

class OpenedIpvs implements OpenIpvs {
  readonly #process: SimProcess;
  readonly #ipvs: SimIpvs;
  readonly #others: IpvsOptions['others'];
  readonly #forget: () => void;

  constructor(process: SimProcess, ipvs: SimIpvs, others: IpvsOptions['others']) {
    this.#process = process;
    this.#ipvs = ipvs;
    this.#others = others;
    this.#forget = process.opened('sockets of IPVS', () => undefined);
  }

  close(): void {
    this.#forget();
  }

  async write(writes: readonly KernelWrite[], signal: AbortSignal): Promise<(KernelError | undefined)[]> {
    const outcomes: (KernelError | undefined)[] = [];
    for (const part of portions(writes)) {
      signal.throwIfAborted();
      const written = await this.#process.call<(KernelError | undefined)[]>({
        what: `IPVS: ${part.length} × ${part[0]?.kind ?? 'nothing'}`,
        effect: () => part.map((write) => this.#ipvs.write(write)),
        // As NetlinkKernel: when the socket fails, the outcome of these writes is unknown.
        fail: (variant) => part.map(() => new KernelError('environment', socketFailure(variant).message)),
        cut: async (answer, variant) => refusedOne(await answer, variant),
      });
      outcomes.push(...written);
    }
    return outcomes;
  }

  hasDevice(): Promise<boolean> {
    return this.#ask('device', (state) => state.hasDevice);
  }

  addresses(family: Family): Promise<{ readonly ours: readonly Address[]; readonly others: readonly Address[] }> {
    return this.#ask('addresses', ({ addresses }) => ({
      ours: [...addresses].filter((address) => familyOf(address) === family),
      others: this.#others(family),
    }));
  }

  servers(): ReturnType<OpenIpvs['servers']> {
    return this.#ask('servers', ({ servers }) => [...servers.values()].map(({ server }) => server));
  }

  counts(): ReturnType<OpenIpvs['counts']> {
    return this.#ask('counts', () => []);
  }

  destinations(server: ServerId): Promise<readonly SeenDestination[]> {
    return this.#ask(`destinations of ${serverKey(server)}`, ({ servers }) => {
      const found = servers.get(serverKey(server));
      if (found === undefined) throw new KernelError('missing', 'ESRCH: no such process');
      return [...found.destinations.values()].map((one) => ({ ...one, isMasqueraded: true }));
    });
  }

  setNames(): Promise<readonly string[]> {
    return this.#ask('names of sets', ({ sets }) => [...sets.keys()]);
  }

  readSet(name: string): Promise<SeenSet | undefined> {
    return this.#ask(`set ${name}`, ({ sets }) => {
      const set = sets.get(name);
      return set && { type: set.spec.type, maxelem: headerOf(set.spec), entries: [...set.entries] };
    });
  }

  templates(): Promise<readonly Template[]> {
    return this.#ask('templates', () => this.#ipvs.templates);
  }

  timeouts(): Promise<Timeouts> {
    return this.#ask('timeouts', ({ timeouts }) => timeouts);
  }

  setTimeouts({ tcp, tcpFin, udp }: Timeouts): Promise<void> {
    return this.#ask('set timeouts', (state) => {
      const now = state.timeouts;
      state.timeouts = { tcp: tcp || now.tcp, tcpFin: tcpFin || now.tcpFin, udp: udp || now.udp };
    });
  }

  #ask<T>(what: string, read: (state: IpvsState) => T): Promise<T> {
    return this.#process.call<T>({
      what: `IPVS: ${what}`,
      effect: () => read(this.#ipvs.state),
      fail: (variant) => {
        throw socketFailure(variant);
      },
    });
  }
}

/** The kernel had no memory for one of the writes. */
function refusedOne(answer: (KernelError | undefined)[], variant: number): (KernelError | undefined)[] {
  return answer.with(variant % answer.length, new KernelError('environment', 'ENOMEM: not enough memory'));
}

/** Writes that go in one send: of one socket, and at most so many. */
function* portions(writes: readonly KernelWrite[]): Generator<readonly KernelWrite[]> {
  for (let at = 0; at < writes.length; ) {
    const socket = socketOf(writes[at]);
    let end = at + 1;
    while (end < writes.length && end - at < MAX_REQUESTS && socketOf(writes[end]) === socket) end += 1;
    yield writes.slice(at, end);
    at = end;
  }
}

function socketOf(write: KernelWrite | undefined): string {
  const kind = write?.kind ?? '';
  if (kind.endsWith('-device') || kind.endsWith('-address')) return 'route';
  return kind.endsWith('-set') || kind.endsWith('-entry') ? 'sets' : 'generic';
}
