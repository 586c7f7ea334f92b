/** Devices and their addresses over rtnetlink (linux/rtnetlink.h, if_link.h, if_addr.h): dummy devices, host addresses. */
import { BodyWriter } from './body-writer.ts';
import { AF_INET, AF_INET6 } from './libc.ts';
import {
  addressAt,
  findAttribute,
  type Message,
  type NetlinkRequest,
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  valueLength,
} from './netlink.ts';
import type { NetlinkSocket } from './netlink-socket.ts';

export const NETLINK_ROUTE = 0;
export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
export const RTM_GETLINK = 18;
export const RTM_NEWADDR = 20;
export const RTM_DELADDR = 21;
export const RTM_GETADDR = 22;
export const RTM_NEWROUTE = 24;
export const RTM_GETROUTE = 26;
export const IFLA_ADDRESS = 1;
export const IFLA_IFNAME = 3;
export const IFLA_LINKINFO = 18;
export const IFLA_NET_NS_FD = 28;
export const IFLA_INFO_KIND = 1;
export const IFLA_INFO_DATA = 2;
export const VETH_INFO_PEER = 1;
/** linux/if.h */
export const IFF_UP = 0x1;
export const IFF_NOARP = 0x80;
export const IFA_ADDRESS = 1;
export const IFA_LOCAL = 2;
export const IFA_FLAGS = 8;
export const RTA_DST = 1;
export const RTA_OIF = 4;
export const RTA_PREFSRC = 7;
export const IFA_F_NODAD = 0x02;
export const RT_SCOPE_UNIVERSE = 0;
export const RT_SCOPE_LINK = 253;
export const RT_TABLE_MAIN = 254;
export const RTPROT_STATIC = 4;
export const RTN_UNICAST = 1;
/** struct ifinfomsg: family, type, index, flags, change. */
export const IFINFOMSG = 16;
/** struct ifaddrmsg: family, prefix length, flags, scope, index. */
export const IFADDRMSG = 8;
/** struct rtmsg: family, lengths of destination and source, tos, table, protocol, scope, type, flags. */
export const RTMSG = 12;

const writer = new BodyWriter();

/** A device's address: 4 or 16 bytes in network order. */
export interface DeviceAddress {
  readonly index: number;
  readonly bytes: Uint8Array;
}

/** `ip link add NAME type dummy` */
export function addDummyRequest(name: string): NetlinkRequest {
  const body = writer
    .begin(Buffer.alloc(IFINFOMSG))
    .text(IFLA_IFNAME, name)
    .nest(IFLA_LINKINFO, (inner) => inner.bytes(IFLA_INFO_KIND, Buffer.from('dummy')))
    .end();
  return { type: RTM_NEWLINK, flags: NLM_F_CREATE | NLM_F_EXCL, body: [body] };
}

/** One end of a pair of devices. */
export interface VethEnd {
  readonly name: string;
  /** A descriptor of the network namespace in which it shall be. */
  readonly namespace: number;
}

/**
 * `ip link add NAME type veth peer name NAME`, with the same hardware address and without ARP: what one sends is for the other. `mac`: 6 bytes.
 * `here` is made in the namespace of the socket.
 */
export function addVethRequest(here: string, there: VethEnd, mac: Uint8Array): NetlinkRequest {
  const header = Buffer.alloc(IFINFOMSG);
  header.writeUInt32LE(IFF_NOARP, 8);
  header.writeUInt32LE(IFF_NOARP, 12);
  const peer = new BodyWriter()
    .begin(header)
    .text(IFLA_IFNAME, there.name)
    .bytes(IFLA_ADDRESS, mac)
    .u32(IFLA_NET_NS_FD, there.namespace)
    .end();
  const body = writer
    .begin(header)
    .text(IFLA_IFNAME, here)
    .bytes(IFLA_ADDRESS, mac)
    .nest(IFLA_LINKINFO, (info) =>
      info.bytes(IFLA_INFO_KIND, Buffer.from('veth')).nest(IFLA_INFO_DATA, (data) => data.bytes(VETH_INFO_PEER, peer)),
    )
    .end();
  return { type: RTM_NEWLINK, flags: NLM_F_CREATE | NLM_F_EXCL, body: [body] };
}

/** `ip link set … up` */
export function setUpRequest(index: number): NetlinkRequest {
  const header = Buffer.alloc(IFINFOMSG);
  header.writeInt32LE(index, 4);
  header.writeUInt32LE(IFF_UP, 8);
  header.writeUInt32LE(IFF_UP, 12);
  return { type: RTM_NEWLINK, flags: 0, body: [header] };
}

/** `ip route add DESTINATION dev …`, of an address, or `default` of a family for undefined. Another route to it is EEXIST. */
export function addRouteRequest(
  index: number,
  { family, bytes }: { readonly family: 'IPv4' | 'IPv6'; readonly bytes: Uint8Array | undefined },
): NetlinkRequest {
  const header = Buffer.alloc(RTMSG);
  header[0] = family === 'IPv4' ? AF_INET : AF_INET6;
  header[1] = (bytes?.length ?? 0) * 8;
  header[4] = RT_TABLE_MAIN;
  header[5] = RTPROT_STATIC;
  header[6] = family === 'IPv4' ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  header[7] = RTN_UNICAST;
  const begun = writer.begin(header).u32(RTA_OIF, index);
  if (bytes !== undefined) begun.bytes(RTA_DST, bytes);
  return { type: RTM_NEWROUTE, flags: NLM_F_CREATE | NLM_F_EXCL, body: [begun.end()] };
}

/** `ip link delete NAME` */
export function deleteLinkRequest(name: string): NetlinkRequest {
  return {
    type: RTM_DELLINK,
    flags: 0,
    body: [writer.begin(Buffer.alloc(IFINFOMSG)).text(IFLA_IFNAME, name).end()],
  };
}

/** `ip link show NAME` */
export function getLinkRequest(name: string): NetlinkRequest {
  return {
    type: RTM_GETLINK,
    flags: 0,
    body: [writer.begin(Buffer.alloc(IFINFOMSG)).text(IFLA_IFNAME, name).end()],
  };
}

/** `ip address replace ADDRESS dev …`, with /32 or /128; an IPv6 address without duplicate address detection. */
export function addAddressRequest(index: number, bytes: Uint8Array): NetlinkRequest {
  const header = addressHeader(index, bytes);
  const begun = writer.begin(header).bytes(IFA_LOCAL, bytes).bytes(IFA_ADDRESS, bytes);
  if (bytes.length === 16) begun.u32(IFA_FLAGS, IFA_F_NODAD);
  return { type: RTM_NEWADDR, flags: NLM_F_CREATE | NLM_F_REPLACE, body: [begun.end()] };
}

/** `ip address delete ADDRESS dev …` */
export function deleteAddressRequest(index: number, bytes: Uint8Array): NetlinkRequest {
  const body = writer.begin(addressHeader(index, bytes)).bytes(IFA_LOCAL, bytes).end();
  return { type: RTM_DELADDR, flags: 0, body: [body] };
}

/** The index and kind of a device: `dummy`, or "" when the driver names none. Throws NetlinkError, with ENODEV when there is no such device. */
export function findLink(socket: NetlinkSocket, name: string): { readonly index: number; readonly kind: string } {
  return socket.ask(getLinkRequest(name), (buffer, { start, end }) => {
    const info = findAttribute(buffer, start + IFINFOMSG, end, IFLA_LINKINFO);
    const kind = info < 0 ? -1 : findAttribute(buffer, info, info + valueLength(buffer, info), IFLA_INFO_KIND);
    const text = kind < 0 ? '' : buffer.toString('latin1', kind, kind + valueLength(buffer, kind));
    return { index: indexAt(buffer, start + 4, end), kind: text.replace(/\0$/, '') };
  });
}

/** `ip address show` for a family. */
export function listAddressesRequest(family: 'IPv4' | 'IPv6'): NetlinkRequest {
  const header = Buffer.alloc(IFADDRMSG);
  header[0] = family === 'IPv4' ? AF_INET : AF_INET6;
  return { type: RTM_GETADDR, flags: 0, body: [header] };
}

/** The addresses of all devices, part by part; returns whether an address may be missing. Throws NetlinkError. */
export function* deviceAddresses(
  socket: NetlinkSocket,
  family: 'IPv4' | 'IPv6',
): Generator<readonly DeviceAddress[], boolean> {
  return yield* socket.decoded(listAddressesRequest(family), decodeAddress);
}

/** `ip route get ADDRESS` */
export function getRouteRequest(destination: Uint8Array): NetlinkRequest {
  const header = Buffer.alloc(RTMSG);
  header[0] = destination.length === 4 ? AF_INET : AF_INET6;
  header[1] = destination.length * 8;
  return { type: RTM_GETROUTE, flags: 0, body: [writer.begin(header).bytes(RTA_DST, destination).end()] };
}

/** The way to a destination. */
export interface RouteFound {
  /** The address from which this node sends, in network order; undefined when the kernel names none. */
  readonly source: Uint8Array | undefined;
  /** The index of the device; 0 when the kernel names none. */
  readonly index: number;
}

/** Throws NetlinkError, with ENETUNREACH or another errno of the route where there is no way. */
export function findRoute(socket: NetlinkSocket, destination: Uint8Array): RouteFound {
  return socket.ask(getRouteRequest(destination), (buffer, { start, end }) => {
    const source = findAttribute(buffer, start + RTMSG, end, RTA_PREFSRC);
    const device = findAttribute(buffer, start + RTMSG, end, RTA_OIF, 4);
    return {
      source: source < 0 ? undefined : addressAt(buffer, source),
      index: device < 0 ? 0 : buffer.readUInt32LE(device),
    };
  });
}

/** `ip link show` of the device with this index */
export function getLinkByIndexRequest(index: number): NetlinkRequest {
  const header = Buffer.alloc(IFINFOMSG);
  header.writeInt32LE(index, 4);
  return { type: RTM_GETLINK, flags: 0, body: [header] };
}

/** Throws NetlinkError, with ENODEV when there is no such device. */
export function linkName(socket: NetlinkSocket, index: number): string {
  return socket.ask(getLinkByIndexRequest(index), (buffer, { start, end }) => {
    const at = findAttribute(buffer, start + IFINFOMSG, end, IFLA_IFNAME);
    return at < 0 ? '' : buffer.toString('utf8', at, at + valueLength(buffer, at)).replace(/\0$/, '');
  });
}

/** An address of a listing; undefined for a message without one. */
export function decodeAddress(buffer: Buffer, { start, end }: Message): DeviceAddress | undefined {
  // IFA_LOCAL is the device's own address. On a point-to-point link IFA_ADDRESS is the peer's (if_addr.h).
  let at = findAttribute(buffer, start + IFADDRMSG, end, IFA_LOCAL);
  if (at < 0) at = findAttribute(buffer, start + IFADDRMSG, end, IFA_ADDRESS);
  if (at < 0) return undefined;
  return { index: buffer.readUInt32LE(start + 4), bytes: addressAt(buffer, at) };
}

/** The index of a device, which is positive. Throws RangeError. */
function indexAt(buffer: Buffer, at: number, end: number): number {
  const index = at + 4 <= end ? buffer.readInt32LE(at) : 0;
  if (index > 0) return index;
  throw new RangeError(`rtnetlink answered a device with the index ${index}`);
}

function addressHeader(index: number, bytes: Uint8Array): Buffer {
  const header = Buffer.alloc(IFADDRMSG);
  header[0] = bytes.length === 4 ? AF_INET : AF_INET6;
  header[1] = bytes.length * 8;
  header[3] = RT_SCOPE_UNIVERSE;
  header.writeUInt32LE(index, 4);
  return header;
}
