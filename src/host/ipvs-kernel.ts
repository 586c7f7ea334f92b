/**
 * What IPVS mode asks of the kernel, beside rules: a dummy device with addresses, sets, virtual servers and their
 * destinations. One list of writes goes out, one list of outcomes comes back; in between it is netlink (`native/`).
 */
import { setImmediate as breath } from 'node:timers/promises';
import type { EntryBytes, SetSpec } from '../../native/ipset.ts';
import type { ServerId as ServerBytes, Timeouts } from '../../native/ipvs.ts';
import type { NetlinkError, Request } from '../../native/netlink.ts';
import type { NetlinkSocket, Transport } from '../../native/netlink-socket.ts';
import { type Address, addressOctets, addressOfBytes, type Family } from '../model/address.ts';
import type { Protocol } from '../model/objects.ts';
import type { CommandRunner } from './commands.ts';
import { readAddresses, SERVICE_DEVICE, serviceDevice } from './devices.ts';
import { wholeListing } from './listing.ts';

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
export type Trouble = 'exists' | 'missing' | 'refused' | 'environment';

export class KernelError extends Error {
  readonly code = 'KERNEL';
  readonly trouble: Trouble;

  constructor(trouble: Trouble, message: string) {
    super(message);
    this.trouble = trouble;
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

/** A server that nobody uses: TEST-NET-2 (RFC 5737), as kube-proxy tries a scheduler (reference 6.1). */
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
  const native = await loadNative();
  const open = () => RealIpvsKernel.open(native, openTransport ?? native.sockets.openTransport);
  try {
    return open();
  } catch (first) {
    const loading = await commands.run({ file: 'modprobe', args: ['ip_vs'] }, signal).catch((error: Error) => error);
    try {
      return open();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const said = (loading instanceof Error ? loading.message : loading.stderr).trim().replaceAll('\n', '; ');
      const hint = said === '' ? '' : `; modprobe ip_vs: ${said}`;
      throw new IpvsUnusable(
        `the kernel has no IPVS that can be used: ${messageOf(error ?? first)}${hint}; --mode=iptables does without it`,
      );
    }
  }
}

/** Try a scheduler, with a server that nobody uses. Throws IpvsUnusable when the kernel has none of this name. */
export async function checkScheduler(kernel: IpvsKernel, scheduler: string, signal: AbortSignal): Promise<void> {
  if ((await kernel.servers()).some((server) => server.scheduler === scheduler)) return;
  const server: Server = { ...TRIAL, scheduler, flags: 0, timeout: 0 };
  const [error] = await kernel.write([{ kind: 'add-server', server }], signal);
  if (error !== undefined && error.trouble !== 'exists') {
    throw new IpvsUnusable(
      `--ipvs-scheduler=${scheduler}: the kernel does not take it: ${error.message} (module ip_vs_${scheduler})`,
    );
  }
  if (error === undefined) await kernel.write([{ kind: 'remove-server', server }], signal);
}

/** Loaded only when IPVS is asked for: iptables mode needs none of it. */
async function loadNative() {
  const [rtnetlink, generic, ipvs, ipset, conntrack, sockets, netlink, libc] = await Promise.all([
    import('../../native/rtnetlink.ts'),
    import('../../native/generic.ts'),
    import('../../native/ipvs.ts'),
    import('../../native/ipset.ts'),
    import('../../native/conntrack.ts'),
    import('../../native/netlink-socket.ts'),
    import('../../native/netlink.ts'),
    import('../../native/libc.ts'),
  ]);
  return { rtnetlink, generic, ipvs, ipset, conntrack, sockets, netlink, libc };
}
type Native = Awaited<ReturnType<typeof loadNative>>;

interface Sockets {
  readonly route: NetlinkSocket;
  readonly generic: NetlinkSocket;
  readonly sets: NetlinkSocket;
}

class RealIpvsKernel implements IpvsKernel {
  readonly #native: Native;
  readonly #sockets: Sockets;
  readonly #requests: InstanceType<Native['ipvs']['IpvsRequests']>;
  readonly #revisions = new Map<string, number>();

  private constructor(native: Native, sockets: Sockets) {
    this.#native = native;
    this.#sockets = sockets;
    const family = native.generic.resolveFamily(sockets.generic, native.ipvs.IPVS_GENL_NAME);
    this.#requests = new native.ipvs.IpvsRequests(family);
    native.ipset.typeRevision(sockets.sets, 'hash:ip,port', 'IPv4');
  }

  /** Throws when one of its parts cannot be used. */
  static open(native: Native, openTransport: (protocol: number) => Transport): RealIpvsKernel {
    const { NetlinkSocket } = native.sockets;
    const opened: NetlinkSocket[] = [];
    const open = (protocol: number) => {
      const socket = new NetlinkSocket(openTransport(protocol));
      opened.push(socket);
      return socket;
    };
    try {
      return new RealIpvsKernel(native, {
        route: open(native.rtnetlink.NETLINK_ROUTE),
        generic: open(native.generic.NETLINK_GENERIC),
        sets: open(native.conntrack.NETLINK_NETFILTER),
      });
    } catch (error) {
      for (const socket of opened) socket.close();
      throw error;
    }
  }

  close(): void {
    for (const socket of Object.values(this.#sockets)) (socket as NetlinkSocket).close();
  }

  async write(writes: readonly KernelWrite[], signal: AbortSignal): Promise<(KernelError | undefined)[]> {
    const outcomes: (KernelError | undefined)[] = [];
    const most = this.#native.sockets.MOST_REQUESTS;
    for (let at = 0; at < writes.length; ) {
      if (at > 0) await breath();
      signal.throwIfAborted();
      const socket = this.#socketOf(writes[at] as KernelWrite);
      let end = at + 1;
      while (end < writes.length && end - at < most && this.#socketOf(writes[end] as KernelWrite) === socket) end += 1;
      outcomes.push(...(await this.#send(socket, writes.slice(at, end))));
      at = end;
    }
    return outcomes;
  }

  async hasDevice(): Promise<boolean> {
    return (await serviceDevice(this.#sockets.route)) !== undefined;
  }

  async addresses(family: Family): Promise<{ readonly ours: readonly Address[]; readonly others: readonly Address[] }> {
    const { service, others } = await readAddresses(this.#sockets.route, family);
    return { ours: service, others };
  }

  async servers(): Promise<readonly Server[]> {
    const { virtualServers, IP_VS_SVC_F_HASHED, IP_VS_SVC_F_PERSISTENT } = this.#native.ipvs;
    const listed = await wholeListing(() => virtualServers(this.#sockets.generic, this.#requests));
    return listed.map(({ protocol, address, port, scheduler, flags, timeout }) => ({
      protocol,
      address: addressOfBytes(address),
      port,
      scheduler,
      flags: flags & ~IP_VS_SVC_F_HASHED,
      // The kernel keeps a time also where nobody is remembered.
      timeout: (flags & IP_VS_SVC_F_PERSISTENT) === 0 ? 0 : timeout,
    }));
  }

  async destinations(server: ServerId): Promise<readonly SeenDestination[]> {
    const { destinationsOf, IP_VS_CONN_F_MASQ } = this.#native.ipvs;
    const listed = await wholeListing(() => destinationsOf(this.#sockets.generic, this.#requests, serverBytes(server)));
    return listed.map((entry) => ({
      address: addressOfBytes(entry.address),
      port: entry.port,
      weight: entry.weight,
      connections: entry.activeConnections + entry.inactiveConnections,
      isMasqueraded: entry.method === IP_VS_CONN_F_MASQ,
    }));
  }

  async setNames(): Promise<readonly string[]> {
    return await wholeListing(() => this.#native.ipset.setNames(this.#sockets.sets));
  }

  async readSet(name: string): Promise<SeenSet | undefined> {
    try {
      const parts = await wholeListing(() => this.#native.ipset.setParts(this.#sockets.sets, name));
      const type = parts.find((part) => part.type !== undefined)?.type ?? '';
      return { type, entries: parts.flatMap((part) => part.entries.map((entry) => entryText(entry, type))) };
    } catch (error) {
      if (errnoOf(error) === ERRNO.ENOENT) return undefined;
      throw error;
    }
  }

  timeouts(): Promise<Timeouts> {
    const { generic } = this.#sockets;
    return Promise.resolve(generic.ask(this.#requests.getTimeouts(), this.#native.ipvs.decodeTimeouts));
  }

  setTimeouts(timeouts: Timeouts): Promise<void> {
    const [error] = this.#sockets.generic.acknowledge([this.#requests.setTimeouts(timeouts)]);
    return error === undefined ? Promise.resolve() : Promise.reject(error);
  }

  #socketOf({ kind }: KernelWrite): NetlinkSocket {
    if (kind.endsWith('-device') || kind.endsWith('-address')) return this.#sockets.route;
    return kind.endsWith('-set') || kind.endsWith('-entry') ? this.#sockets.sets : this.#sockets.generic;
  }

  async #send(socket: NetlinkSocket, writes: readonly KernelWrite[]): Promise<(KernelError | undefined)[]> {
    try {
      const needsDevice = writes.some(({ kind }) => kind === 'add-address' || kind === 'remove-address');
      const index = needsDevice ? await serviceDevice(socket) : undefined;
      const errors = socket.acknowledge(writes.map((write) => this.#request(write, index ?? -1)));
      return errors.map((error, at) => (error === undefined ? undefined : kernelError(error, writes[at])));
    } catch (error) {
      // Nothing is known of these writes: the kernel must be read again.
      return writes.map(() => new KernelError('environment', messageOf(error)));
    }
  }

  #request(write: KernelWrite, index: number): Request {
    const { rtnetlink, ipset } = this.#native;
    switch (write.kind) {
      case 'add-device':
        return rtnetlink.addDummyRequest(SERVICE_DEVICE);
      case 'remove-device':
        return rtnetlink.deleteLinkRequest(SERVICE_DEVICE);
      case 'add-address':
        return rtnetlink.addAddressRequest(index, addressOctets(write.address));
      case 'remove-address':
        return rtnetlink.deleteAddressRequest(index, addressOctets(write.address));
      case 'add-set':
        return ipset.createSetRequest(write.set, this.#revision(write.set));
      case 'remove-set':
        return ipset.destroySetRequest(write.set);
      case 'add-entry':
        return ipset.entryRequest('add', write.set, entryBytes(write.entry));
      case 'remove-entry':
        return ipset.entryRequest('delete', write.set, entryBytes(write.entry));
      case 'add-server':
      case 'change-server':
        return this.#requests.server(
          write.kind === 'add-server' ? 'new' : 'set',
          serverBytes(write.server),
          write.server,
        );
      case 'remove-server':
        return this.#requests.deleteServer(serverBytes(write.server));
      case 'remove-destination':
        return this.#requests.deleteDestination(serverBytes(write.server), destinationBytes(write.destination));
      default: {
        const verb = write.kind === 'add-destination' ? 'new' : 'set';
        const { server, destination } = write;
        return this.#requests.destination(verb, serverBytes(server), destinationBytes(destination), destination.weight);
      }
    }
  }

  #revision({ type, family }: SetSpec): number {
    const key = `${type} ${family}`;
    const known = this.#revisions.get(key) ?? this.#native.ipset.typeRevision(this.#sockets.sets, type, family);
    this.#revisions.set(key, known);
    return known;
  }
}

const ERRNO = { ENOENT: 2, ESRCH: 3, EEXIST: 17, ENODEV: 19, EADDRNOTAVAIL: 99 } as const;
/** EPERM, EINTR, EAGAIN, ENOMEM, EBUSY, ENOBUFS: not about what was written. */
const ENVIRONMENT = new Set([1, 4, 11, 12, 16, 105]);
/** Errors of sets (linux/netfilter/ipset/ip_set.h): the kernel's number, and what it means. */
const SET_ERRORS: Readonly<Record<number, { readonly trouble: Trouble; readonly text: string }>> = {
  4098: { trouble: 'refused', text: 'the kernel has no such type of set' },
  4100: { trouble: 'environment', text: 'the set is in use' },
  4103: { trouble: 'missing', text: 'the entry is not in the set' },
  4108: { trouble: 'environment', text: 'a rule refers to the set' },
  4352: { trouble: 'refused', text: 'the set is full (its maxelem)' },
};

function kernelError(error: NetlinkError, write: KernelWrite | undefined): KernelError {
  const known = SET_ERRORS[error.errno];
  if (known !== undefined) return new KernelError(known.trouble, known.text);
  const what = write?.kind ?? '';
  return new KernelError(troubleOf(error.errno, what), error.message);
}

function troubleOf(errno: number, what: string): Trouble {
  if (errno === ERRNO.EEXIST) return 'exists';
  // Of an address that is to be added it means that the kernel takes no such address.
  const isNoAddress = errno === ERRNO.EADDRNOTAVAIL && what !== 'add-address';
  const isMissing = errno === ERRNO.ESRCH || errno === ERRNO.ENODEV || isNoAddress;
  // A new server's ENOENT is about its scheduler (ip_vs_ctl.c, ip_vs_add_service).
  if (isMissing || (errno === ERRNO.ENOENT && what !== 'add-server')) return 'missing';
  return ENVIRONMENT.has(errno) ? 'environment' : 'refused';
}

function errnoOf(error: unknown): number | undefined {
  return (error as { errno?: number }).errno;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function serverBytes({ protocol, address, port }: ServerId): ServerBytes {
  return { protocol, address: addressOctets(address), port };
}

function destinationBytes({ address, port }: Destination): { address: Uint8Array; port: number } {
  return { address: addressOctets(address), port };
}

/** `10.96.0.10,tcp:80,10.0.0.0/8` → its bytes; a bitmap's entry is a port alone. */
export function entryBytes(text: string): EntryBytes {
  if (/^\d+$/.test(text)) return { port: Number(text) };
  const [address = '', socket, second] = text.split(',');
  const [protocol, port] = socket?.split(':') ?? [];
  const [net, length] = second?.split('/') ?? [];
  return {
    address: addressOctets(address as Address),
    ...(socket === undefined ? {} : { protocol: protocolOf(protocol ?? ''), port: Number(port) }),
    ...(net === undefined ? {} : { second: addressOctets(net as Address) }),
    ...(length === undefined ? {} : { length: Number(length) }),
  };
}

function protocolOf(text: string): EntryBytes['protocol'] {
  return /^\d+$/.test(text) ? Number(text) : (text as 'tcp');
}

/** The other way round; a protocol that no Service has is its number. */
export function entryText({ address, protocol, port, second, length }: EntryBytes, type: string): string {
  if (address === undefined) return String(port ?? '');
  const parts: string[] = [addressOfBytes(address)];
  if (port !== undefined) parts.push(`${protocol ?? ''}:${port}`);
  if (second !== undefined) {
    // The kernel leaves out the length of a single address.
    const net = type.endsWith('net') ? `/${length ?? second.length * 8}` : '';
    parts.push(addressOfBytes(second) + net);
  }
  return parts.join(',');
}
