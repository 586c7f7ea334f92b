/** Implements IpvsKernel over netlink (`native/`). Only IPVS mode loads it. */

import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import {
  EADDRNOTAVAIL,
  EAGAIN,
  EBUSY,
  EEXIST,
  EINTR,
  ENOBUFS,
  ENODEV,
  ENOENT,
  ENOMEM,
  EPERM,
  ESRCH,
  errnoOf,
} from '../../native/errno.ts';
import { NETLINK_GENERIC, resolveFamily } from '../../native/generic.ts';
import type { EntryBytes } from '../../native/ipset.ts';
import * as ipset from '../../native/ipset.ts';
import {
  decodeTimeouts,
  destinationsOf,
  IP_VS_CONN_F_MASQ,
  IP_VS_SVC_F_HASHED,
  IP_VS_SVC_F_PERSISTENT,
  IPVS_GENL_NAME,
  IpvsRequests,
  type ServerId as ServerBytes,
  virtualServers,
} from '../../native/ipvs.ts';
import { serverCounts } from '../../native/ipvs-statistics.ts';
import type { NetlinkError, NetlinkRequest } from '../../native/netlink.ts';
import { MAX_REQUESTS, NetlinkSocket, type NetlinkTransport, openTransport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import * as rtnetlink from '../../native/rtnetlink.ts';
import {
  type Address,
  addressOctets,
  addressOfBytes,
  type Family,
  familyOf,
  type Protocol,
  parseAddress,
} from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { breath, realClock, sleep } from '../base/clock.ts';
import { createMutex } from '../base/mutex.ts';
import { readAddresses, SERVICE_DEVICE, serviceDevice } from './devices.ts';
import {
  type Destination,
  type IpsetSpec,
  type IpvsFailure,
  type IpvsKernel,
  KernelError,
  type KernelWrite,
  type SeenDestination,
  type SeenSet,
  type Server,
  type ServerCounts,
  type ServerId,
  type Template,
  type Timeouts,
} from './ipvs-kernel.ts';
import { wholeListing } from './whole-listing.ts';

/** Where the kernel is reached; default: this process's network namespace. */
export interface IpvsSeams {
  /** Opens sockets, for example in another network namespace. */
  readonly openTransport?: (protocol: number) => NetlinkTransport;
  /** The lines of /proc/thread-self/net/ip_vs_conn. */
  readonly connections?: () => AsyncIterable<string>;
}

interface Sockets {
  readonly route: SocketInTurns;
  readonly generic: SocketInTurns;
  readonly sets: SocketInTurns;
}

/** A socket for one user at a time: a listing lets other work run between its parts, and a socket has one listing at a time. */
class SocketInTurns {
  readonly #socket: NetlinkSocket;
  readonly #turn = createMutex();

  constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  use<T>(work: (socket: NetlinkSocket) => Promise<T> | T): Promise<T> {
    return this.#turn(async () => await work(this.#socket));
  }

  close(): void {
    this.#socket.close();
  }
}

export class NetlinkKernel implements IpvsKernel {
  readonly #sockets: Sockets;
  readonly #requests: IpvsRequests;
  readonly #revisions = new SetRevisions();
  readonly #connections: () => AsyncIterable<string>;

  private constructor(
    { route, generic, sets }: Record<keyof Sockets, NetlinkSocket>,
    connections: () => AsyncIterable<string>,
  ) {
    this.#connections = connections;
    this.#requests = new IpvsRequests(resolveFamily(generic, IPVS_GENL_NAME));
    ipset.typeRevision(sets, 'hash:ip,port', 'IPv4');
    this.#sockets = {
      route: new SocketInTurns(route),
      generic: new SocketInTurns(generic),
      sets: new SocketInTurns(sets),
    };
  }

  /** Throws SystemError or NetlinkError when the kernel lacks a part, or refuses it. */
  static open(seams: IpvsSeams = {}): NetlinkKernel {
    const transport = seams.openTransport ?? openTransport;
    const opened: NetlinkSocket[] = [];
    const open = (protocol: number) => {
      const socket = new NetlinkSocket(transport(protocol));
      opened.push(socket);
      return socket;
    };
    try {
      return new NetlinkKernel(
        {
          route: open(rtnetlink.NETLINK_ROUTE),
          generic: open(NETLINK_GENERIC),
          sets: open(NETLINK_NETFILTER),
        },
        seams.connections ?? (() => linesOf(CONNECTIONS)),
      );
    } catch (error) {
      for (const socket of opened) socket.close();
      throw error;
    }
  }

  close(): void {
    const { route, generic, sets } = this.#sockets;
    for (const socket of [route, generic, sets]) socket.close();
  }

  async write(writes: readonly KernelWrite[], signal: AbortSignal): Promise<(KernelError | undefined)[]> {
    const outcomes: (KernelError | undefined)[] = [];
    for (let at = 0; at < writes.length; ) {
      if (at > 0) await breath();
      signal.throwIfAborted();
      const socket = this.#socketOf(writes[at] as KernelWrite);
      let end = at + 1;
      while (end < writes.length && end - at < MAX_REQUESTS && this.#socketOf(writes[end] as KernelWrite) === socket)
        end += 1;
      const send = (some: readonly KernelWrite[]) => socket.use((own) => this.#send(own, some));
      outcomes.push(...(await untilReleased(send, writes.slice(at, end), signal)));
      if (writes.slice(at, end).some(({ kind }) => kind === 'swap-set')) await sleep(realClock, SWAP_GRACE_MS, signal);
      at = end;
    }
    return outcomes;
  }

  async hasDevice(): Promise<boolean> {
    return (await this.#sockets.route.use(serviceDevice)) !== undefined;
  }

  async addresses(family: Family): Promise<{ readonly ours: readonly Address[]; readonly others: readonly Address[] }> {
    const { service, others } = await this.#sockets.route.use((route) => readAddresses(route, family));
    return { ours: service, others };
  }

  async servers(): Promise<readonly Server[]> {
    const listed = await this.#listing('generic', (socket) => virtualServers(socket, this.#requests));
    return listed.map(({ protocol, address, port, scheduler, flags, timeout }) => ({
      protocol,
      address: addressOfBytes(address),
      port,
      scheduler,
      flags: flags & ~IP_VS_SVC_F_HASHED,
      // The kernel has a timeout without session affinity, too.
      timeout: (flags & IP_VS_SVC_F_PERSISTENT) === 0 ? 0 : timeout,
    }));
  }

  async counts(): Promise<readonly ServerCounts[]> {
    const listed = await this.#listing('generic', (socket) => serverCounts(socket, this.#requests));
    return listed.map(({ protocol, address, port, connections, inBytes, outBytes }) => ({
      ...{ protocol, address: addressOfBytes(address), port, connections },
      bytes: { in: inBytes, out: outBytes },
    }));
  }

  async destinations(server: ServerId): Promise<readonly SeenDestination[]> {
    const listed = await this.#listing('generic', (socket) =>
      destinationsOf(socket, this.#requests, serverBytes(server)),
    );
    return listed.map((entry) => ({
      address: addressOfBytes(entry.address),
      port: entry.port,
      weight: entry.weight,
      connections: entry.activeConnections + entry.inactiveConnections,
      isMasqueraded: entry.method === IP_VS_CONN_F_MASQ,
    }));
  }

  async setNames(): Promise<readonly string[]> {
    return await this.#listing('sets', (socket) => ipset.setNames(socket));
  }

  async readSet(name: string): Promise<SeenSet | undefined> {
    try {
      const parts = await this.#listing('sets', (socket) => ipset.setParts(socket, name));
      const type = parts.find((part) => part.type !== undefined)?.type ?? '';
      const maxelem = parts.find((part) => part.maxelem !== undefined)?.maxelem;
      return { type, maxelem, entries: parts.flatMap((part) => part.entries.map((entry) => entryText(entry, type))) };
    } catch (error) {
      if (errnoOf(error) === ENOENT) return undefined;
      throw error;
    }
  }

  async templates(client: Address): Promise<readonly Template[]> {
    return await templatesOf(client, this.#connections());
  }

  async timeouts(): Promise<Timeouts> {
    return await this.#sockets.generic.use((socket) => socket.ask(this.#requests.getTimeouts(), decodeTimeouts));
  }

  async setTimeouts(timeouts: Timeouts): Promise<void> {
    const [error] = await this.#sockets.generic.use((socket) =>
      socket.acknowledge([this.#requests.setTimeouts(timeouts)]),
    );
    if (error !== undefined) throw error;
  }

  #listing<T>(
    of: keyof Sockets,
    list: (socket: NetlinkSocket) => Generator<readonly T[], boolean>,
  ): Promise<readonly T[]> {
    return this.#sockets[of].use((socket) => wholeListing(() => list(socket)));
  }

  #socketOf({ kind }: KernelWrite): SocketInTurns {
    if (kind.endsWith('-device') || kind.endsWith('-address')) return this.#sockets.route;
    return kind.endsWith('-set') || kind.endsWith('-entry') ? this.#sockets.sets : this.#sockets.generic;
  }

  async #send(socket: NetlinkSocket, writes: readonly KernelWrite[]): Promise<(KernelError | undefined)[]> {
    try {
      const needsDevice = writes.some(({ kind }) => kind === 'add-address' || kind === 'remove-address');
      const index = needsDevice ? await serviceDevice(socket) : undefined;
      const errors = socket.acknowledge(writes.map((write) => this.#request(socket, write, index ?? NO_DEVICE)));
      return errors.map((error, at) => (error === undefined ? undefined : kernelError(error, writes[at])));
    } catch (error) {
      // The outcome of these writes is unknown: the kernel must be read again.
      return writes.map(() => new KernelError('environment', causeOf(error)));
    }
  }

  #request(socket: NetlinkSocket, write: KernelWrite, index: number): NetlinkRequest {
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
        return ipset.createSetRequest(write.set, this.#revisions.of(write.set, socket));
      case 'remove-set':
        return ipset.destroySetRequest(write.set);
      case 'swap-set':
        return ipset.swapSetsRequest(write.set, write.with);
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
}

/** The revisions of the sets' types. The kernel is asked once for each. */
class SetRevisions {
  readonly #known = new Map<string, number>();

  of({ type, family }: IpsetSpec, sets: NetlinkSocket): number {
    const key = `${type} ${family}`;
    const revision = this.#known.get(key) ?? ipset.typeRevision(sets, type, family);
    this.#known.set(key, revision);
    return revision;
  }
}

/**
 * A deleted rule of nftables holds its sets until a worker of the kernel has released it, some time after the commit (nf_tables_api.c,
 * nf_tables_trans_destroy_work). So the write of a set in use is repeated for a while.
 */
async function untilReleased(
  send: (writes: readonly KernelWrite[]) => Promise<(KernelError | undefined)[]>,
  writes: readonly KernelWrite[],
  signal: AbortSignal,
): Promise<(KernelError | undefined)[]> {
  const outcomes = await send(writes);
  const until = realClock.now() + RELEASE_TIMEOUT_MS;
  for (;;) {
    const busy = outcomes
      .keys()
      .filter((at) => outcomes[at]?.message === SET_IN_USE)
      .toArray();
    if (busy.length === 0 || realClock.now() >= until) return outcomes;
    await sleep(realClock, RELEASE_PAUSE_MS, signal);
    const again = await send(busy.map((at) => writes[at] as KernelWrite));
    for (const [i, at] of busy.entries()) outcomes[at] = again[i];
  }
}

/**
 * Milliseconds between a swap and the next write. Packets from before the swap may still look into the set that was swapped out. Kernels before
 * 6.7 free a destroyed set at once, and dereference it then (28628fa952fe, "fix race condition between swap/destroy and kernel side
 * add/del/test").
 */
const SWAP_GRACE_MS = 50;
/** The kernel gives no device this number (dev_index_reserve), and answers ENODEV. */
const NO_DEVICE = 0;
const SET_IN_USE = 'the set is in use';
/** Milliseconds for which the write of a set in use is repeated, and between two attempts. */
const RELEASE_TIMEOUT_MS = 3000;
const RELEASE_PAUSE_MS = 20;
/** Errors that do not depend on the request. */
const ENVIRONMENT: ReadonlySet<number> = new Set([EPERM, EINTR, EAGAIN, ENOMEM, EBUSY, ENOBUFS]);
/** Errors of ipset, whose numbers begin at 4096, above every errno. */
const SET_ERRORS: Readonly<Record<number, { readonly failure: IpvsFailure; readonly text: string }>> = {
  [ipset.IPSET_ERR_FIND_TYPE]: { failure: 'refused', text: 'the kernel has no such set type' },
  [ipset.IPSET_ERR_BUSY]: { failure: 'environment', text: SET_IN_USE },
  [ipset.IPSET_ERR_EXIST_SETNAME2]: { failure: 'missing', text: 'there is no such set to swap with' },
  [ipset.IPSET_ERR_TYPE_MISMATCH]: { failure: 'refused', text: 'the sets to swap have different types' },
  [ipset.IPSET_ERR_EXIST]: { failure: 'missing', text: 'the entry is not in the set' },
  [ipset.IPSET_ERR_REFERENCED]: { failure: 'environment', text: 'a rule refers to the set' },
  [ipset.IPSET_ERR_TYPE_SPECIFIC]: { failure: 'refused', text: 'the set is full (its maxelem)' },
};

function kernelError(error: NetlinkError, write: KernelWrite | undefined): KernelError {
  const known = SET_ERRORS[error.errno];
  if (known !== undefined) return new KernelError(known.failure, known.text);
  const what = write?.kind ?? '';
  return new KernelError(failureOf(error.errno, what), `${error.message}${schedulerHint(error.errno, write)}`);
}

/** ENOENT for a server that is made or changed means that its scheduler is missing (ip_vs_ctl.c, ip_vs_add_service, ip_vs_edit_service). */
function schedulerHint(errno: number, write: KernelWrite | undefined): string {
  if (errno !== ENOENT || (write?.kind !== 'add-server' && write?.kind !== 'change-server')) return '';
  const { scheduler } = write.server;
  return `; the kernel has no scheduler ${scheduler}: load the module ip_vs_${scheduler}`;
}

function failureOf(errno: number, what: string): IpvsFailure {
  if (errno === EEXIST) return 'exists';
  // For an address to add, EADDRNOTAVAIL means that the kernel accepts no such address.
  const isNoAddress = errno === EADDRNOTAVAIL && what !== 'add-address';
  const isMissing = errno === ESRCH || errno === ENODEV || isNoAddress;
  const needsScheduler = what === 'add-server' || what === 'change-server';
  if (isMissing || (errno === ENOENT && !needsScheduler)) return 'missing';
  return ENVIRONMENT.has(errno) ? 'environment' : 'refused';
}

function serverBytes({ protocol, address, port }: ServerId): ServerBytes {
  return { protocol, address: addressOctets(address), port };
}

function destinationBytes({ address, port }: Destination): { address: Uint8Array; port: number } {
  return { address: addressOctets(address), port };
}

// Session affinity of IPVS: the templates in /proc/thread-self/net/ip_vs_conn of this process's network namespace, connections of client port 0 that
// choose the destination of a client's next connection (ip_vs_conn_seq_show in net/netfilter/ipvs/ip_vs_conn.c).

const CONNECTIONS = '/proc/thread-self/net/ip_vs_conn';

/** The templates of a client. The file has every connection of IPVS and is read line by line. Throws when it cannot be read. */
export async function templatesOf(client: Address, lines: AsyncIterable<string>): Promise<Template[]> {
  const found: Template[] = [];
  for await (const line of lines) {
    const template = templateIn(line, client);
    if (template !== undefined) found.push(template);
  }
  return found;
}

function linesOf(path: string): AsyncIterable<string> {
  return createInterface({ input: createReadStream(path, 'latin1') });
}

/** `TCP 0AF40107 0000 0A600014 0050 0AF4010B 1F90 NONE 10795`; undefined for any other connection. */
function templateIn(line: string, client: Address): Template | undefined {
  const [protocol = '', from = '', fromPort, to = '', toPort = '', at = '', atPort = '', , seconds = ''] = line
    .trim()
    .split(/\s+/);
  if (fromPort !== '0000' || addressIn(from) !== client) return undefined;
  const [server, destination] = [addressIn(to), addressIn(at)];
  if (server === undefined || destination === undefined || !isProtocol(protocol) || !/^\d+$/.test(seconds))
    return undefined;
  return {
    server: { protocol, address: server, port: Number.parseInt(toPort, 16) },
    destination: { address: destination, port: Number.parseInt(atPort, 16) },
    seconds: Number(seconds),
  };
}

function isProtocol(text: string): text is Protocol {
  return text === 'TCP' || text === 'UDP' || text === 'SCTP';
}

/** Eight hexadecimal digits for IPv4, or an IPv6 address with all its digits. */
function addressIn(text: string): Address | undefined {
  if (/^[0-9A-F]{8}$/.test(text)) return addressOfBytes(Buffer.from(text, 'hex'));
  const address = parseAddress(text);
  return address !== undefined && familyOf(address) === 'IPv6' ? address : undefined;
}

// Entries of sets: their bytes in the kernel, and the text that `ipset` prints.

/** `10.96.0.10,tcp:80,10.0.0.0/8` → its bytes. The entry of a bitmap is only a port. */
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

/** The text of an entry in a set of this type. A protocol that no Service has is printed as its number. */
export function entryText({ address, protocol, port, second, length }: EntryBytes, type: string): string {
  if (address === undefined) return String(port ?? '');
  const parts: string[] = [addressOfBytes(address)];
  if (port !== undefined) parts.push(`${protocol ?? ''}:${port}`);
  if (second !== undefined) {
    // The kernel omits the prefix length of a single address.
    const net = type.endsWith('net') ? `/${length ?? second.length * 8}` : '';
    parts.push(addressOfBytes(second) + net);
  }
  return parts.join(',');
}
