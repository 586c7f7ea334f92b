/**
 * Connections of conntrack to one destination, in any state (linux/netfilter/nfnetlink_conntrack.h). Connections in a conntrack zone
 * are omitted, as in `conntrack.ts`.
 */
import {
  CTA_FILTER,
  CTA_FILTER_ORIG_FLAGS,
  CTA_IP_V4_DST,
  CTA_IP_V4_SRC,
  CTA_IP_V6_DST,
  CTA_IP_V6_SRC,
  CTA_PROTO_DST_PORT,
  CTA_PROTO_NUM,
  CTA_PROTO_SRC_PORT,
  CTA_STATUS,
  CTA_TUPLE_IP,
  CTA_TUPLE_ORIG,
  CTA_TUPLE_PROTO,
  CTA_TUPLE_REPLY,
  CTA_ZONE,
  IPCTNL_MSG_CT_GET,
  IPS_SEEN_REPLY,
  NFNL_SUBSYS_CTNETLINK,
} from './conntrack.ts';
import {
  addressAt,
  attribute,
  findAttribute,
  type Message,
  type NetlinkRequest,
  nested,
  valueLength,
} from './netlink.ts';
import type { NetlinkSocket } from './netlink-socket.ts';
import { type NetfilterFamily, NFGENMSG, netfilterHeader, netfilterType } from './nfnetlink.ts';

/** Fields of the tuple that the kernel compares (net/netfilter/nf_internals.h, CTA_FILTER_F_…), since Linux 5.8. */
const COMPARED = { source: 1 << 0, destination: 1 << 1, protocol: 1 << 3, destinationPort: 1 << 5 } as const;

/** The first packet of the connections; addresses are 4 or 16 bytes in network order. */
export interface ConnectionQuestion {
  readonly family: NetfilterFamily;
  /** undefined for any */
  readonly source: Uint8Array | undefined;
  readonly destination: Uint8Array;
  /** The number of IANA. */
  readonly protocol: number;
  readonly port: number;
}

/** One end: address in network order, and port. */
export interface ConnectionEnd {
  readonly address: Uint8Array;
  readonly port: number;
}

/** A connection: the ends of its first packet, and those of the answers. */
export interface Connection {
  readonly source: ConnectionEnd;
  readonly destination: ConnectionEnd;
  readonly replySource: ConnectionEnd;
  readonly replyDestination: ConnectionEnd;
  readonly isAnswered: boolean;
}

/** The connections, part by part; returns whether the table changed, so that one may be missing. Throws NetlinkError, SystemError. */
export function* connections(
  socket: NetlinkSocket,
  question: ConnectionQuestion,
): Generator<readonly Connection[], boolean> {
  return yield* socket.decoded(connectionsRequest(question), (buffer, message) =>
    decodeConnection(buffer, message, question),
  );
}

/** `conntrack -L -s SOURCE -d DESTINATION -p PROTOCOL --dport PORT`. Kernels before 5.8 list all connections of the family; the decoder compares, too. */
export function connectionsRequest({
  family,
  source,
  destination,
  protocol,
  port,
}: ConnectionQuestion): NetlinkRequest {
  const isV4 = family === 'IPv4';
  const ports = Buffer.alloc(2);
  ports.writeUInt16BE(port);
  const flags = Buffer.alloc(4);
  let compared = COMPARED.protocol | COMPARED.destinationPort;
  // Of IPv6 the kernel leaves out those with equal addresses (nf_conntrack_netlink.c, ctnetlink_filter_match_tuple).
  if (isV4) compared |= COMPARED.destination | (source === undefined ? 0 : COMPARED.source);
  flags.writeUInt32LE(compared);
  const addresses = [attribute(isV4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, destination)];
  if (source !== undefined) addresses.unshift(attribute(isV4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, source));
  const tuple = nested(
    CTA_TUPLE_ORIG,
    nested(CTA_TUPLE_IP, ...addresses),
    nested(CTA_TUPLE_PROTO, attribute(CTA_PROTO_NUM, Buffer.from([protocol])), attribute(CTA_PROTO_DST_PORT, ports)),
  );
  return {
    type: netfilterType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET),
    flags: 0,
    body: [netfilterHeader(family), tuple, nested(CTA_FILTER, attribute(CTA_FILTER_ORIG_FLAGS, flags))],
  };
}

/** A connection of the question; undefined for any other one. */
export function decodeConnection(
  buffer: Buffer,
  { start, end }: Message,
  { source, destination, protocol, port }: Omit<ConnectionQuestion, 'family'>,
): Connection | undefined {
  const body = start + NFGENMSG;
  if (findAttribute(buffer, body, end, CTA_ZONE) >= 0) return undefined;
  const original = endsOf(buffer, findAttribute(buffer, body, end, CTA_TUPLE_ORIG), protocol);
  const reply = endsOf(buffer, findAttribute(buffer, body, end, CTA_TUPLE_REPLY), protocol);
  if (original === undefined || reply === undefined) return undefined;
  if (source !== undefined && Buffer.compare(original.source.address, source) !== 0) return undefined;
  if (Buffer.compare(original.destination.address, destination) !== 0) return undefined;
  if (original.destination.port !== port) return undefined;
  const status = findAttribute(buffer, body, end, CTA_STATUS, 4);
  return {
    ...original,
    replySource: reply.source,
    replyDestination: reply.destination,
    isAnswered: status >= 0 && (buffer.readUInt32BE(status) & IPS_SEEN_REPLY) !== 0,
  };
}

/** Both ends of a tuple; undefined for another protocol, and for a tuple without ports or addresses. */
function endsOf(
  buffer: Buffer,
  tuple: number,
  protocol: number,
): Pick<Connection, 'source' | 'destination'> | undefined {
  if (tuple < 0) return undefined;
  const end = tuple + valueLength(buffer, tuple);
  const ip = findAttribute(buffer, tuple, end, CTA_TUPLE_IP);
  const proto = findAttribute(buffer, tuple, end, CTA_TUPLE_PROTO);
  if (ip < 0 || proto < 0) return undefined;
  const protoEnd = proto + valueLength(buffer, proto);
  const number = findAttribute(buffer, proto, protoEnd, CTA_PROTO_NUM, 1);
  if (number < 0 || buffer[number] !== protocol) return undefined;
  const sideOf = (v4: number, v6: number, portType: number): ConnectionEnd | undefined => {
    const ipEnd = ip + valueLength(buffer, ip);
    const four = findAttribute(buffer, ip, ipEnd, v4);
    const at = four < 0 ? findAttribute(buffer, ip, ipEnd, v6) : four;
    const port = findAttribute(buffer, proto, protoEnd, portType, 2);
    if (at < 0 || port < 0) return undefined;
    return { address: addressAt(buffer, at), port: buffer.readUInt16BE(port) };
  };
  const source = sideOf(CTA_IP_V4_SRC, CTA_IP_V6_SRC, CTA_PROTO_SRC_PORT);
  const destination = sideOf(CTA_IP_V4_DST, CTA_IP_V6_DST, CTA_PROTO_DST_PORT);
  return source === undefined || destination === undefined ? undefined : { source, destination };
}
