/**
 * conntrack, the kernel's table of connections (linux/netfilter/nfnetlink_conntrack.h): lists a family's UDP flows, and the
 * connections of TCP and SCTP without an answer; deletes flows. Flows in a conntrack zone are omitted: they belong to other
 * software.
 */
import { ENOENT } from './errno.ts';
import { AF_INET6 } from './libc.ts';
import {
  addressAt,
  attribute,
  findAttribute,
  type Message,
  type NetlinkRequest,
  nested,
  valueLength,
} from './netlink.ts';
import { MAX_REQUESTS, NetlinkSocket, type NetlinkTransport, openTransport } from './netlink-socket.ts';
import { NETLINK_NETFILTER, type NetfilterFamily, NFGENMSG, netfilterHeader, netfilterType } from './nfnetlink.ts';

export const NFNL_SUBSYS_CTNETLINK = 1;
export const IPCTNL_MSG_CT_GET = 1;
export const IPCTNL_MSG_CT_DELETE = 2;
export const CTA_TUPLE_ORIG = 1;
export const CTA_TUPLE_REPLY = 2;
export const CTA_STATUS = 3;
export const CTA_PROTOINFO = 4;
export const CTA_ID = 12;
export const CTA_ZONE = 18;
export const CTA_FILTER = 25;
export const CTA_STATUS_MASK = 26;
export const CTA_PROTOINFO_TCP = 1;
export const CTA_PROTOINFO_SCTP = 3;
export const CTA_PROTOINFO_TCP_STATE = 1;
export const CTA_PROTOINFO_SCTP_STATE = 1;
/** linux/netfilter/nf_conntrack_common.h: an answer was seen; the destination is translated. */
export const IPS_SEEN_REPLY = 1 << 1;
export const IPS_DST_NAT = 1 << 5;
export const TCP_CONNTRACK_SYN_SENT = 1;
export const SCTP_CONNTRACK_CLOSED = 1;
export const CTA_TUPLE_IP = 1;
export const CTA_TUPLE_PROTO = 2;
/** A zone of one direction. */
export const CTA_TUPLE_ZONE = 3;
export const CTA_IP_V4_SRC = 1;
export const CTA_IP_V4_DST = 2;
export const CTA_IP_V6_SRC = 3;
export const CTA_IP_V6_DST = 4;
export const CTA_PROTO_NUM = 1;
export const CTA_PROTO_SRC_PORT = 2;
export const CTA_PROTO_DST_PORT = 3;
export const CTA_FILTER_ORIG_FLAGS = 1;
/** Compare the protocol's number (net/netfilter/nf_internals.h, CTA_FILTER_F_CTA_PROTO_NUM). */
const FILTER_PROTOCOL = 1 << 3;
const IPPROTO_TCP = 6;
const IPPROTO_UDP = 17;
const IPPROTO_SCTP = 132;
/** Bits of the status that are compared, and their values. */
export interface FlowStatus {
  readonly mask: number;
  readonly value: number;
}

/** No answer was seen. */
export const UNANSWERED: FlowStatus = { mask: IPS_SEEN_REPLY, value: 0 };
/** The destination is translated; and not answered. */
export const TRANSLATED: FlowStatus = { mask: IPS_DST_NAT, value: IPS_DST_NAT };
export const OPENING: FlowStatus = { mask: IPS_SEEN_REPLY | IPS_DST_NAT, value: IPS_DST_NAT };

export type FlowFamily = NetfilterFamily;

/** A flow: the destination of its first packet, and the source of the answers. */
export interface Flow {
  readonly family: FlowFamily;
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  /** Address and port, as bytes in network order: 6 or 18, each a character of Latin-1. */
  readonly destination: string;
  readonly replySource: string;
  /** Tuple and id identify the flow for the kernel; they are valid until the next part of the listing. */
  readonly tuple: Uint8Array;
  readonly id: Uint8Array;
}

/** The first packet of a flow: its source and destination as in `Flow`. */
export interface FlowEntry extends Pick<Flow, 'family' | 'protocol' | 'destination'> {
  readonly source: string;
}

export interface ConntrackOptions {
  readonly isFiltered?: boolean;
  readonly open?: () => NetlinkTransport;
}

export class ConntrackSocket {
  readonly #lists: NetlinkSocket;
  /** Deletes have a socket of their own, because a listing may go on. */
  readonly #deletes: NetlinkSocket;
  readonly #isFiltered: boolean;

  /**
   * With `isFiltered` the kernel omits other protocols (since Linux 5.8). That is quick, but the kernel searches the table until a
   * part is full, which is one long step in a large table of other protocols. Without it every part is small, and other protocols
   * are skipped when the part is decoded. Throws SystemError.
   */
  constructor({ isFiltered = true, open = () => openTransport(NETLINK_NETFILTER) }: ConntrackOptions = {}) {
    this.#isFiltered = isFiltered;
    const first = open();
    try {
      this.#deletes = new NetlinkSocket(open());
    } catch (error) {
      first.close();
      throw error;
    }
    this.#lists = new NetlinkSocket(first);
  }

  close(): void {
    try {
      this.#lists.close();
    } finally {
      this.#deletes.close();
    }
  }

  /**
   * The UDP flows of a family, part by part (a part may be empty); returns whether the table changed, so that a flow may be
   * missing. Throws NetlinkError, SystemError.
   */
  *udpFlows(family: FlowFamily): Generator<readonly Flow[], boolean> {
    return yield* this.#lists.decoded(listRequest(family, this.#isFiltered), decodeFlow);
  }

  /**
   * The translated connections of both families without an answer: TCP in SYN_SENT, and SCTP in CLOSED, its state until an INIT
   * is answered (nf_conntrack_proto_sctp.c). The kernel filters by status since Linux 5.15; the decoder filters, too. Both families take one
   * walk through the table, whose time follows its size and not its entries. Yields, returns and throws as `udpFlows`.
   */
  *openings(): Generator<readonly Flow[], boolean> {
    return yield* this.#lists.decoded(openingsRequest(OPENING, this.#isFiltered), decodeOpening);
  }

  /** The same with those that IPVS translates, which has no status for it (ip_vs_nfct.c, ip_vs_update_conntrack). */
  *unanswered(): Generator<readonly Flow[], boolean> {
    return yield* this.#lists.decoded(openingsRequest(UNANSWERED, this.#isFiltered), decodeUnanswered);
  }

  /** Flows of all protocols and both families whose destination is translated. Yields, returns and throws as `udpFlows`. */
  *translated(): Generator<readonly Flow[], boolean> {
    return yield* this.#lists.decoded(openingsRequest(TRANSLATED, this.#isFiltered), decodeTranslated);
  }

  /** All flows of TCP, UDP and SCTP of both families. Yields, returns and throws as `udpFlows`. */
  *entries(): Generator<readonly FlowEntry[], boolean> {
    return yield* this.#lists.decoded(openingsRequest({ mask: 0, value: 0 }, false), decodeEntry);
  }

  /** Deletes flows; returns how many still existed. Throws NetlinkError for a refusal. */
  delete(flows: readonly Flow[]): number {
    let deleted = 0;
    for (let i = 0; i < flows.length; i += MAX_REQUESTS) {
      const requests = flows.slice(i, i + MAX_REQUESTS).map(deleteRequest);
      for (const error of this.#deletes.acknowledge(requests)) {
        if (error === undefined) deleted += 1;
        // The flow has ended, or another one has its tuple: the id tells them apart.
        else if (error.errno !== ENOENT) throw error;
      }
    }
    return deleted;
  }
}

/** Lists UDP flows; all flows of the family without `isFiltered`. */
export function listRequest(family: FlowFamily, isFiltered: boolean): NetlinkRequest {
  const flags = Buffer.alloc(4);
  flags.writeUInt32LE(FILTER_PROTOCOL);
  const filter = nested(CTA_FILTER, attribute(CTA_FILTER_ORIG_FLAGS, flags));
  const udp = nested(CTA_TUPLE_PROTO, attribute(CTA_PROTO_NUM, Buffer.from([IPPROTO_UDP])));
  return {
    type: netfilterType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET),
    flags: 0,
    body: isFiltered ? [netfilterHeader(family), nested(CTA_TUPLE_ORIG, udp), filter] : [netfilterHeader(family)],
  };
}

/** Lists connections of both families by their status; all flows without `isFiltered`. */
export function openingsRequest({ value, mask }: FlowStatus, isFiltered: boolean): NetlinkRequest {
  const filter = [attribute(CTA_STATUS, bigEndian(value)), attribute(CTA_STATUS_MASK, bigEndian(mask))];
  return {
    type: netfilterType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET),
    flags: 0,
    body: [netfilterHeader(), ...(isFiltered ? filter : [])],
  };
}

function bigEndian(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Deletes a flow. */
export function deleteRequest({ family, tuple, id }: Flow): NetlinkRequest {
  return {
    type: netfilterType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE),
    flags: 0,
    body: [netfilterHeader(family), nested(CTA_TUPLE_ORIG, tuple), attribute(CTA_ID, id)],
  };
}

/** A UDP flow; undefined for other protocols, and for a flow in a zone. */
export function decodeFlow(buffer: Buffer, { start, end }: Message): Flow | undefined {
  return flowOf(buffer, start + NFGENMSG, end, UDP);
}

/** A translated connection of TCP or SCTP without an answer; undefined for any other flow, and for one in a zone. */
export function decodeOpening(buffer: Buffer, message: Message): Flow | undefined {
  return hasStatus(buffer, message, OPENING) ? openingOf(buffer, message) : undefined;
}

/** A translated flow of any protocol; undefined for any other, and for one in a zone. */
function decodeTranslated(buffer: Buffer, message: Message): Flow | undefined {
  if (!hasStatus(buffer, message, TRANSLATED)) return undefined;
  const { start, end } = message;
  for (const kind of [TCP, UDP, SCTP]) {
    const flow = flowOf(buffer, start + NFGENMSG, end, kind);
    if (flow !== undefined) return flow;
  }
  return undefined;
}

/** A flow of TCP, UDP or SCTP; undefined for any other, and for one in a zone. */
function decodeEntry(buffer: Buffer, { start, end }: Message): FlowEntry | undefined {
  const body = start + NFGENMSG;
  const original = findAttribute(buffer, body, end, CTA_TUPLE_ORIG);
  if (original < 0 || findAttribute(buffer, body, end, CTA_ZONE) >= 0) return undefined;
  const originalEnd = original + valueLength(buffer, original);
  for (const { name: protocol, number } of [TCP, UDP, SCTP]) {
    const destination = socketOf(buffer, original, originalEnd, { ...DESTINATION, number });
    const source = socketOf(buffer, original, originalEnd, { ...SOURCE, number });
    if (destination === undefined || source === undefined) continue;
    return { family: familyAt(buffer, body), protocol, source, destination };
  }
  return undefined;
}

function familyAt(buffer: Buffer, body: number): FlowFamily {
  return buffer[body - NFGENMSG] === AF_INET6 ? 'IPv6' : 'IPv4';
}

/** As `decodeOpening`, also for one that IPVS translates: its tuples tell. */
export function decodeUnanswered(buffer: Buffer, message: Message): Flow | undefined {
  if (!hasStatus(buffer, message, UNANSWERED)) return undefined;
  const flow = openingOf(buffer, message);
  return flow === undefined || flow.destination === flow.replySource ? undefined : flow;
}

function hasStatus(buffer: Buffer, { start, end }: Message, { mask, value }: FlowStatus): boolean {
  const status = findAttribute(buffer, start + NFGENMSG, end, CTA_STATUS, 4);
  return status >= 0 && (buffer.readUInt32BE(status) & mask) === value;
}

/** A connection of TCP or SCTP whose opening was not answered. */
function openingOf(buffer: Buffer, { start, end }: Message): Flow | undefined {
  const body = start + NFGENMSG;
  const info = findAttribute(buffer, body, end, CTA_PROTOINFO);
  if (info < 0) return undefined;
  const infoEnd = info + valueLength(buffer, info);
  for (const kind of [TCP, SCTP]) {
    const own = findAttribute(buffer, info, infoEnd, kind.info);
    if (own < 0) continue;
    const state = findAttribute(buffer, own, own + valueLength(buffer, own), kind.stateAt, 1);
    return state >= 0 && buffer[state] === kind.opening ? flowOf(buffer, body, end, kind) : undefined;
  }
  return undefined;
}

function flowOf(buffer: Buffer, body: number, end: number, { name: protocol, number }: Transported): Flow | undefined {
  const original = findAttribute(buffer, body, end, CTA_TUPLE_ORIG);
  const reply = findAttribute(buffer, body, end, CTA_TUPLE_REPLY);
  const id = findAttribute(buffer, body, end, CTA_ID);
  if (original < 0 || reply < 0 || id < 0 || findAttribute(buffer, body, end, CTA_ZONE) >= 0) return undefined;
  const originalEnd = original + valueLength(buffer, original);
  const destination = socketOf(buffer, original, originalEnd, { ...DESTINATION, number });
  const replySource = socketOf(buffer, reply, reply + valueLength(buffer, reply), { ...SOURCE, number });
  if (destination === undefined || replySource === undefined) return undefined;
  return {
    family: familyAt(buffer, body),
    protocol,
    destination,
    replySource,
    tuple: buffer.subarray(original, originalEnd),
    id: buffer.subarray(id, id + valueLength(buffer, id)),
  };
}

interface Transported {
  readonly name: Flow['protocol'];
  readonly number: number;
}

const UDP: Transported = { name: 'UDP', number: IPPROTO_UDP };
/** With the attribute of its protocol, the attribute of the state in it, and the state before an answer. */
const TCP = {
  name: 'TCP',
  number: IPPROTO_TCP,
  info: CTA_PROTOINFO_TCP,
  stateAt: CTA_PROTOINFO_TCP_STATE,
  opening: TCP_CONNTRACK_SYN_SENT,
} as const;
const SCTP = {
  name: 'SCTP',
  number: IPPROTO_SCTP,
  info: CTA_PROTOINFO_SCTP,
  stateAt: CTA_PROTOINFO_SCTP_STATE,
  opening: SCTP_CONNTRACK_CLOSED,
} as const;

interface Side {
  readonly v4: number;
  readonly v6: number;
  readonly port: number;
}

const SOURCE: Side = { v4: CTA_IP_V4_SRC, v6: CTA_IP_V6_SRC, port: CTA_PROTO_SRC_PORT };
const DESTINATION: Side = { v4: CTA_IP_V4_DST, v6: CTA_IP_V6_DST, port: CTA_PROTO_DST_PORT };

/** Address and port of one side of a tuple as bytes; undefined for another protocol, and in a zone. */
function socketOf(
  buffer: Buffer,
  start: number,
  end: number,
  side: Side & { readonly number: number },
): string | undefined {
  const ip = findAttribute(buffer, start, end, CTA_TUPLE_IP);
  const proto = findAttribute(buffer, start, end, CTA_TUPLE_PROTO);
  if (ip < 0 || proto < 0 || findAttribute(buffer, start, end, CTA_TUPLE_ZONE) >= 0) return undefined;
  const protoEnd = proto + valueLength(buffer, proto);
  const number = findAttribute(buffer, proto, protoEnd, CTA_PROTO_NUM, 1);
  if (number < 0 || buffer[number] !== side.number) return undefined;
  const port = findAttribute(buffer, proto, protoEnd, side.port, 2);
  const ipEnd = ip + valueLength(buffer, ip);
  let address = findAttribute(buffer, ip, ipEnd, side.v4);
  if (address < 0) address = findAttribute(buffer, ip, ipEnd, side.v6);
  if (port < 0 || address < 0) return undefined;
  return addressAt(buffer, address).toString('latin1') + buffer.toString('latin1', port, port + 2);
}
