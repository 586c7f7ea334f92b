/**
 * What IPVS mode asks of the kernel, beside rules: a dummy device with addresses, sets, virtual servers and their
 * destinations. One list of writes goes out, one list of outcomes comes back; in between it is netlink (`ipvs-netlink.ts`).
 */
import type { SetSpec } from '../../native/ipset.ts';
import type { Timeouts } from '../../native/ipvs.ts';
import type { Transport } from '../../native/netlink-socket.ts';
import type { Address, Family } from '../model/address.ts';
import { causeOf } from '../model/cause.ts';
import type { Protocol } from '../model/objects.ts';
import type { CommandRunner } from './commands.ts';

export type { SetSpec, SetType } from '../../native/ipset.ts';
export type { Timeouts } from '../../native/ipvs.ts';

/** What names a virtual server. */
export interface ServerId {
  readonly protocol: Protocol;
  readonly address: Address;
  readonly port: number;
}

export interface Server extends ServerId {
  readonly scheduler: string;
  /** IP_VS_SVC_F_…, without the kernel's own. */
  readonly flags: number;
  /** Seconds that a client is remembered; 0: it is not. */
  readonly timeout: number;
}

export interface Destination {
  readonly address: Address;
  readonly port: number;
  readonly weight: number;
}

export interface SeenDestination extends Destination {
  /** Of both kinds, those that end included. */
  readonly connections: number;
  /** It is reached by translation, as all of ours are. */
  readonly isMasqueraded: boolean;
}

export interface SeenSet {
  readonly type: string;
  /** As `ipset list` prints them: `10.96.0.10,tcp:80`. */
  readonly entries: readonly string[];
}

/** One thing to write. Entries are text as `ipset` prints it. */
export type KernelWrite =
  | { readonly kind: 'add-device' | 'remove-device' }
  | { readonly kind: 'add-address' | 'remove-address'; readonly address: Address }
  | { readonly kind: 'add-set'; readonly set: SetSpec }
  | { readonly kind: 'remove-set'; readonly set: string }
  | { readonly kind: 'add-entry' | 'remove-entry'; readonly set: string; readonly entry: string }
  | { readonly kind: 'add-server' | 'change-server'; readonly server: Server }
  | { readonly kind: 'remove-server'; readonly server: ServerId }
  | {
      readonly kind: 'add-destination' | 'change-destination' | 'remove-destination';
      readonly server: ServerId;
      readonly destination: Destination;
    };

/**
 * Why a write failed. `exists`: what was to be made is there. `missing`: what was to be changed or removed is not, or what
 * it would belong to. `refused`: the kernel does not take it as it is. `environment`: it could not be done now.
 */
export type Failure = 'exists' | 'missing' | 'refused' | 'environment';

export class KernelError extends Error {
  readonly code = 'KERNEL';
  readonly failure: Failure;

  constructor(failure: Failure, message: string) {
    super(message);
    this.failure = failure;
  }
}

/** The kernel cannot do what IPVS mode needs; the message says what to do. */
export class IpvsUnusable extends Error {
  readonly code = 'IPVS_UNUSABLE';
}

export interface IpvsKernel {
  /** Write in this order; returns what became of each, undefined for success. Only an abort throws. */
  write(writes: readonly KernelWrite[], signal: AbortSignal): Promise<(KernelError | undefined)[]>;
  hasDevice(): Promise<boolean>;
  /** Addresses on our device, and those of all other devices but loopback and link-local ones. */
  addresses(family: Family): Promise<{ readonly ours: readonly Address[]; readonly others: readonly Address[] }>;
  servers(): Promise<readonly Server[]>;
  destinations(server: ServerId): Promise<readonly SeenDestination[]>;
  setNames(): Promise<readonly string[]>;
  /** undefined when there is no such set. */
  readSet(name: string): Promise<SeenSet | undefined>;
  /** Seconds. */
  timeouts(): Promise<Timeouts>;
  setTimeouts(timeouts: Timeouts): Promise<void>;
}

/** A server that nobody uses: TEST-NET-2 (RFC 5737), as kube-proxy tries a scheduler (pkg/proxy/ipvs). */
const TRIAL: ServerId = { protocol: 'TCP', address: '198.51.100.0' as Address, port: 20_000 };

/**
 * Open it. Loads the module when the kernel does not do so itself. Throws IpvsUnusable when the kernel has no IPVS, no
 * sets, or not enough rights are had. `openTransport`: sockets of another network namespace.
 */
export async function openIpvsKernel(
  commands: CommandRunner,
  signal: AbortSignal,
  openTransport?: (protocol: number) => Transport,
): Promise<IpvsKernel & { close(): void }> {
  const { NetlinkKernel } = await import('./ipvs-netlink.ts');
  const open = () => NetlinkKernel.open(openTransport);
  try {
    return open();
  } catch {
    const loading = await commands.run({ file: 'modprobe', args: ['ip_vs'] }, signal).catch((error: Error) => error);
    try {
      return open();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const said = (loading instanceof Error ? loading.message : loading.stderr).trim().replaceAll('\n', '; ');
      const hint = said === '' ? '' : `; modprobe ip_vs: ${said}`;
      throw new IpvsUnusable(
        `the kernel has no IPVS that can be used: ${causeOf(error)}${hint}; --mode=iptables does without it`,
      );
    }
  }
}

/** Try a scheduler, with a server that nobody uses. Throws IpvsUnusable when the kernel has none of this name. */
export async function checkScheduler(kernel: IpvsKernel, scheduler: string, signal: AbortSignal): Promise<void> {
  if ((await kernel.servers()).some((server) => server.scheduler === scheduler)) return;
  const server: Server = { ...TRIAL, scheduler, flags: 0, timeout: 0 };
  const [error] = await kernel.write([{ kind: 'add-server', server }], signal);
  if (error !== undefined && error.failure !== 'exists') {
    throw new IpvsUnusable(
      `--ipvs-scheduler=${scheduler}: the kernel does not take it: ${error.message} (module ip_vs_${scheduler})`,
    );
  }
  if (error === undefined) await kernel.write([{ kind: 'remove-server', server }], signal);
}
