/**
 * IPVS of a simulated machine: kube-ipvs0 with its addresses, sets, virtual servers and their connections, which end by time. It
 * survives the processes. The agent's own client speaks to it, at the bytes of netlink.
 */
import { EINVAL, EPROTONOSUPPORT } from '../../../../native/errno.ts';
import { NETLINK_GENERIC } from '../../../../native/generic.ts';
import { SystemError } from '../../../../native/libc.ts';
import { NETLINK_NETFILTER } from '../../../../native/nfnetlink.ts';
import { NETLINK_ROUTE } from '../../../../native/rtnetlink.ts';
import type { OpenIpvs } from '../../../../src/agent/platform.ts';
import type { Address, Family } from '../../../../src/base/address.ts';
import type { CommandResult, CommandRunner } from '../../../../src/kernel/commands.ts';
import type {
  Destination,
  IpvsFailure,
  KernelError,
  KernelWrite,
  ServerId,
} from '../../../../src/kernel/ipvs-kernel.ts';
import { openIpvsKernel } from '../../../../src/kernel/ipvs-open.ts';
import type { ServersView } from '../../../../src/proxy/modes/view.ts';
import { IpvsState } from '../../../helpers/kernel/ipvs-state.ts';
import type { SimProcess } from '../../engine/process.ts';
import type { SimTime } from '../../engine/time.ts';
import { Refused } from '../netlink/format.ts';
import { RequestPart } from '../netlink/request-part.ts';
import { transportTo } from '../netlink/transports.ts';
import { RouteAnswers } from './route.ts';
import { ServerAnswers } from './servers.ts';
import { SetAnswers } from './sets.ts';

export interface IpvsOptions {
  readonly time: SimTime;
  readonly onCommit: (write: KernelWrite) => void;
  readonly isSetUsed: (name: string) => boolean;
  /** The addresses of the other devices. */
  readonly others: (family: Family) => readonly Address[];
}

/**
 * Carries a write out; the program is told nothing but the outcome. Throws Refused with the number that the kernel has for such a failure
 * of that request.
 */
export type CarryOut = (write: KernelWrite, errnos: Readonly<Partial<Record<IpvsFailure, number>>>) => readonly [];

/** Those whose modules this kernel has. */
const SCHEDULERS: ReadonlySet<string> = new Set(['rr', 'wrr', 'lc', 'wlc', 'sh', 'mh']);

export class SimIpvs {
  readonly state: IpvsState;
  /** Called after each write that was carried out. */
  onWrite: (write: KernelWrite) => void = () => undefined;
  readonly #options: IpvsOptions;
  readonly #parts: ReadonlyMap<number, RequestPart>;
  #view: ServersView | undefined;

  constructor(options: IpvsOptions) {
    this.#options = options;
    this.state = new IpvsState(options.isSetUsed, SCHEDULERS);
    const carryOut: CarryOut = (write, errnos) => {
      const error = this.write(write);
      if (error !== undefined) throw new Refused(errnos[error.failure] ?? EINVAL);
      return [];
    };
    this.#parts = new Map([
      [NETLINK_ROUTE, new RequestPart('rtnetlink', new RouteAnswers(this, carryOut, options.others))],
      [NETLINK_GENERIC, new RequestPart('IPVS', new ServerAnswers(this, carryOut))],
      [NETLINK_NETFILTER, new RequestPart('ipset', new SetAnswers(this, carryOut))],
    ]);
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

  /** The agent's client in a process. Rejects with IpvsUnusable; with the signal's reason where that ends a slow modprobe. */
  open(process: SimProcess, signal: AbortSignal): Promise<OpenIpvs> {
    const openTransport = (protocol: number) => {
      const part = this.#parts.get(protocol);
      if (part === undefined) throw new SystemError('socket', EPROTONOSUPPORT);
      return transportTo(part, process);
    };
    return openIpvsKernel(modprobe(process), signal, { openTransport, connections: noConnections });
  }
}

/** The kernel has its modules: modprobe loads nothing. */
function modprobe(process: SimProcess): CommandRunner {
  const result: CommandResult = { exitCode: 0, stdout: '', stderr: '' };
  return {
    run: ({ file, args }, signal) =>
      process.call(
        {
          what: [file, ...args].join(' '),
          effect: () => result,
          fail: () => ({ ...result, exitCode: undefined }),
          mayOutlive: true,
        },
        signal,
      ),
  };
}

/** No history asks about clients that IPVS remembers. */
async function* noConnections(): AsyncGenerator<string> {
  // The file is empty.
}
