/**
 * IPVS over generic netlink (linux/ip_vs.h, net/netfilter/ipvs/ip_vs_ctl.c): virtual servers, their destinations, timeouts. A constant
 * goes in here and into abi-probe.c; test/native/abi.test.ts compares all of them with the C headers.
 */
import { BodyWriter } from './body-writer.ts';
import { GENERIC_HEADER, genericHeader } from './generic.ts';
import { AF_INET, AF_INET6 } from './libc.ts';
import { findAttribute, type Message, type NetlinkRequest, valueLength } from './netlink.ts';
import type { NetlinkSocket } from './netlink-socket.ts';

export const IPVS_GENL_NAME = 'IPVS';
export const IPVS_CMD_NEW_SERVICE = 1;
export const IPVS_CMD_SET_SERVICE = 2;
export const IPVS_CMD_DEL_SERVICE = 3;
export const IPVS_CMD_GET_SERVICE = 4;
export const IPVS_CMD_NEW_DEST = 5;
export const IPVS_CMD_SET_DEST = 6;
export const IPVS_CMD_DEL_DEST = 7;
export const IPVS_CMD_GET_DEST = 8;
export const IPVS_CMD_SET_CONFIG = 12;
export const IPVS_CMD_GET_CONFIG = 13;
export const IPVS_CMD_GET_INFO = 15;
export const IPVS_CMD_ATTR_SERVICE = 1;
export const IPVS_CMD_ATTR_DEST = 2;
export const IPVS_CMD_ATTR_TIMEOUT_TCP = 4;
export const IPVS_CMD_ATTR_TIMEOUT_TCP_FIN = 5;
export const IPVS_CMD_ATTR_TIMEOUT_UDP = 6;
export const IPVS_SVC_ATTR_AF = 1;
export const IPVS_SVC_ATTR_PROTOCOL = 2;
export const IPVS_SVC_ATTR_ADDR = 3;
export const IPVS_SVC_ATTR_PORT = 4;
export const IPVS_SVC_ATTR_FWMARK = 5;
export const IPVS_SVC_ATTR_SCHED_NAME = 6;
export const IPVS_SVC_ATTR_FLAGS = 7;
export const IPVS_SVC_ATTR_TIMEOUT = 8;
export const IPVS_SVC_ATTR_NETMASK = 9;
export const IPVS_DEST_ATTR_ADDR = 1;
export const IPVS_DEST_ATTR_PORT = 2;
export const IPVS_DEST_ATTR_FWD_METHOD = 3;
export const IPVS_DEST_ATTR_WEIGHT = 4;
export const IPVS_DEST_ATTR_U_THRESH = 5;
export const IPVS_DEST_ATTR_L_THRESH = 6;
export const IPVS_DEST_ATTR_ACTIVE_CONNS = 7;
export const IPVS_DEST_ATTR_INACT_CONNS = 8;
export const IPVS_DEST_ATTR_ADDR_FAMILY = 11;
export const IPVS_INFO_ATTR_VERSION = 1;
export const IPVS_INFO_ATTR_CONN_TAB_SIZE = 2;
export const IP_VS_SVC_F_PERSISTENT = 0x1;
/** Only the kernel sets it: the server is in its table. */
export const IP_VS_SVC_F_HASHED = 0x2;
/** A flag of the scheduler: for mh, hash the port as well (ip_vs_mh.c, IP_VS_SVC_F_SCHED_MH_PORT). */
export const IP_VS_SVC_F_SCHED2 = 0x10;
export const IP_VS_CONN_F_MASQ = 0;
/** Bytes of the longest name of a scheduler, with its NUL. */
export const IP_VS_SCHEDNAME_MAXLEN = 16;
/** union nf_inet_addr */
export const INET_ADDRESS = 16;

const PROTOCOLS = { TCP: 6, UDP: 17, SCTP: 132 } as const;
const NAMES: Readonly<Record<number, ServerId['protocol']>> = { 6: 'TCP', 17: 'UDP', 132: 'SCTP' };

/** The identity of a virtual server; `address` is 4 or 16 bytes in network order. */
export interface ServerId {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly address: Uint8Array;
  readonly port: number;
}

/** The properties of a virtual server. */
export interface ServerValue {
  readonly scheduler: string;
  readonly flags: number;
  /** Seconds of session affinity, with the flag IP_VS_SVC_F_PERSISTENT. */
  readonly timeout: number;
}

/** The identity of a destination within its server. */
export interface DestinationId {
  readonly address: Uint8Array;
  readonly port: number;
}

/** A destination in a listing. */
export interface ListedDestination extends DestinationId {
  readonly weight: number;
  /** IP_VS_CONN_F_MASQ is 0. */
  readonly method: number;
  readonly activeConnections: number;
  readonly inactiveConnections: number;
}

/** Timeouts of connections in seconds; 0 leaves the kernel's value unchanged. */
export interface Timeouts {
  readonly tcp: number;
  readonly tcpFin: number;
  readonly udp: number;
}

const writer = new BodyWriter();

/** Requests to IPVS. `family` is its number in generic netlink (`resolveFamily`). */
export class IpvsRequests {
  readonly #family: number;

  constructor(family: number) {
    this.#family = family;
  }

  /** `ipvsadm -A`, or `-E` for an existing server. */
  server(verb: 'new' | 'set', id: ServerId, { scheduler, flags, timeout }: ServerValue): NetlinkRequest {
    const command = verb === 'new' ? IPVS_CMD_NEW_SERVICE : IPVS_CMD_SET_SERVICE;
    // struct ip_vs_flags: the flags, and the mask of those to set.
    const pair = Buffer.alloc(8);
    pair.writeUInt32LE(flags);
    pair.writeUInt32LE(0xffffffff, 4);
    return this.#request(command, (body) =>
      body.nest(IPVS_CMD_ATTR_SERVICE, (inner) => {
        writeServerId(inner, id)
          .text(IPVS_SVC_ATTR_SCHED_NAME, scheduler)
          .bytes(IPVS_SVC_ATTR_FLAGS, pair)
          .u32(IPVS_SVC_ATTR_TIMEOUT, timeout);
        // Session affinity for each client address: a full mask, for IPv6 as a prefix length (ip_vs_ctl.c).
        if (id.address.length === 4) inner.u32be(IPVS_SVC_ATTR_NETMASK, 0xffffffff);
        else inner.u32(IPVS_SVC_ATTR_NETMASK, 128);
      }),
    );
  }

  /** `ipvsadm -D` */
  deleteServer(id: ServerId): NetlinkRequest {
    return this.#request(IPVS_CMD_DEL_SERVICE, (body) =>
      body.nest(IPVS_CMD_ATTR_SERVICE, (inner) => writeServerId(inner, id)),
    );
  }

  /** `ipvsadm -a … -m -w WEIGHT`, or `-e` for an existing destination. */
  destination(verb: 'new' | 'set', server: ServerId, id: DestinationId, weight: number): NetlinkRequest {
    const command = verb === 'new' ? IPVS_CMD_NEW_DEST : IPVS_CMD_SET_DEST;
    return this.#request(command, (body) => {
      body.nest(IPVS_CMD_ATTR_SERVICE, (inner) => writeServerId(inner, server));
      body.nest(IPVS_CMD_ATTR_DEST, (inner) => {
        writeDestinationId(inner, id)
          .u32(IPVS_DEST_ATTR_FWD_METHOD, IP_VS_CONN_F_MASQ)
          .u32(IPVS_DEST_ATTR_WEIGHT, weight)
          .u32(IPVS_DEST_ATTR_U_THRESH, 0)
          .u32(IPVS_DEST_ATTR_L_THRESH, 0);
      });
    });
  }

  /** `ipvsadm -d` */
  deleteDestination(server: ServerId, id: DestinationId): NetlinkRequest {
    return this.#request(IPVS_CMD_DEL_DEST, (body) => {
      body.nest(IPVS_CMD_ATTR_SERVICE, (inner) => writeServerId(inner, server));
      body.nest(IPVS_CMD_ATTR_DEST, (inner) => writeDestinationId(inner, id));
    });
  }

  /** `ipvsadm --set TCP TCPFIN UDP` */
  setTimeouts({ tcp, tcpFin, udp }: Timeouts): NetlinkRequest {
    return this.#request(IPVS_CMD_SET_CONFIG, (body) =>
      body
        .u32(IPVS_CMD_ATTR_TIMEOUT_TCP, tcp)
        .u32(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, tcpFin)
        .u32(IPVS_CMD_ATTR_TIMEOUT_UDP, udp),
    );
  }

  listServers(): NetlinkRequest {
    return this.#request(IPVS_CMD_GET_SERVICE, () => undefined);
  }

  listDestinations(server: ServerId): NetlinkRequest {
    return this.#request(IPVS_CMD_GET_DEST, (body) =>
      body.nest(IPVS_CMD_ATTR_SERVICE, (inner) => writeServerId(inner, server)),
    );
  }

  getTimeouts(): NetlinkRequest {
    return this.#request(IPVS_CMD_GET_CONFIG, () => undefined);
  }

  getInfo(): NetlinkRequest {
    return this.#request(IPVS_CMD_GET_INFO, () => undefined);
  }

  #request(command: number, write: (body: BodyWriter) => unknown): NetlinkRequest {
    writer.begin(genericHeader(command));
    write(writer);
    return { type: this.#family, flags: 0, body: [writer.end()] };
  }
}

function writeServerId(into: BodyWriter, { protocol, address, port }: ServerId): BodyWriter {
  return into
    .u16(IPVS_SVC_ATTR_AF, address.length === 4 ? AF_INET : AF_INET6)
    .u16(IPVS_SVC_ATTR_PROTOCOL, PROTOCOLS[protocol])
    .bytes(IPVS_SVC_ATTR_ADDR, padded(address))
    .u16be(IPVS_SVC_ATTR_PORT, port);
}

function writeDestinationId(into: BodyWriter, { address, port }: DestinationId): BodyWriter {
  return into
    .bytes(IPVS_DEST_ATTR_ADDR, padded(address))
    .u16be(IPVS_DEST_ATTR_PORT, port)
    .u16(IPVS_DEST_ATTR_ADDR_FAMILY, address.length === 4 ? AF_INET : AF_INET6);
}

/** union nf_inet_addr: an IPv4 address is in the first four bytes. */
function padded(address: Uint8Array): Uint8Array {
  if (address.length === INET_ADDRESS) return address;
  const bytes = Buffer.alloc(INET_ADDRESS);
  bytes.set(address);
  return bytes;
}

/** All virtual servers by address and port, part by part, without those by firewall mark. Returns whether a server may be missing. Throws NetlinkError. */
export function* virtualServers(
  socket: NetlinkSocket,
  requests: IpvsRequests,
): Generator<readonly (ServerId & ServerValue)[], boolean> {
  return yield* socket.decoded(requests.listServers(), decodeServer);
}

/** The destinations of a server, part by part; returns whether one may be missing. Throws NetlinkError. */
export function* destinationsOf(
  socket: NetlinkSocket,
  requests: IpvsRequests,
  server: ServerId,
): Generator<readonly ListedDestination[], boolean> {
  const size = server.address.length;
  return yield* socket.decoded(requests.listDestinations(server), (buffer, message) =>
    decodeDestination(buffer, message, size),
  );
}

/** A server of a listing; undefined for a server by firewall mark. */
export function decodeServer(buffer: Buffer, { start, end }: Message): (ServerId & ServerValue) | undefined {
  const nest = findAttribute(buffer, start + GENERIC_HEADER, end, IPVS_CMD_ATTR_SERVICE);
  if (nest < 0) return undefined;
  const read = new AttributeReader(buffer, nest);
  const protocol = NAMES[read.u16(IPVS_SVC_ATTR_PROTOCOL) ?? 0];
  const address = read.address(IPVS_SVC_ATTR_ADDR, read.u16(IPVS_SVC_ATTR_AF) === AF_INET ? 4 : 16);
  const port = read.u16be(IPVS_SVC_ATTR_PORT);
  if (protocol === undefined || address === undefined || port === undefined) return undefined;
  return {
    protocol,
    address,
    port,
    scheduler: read.text(IPVS_SVC_ATTR_SCHED_NAME),
    flags: read.u32(IPVS_SVC_ATTR_FLAGS) ?? 0,
    timeout: read.u32(IPVS_SVC_ATTR_TIMEOUT) ?? 0,
  };
}

/** A destination of a listing. Old kernels omit its family: then its address is `serverSize` bytes long, as the server's. */
export function decodeDestination(
  buffer: Buffer,
  { start, end }: Message,
  serverSize: number,
): ListedDestination | undefined {
  const nest = findAttribute(buffer, start + GENERIC_HEADER, end, IPVS_CMD_ATTR_DEST);
  if (nest < 0) return undefined;
  const read = new AttributeReader(buffer, nest);
  const family = read.u16(IPVS_DEST_ATTR_ADDR_FAMILY);
  const size = family === undefined ? serverSize : family === AF_INET ? 4 : 16;
  const address = read.address(IPVS_DEST_ATTR_ADDR, size);
  const port = read.u16be(IPVS_DEST_ATTR_PORT);
  if (address === undefined || port === undefined) return undefined;
  return {
    address,
    port,
    weight: read.u32(IPVS_DEST_ATTR_WEIGHT) ?? 0,
    method: read.u32(IPVS_DEST_ATTR_FWD_METHOD) ?? 0,
    activeConnections: read.u32(IPVS_DEST_ATTR_ACTIVE_CONNS) ?? 0,
    inactiveConnections: read.u32(IPVS_DEST_ATTR_INACT_CONNS) ?? 0,
  };
}

/** The timeouts of an answer. */
export function decodeTimeouts(buffer: Buffer, { start, end }: Message): Timeouts {
  const value = (type: number) => {
    const at = findAttribute(buffer, start + GENERIC_HEADER, end, type, 4);
    return at < 0 ? 0 : buffer.readUInt32LE(at);
  };
  return {
    tcp: value(IPVS_CMD_ATTR_TIMEOUT_TCP),
    tcpFin: value(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN),
    udp: value(IPVS_CMD_ATTR_TIMEOUT_UDP),
  };
}

/** The version of IPVS, as `1.2.1`. */
export function decodeInfo(buffer: Buffer, { start, end }: Message): string {
  const at = findAttribute(buffer, start + GENERIC_HEADER, end, IPVS_INFO_ATTR_VERSION, 4);
  const version = at < 0 ? 0 : buffer.readUInt32LE(at);
  return `${(version >> 16) & 0xff}.${(version >> 8) & 0xff}.${version & 0xff}`;
}

/** Reads attributes that are nested in another one. */
class AttributeReader {
  readonly #buffer: Buffer;
  readonly #start: number;
  readonly #end: number;

  constructor(buffer: Buffer, nest: number) {
    this.#buffer = buffer;
    this.#start = nest;
    this.#end = nest + valueLength(buffer, nest);
  }

  u16(type: number): number | undefined {
    const at = this.#find(type, 2);
    return at < 0 ? undefined : this.#buffer.readUInt16LE(at);
  }

  u16be(type: number): number | undefined {
    const at = this.#find(type, 2);
    return at < 0 ? undefined : this.#buffer.readUInt16BE(at);
  }

  u32(type: number): number | undefined {
    const at = this.#find(type, 4);
    return at < 0 ? undefined : this.#buffer.readUInt32LE(at);
  }

  text(type: number): string {
    const at = this.#find(type);
    return at < 0 ? '' : this.#buffer.toString('latin1', at, at + valueLength(this.#buffer, at)).replace(/\0.*$/s, '');
  }

  address(type: number, size: number): Uint8Array | undefined {
    const at = this.#find(type, size);
    return at < 0 ? undefined : Buffer.from(this.#buffer.subarray(at, at + size));
  }

  #find(type: number, least = 0): number {
    return findAttribute(this.#buffer, this.#start, this.#end, type, least);
  }
}
