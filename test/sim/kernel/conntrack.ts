/**
 * conntrack of a simulated machine: flows that clients made, until they time out or somebody deletes them. The agent's own client lists and
 * deletes them, at the bytes of netlink (nf_conntrack_netlink.c).
 */
import {
  CTA_FILTER,
  CTA_ID,
  CTA_IP_V4_DST,
  CTA_IP_V4_SRC,
  CTA_IP_V6_DST,
  CTA_IP_V6_SRC,
  CTA_PROTO_DST_PORT,
  CTA_PROTO_NUM,
  CTA_PROTO_SRC_PORT,
  CTA_PROTOINFO,
  CTA_PROTOINFO_SCTP,
  CTA_PROTOINFO_SCTP_STATE,
  CTA_PROTOINFO_TCP,
  CTA_PROTOINFO_TCP_STATE,
  CTA_STATUS,
  CTA_STATUS_MASK,
  CTA_TUPLE_IP,
  CTA_TUPLE_ORIG,
  CTA_TUPLE_PROTO,
  CTA_TUPLE_REPLY,
  IPCTNL_MSG_CT_DELETE,
  IPCTNL_MSG_CT_GET,
  IPS_DST_NAT,
  IPS_SEEN_REPLY,
  NFNL_SUBSYS_CTNETLINK,
  SCTP_CONNTRACK_CLOSED,
  TCP_CONNTRACK_SYN_SENT,
} from '../../../native/conntrack.ts';
import { EINVAL, ENOENT, EOPNOTSUPP } from '../../../native/errno.ts';
import { AF_UNSPEC } from '../../../native/libc.ts';
import { attribute, findAttribute, HEADER_LENGTH, nested, valueLength } from '../../../native/netlink.ts';
import { familyNumber, NFGENMSG, netfilterHeader, netfilterType } from '../../../native/nfnetlink.ts';
import { type Address, addressOctets, familyOf, type Protocol } from '../../../src/base/address.ts';
import { flowTableOpener, type OpenFlowTable } from '../../../src/kernel/conntrack.ts';
import type { SettingFiles } from '../../../src/kernel/sysctls.ts';
import { PROTOCOL_NUMBERS } from '../../../src/kernel/traced-packets.ts';
import type { SimProcess } from '../engine/process.ts';
import type { SimTime } from '../engine/time.ts';
import { Refused, type Request, u16, u32 } from './netlink/format.ts';
import type { Listed } from './netlink/listing.ts';
import { RequestPart } from './netlink/request-part.ts';
import { transportTo } from './netlink/transports.ts';

const GET = netfilterType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET);
const DELETE = netfilterType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE);
const IPCTNL_MSG_CT_NEW = 0;
/** The states of a connection before an answer, and any later one. */
const TCP = { info: CTA_PROTOINFO_TCP, at: CTA_PROTOINFO_TCP_STATE, opening: TCP_CONNTRACK_SYN_SENT } as const;
const SCTP = { info: CTA_PROTOINFO_SCTP, at: CTA_PROTOINFO_SCTP_STATE, opening: SCTP_CONNTRACK_CLOSED } as const;
const ESTABLISHED = 3;

/** The two ends of a flow, and whether an answer was seen. */
export interface FlowFacts {
  readonly protocol: Protocol;
  readonly source: { readonly address: Address; readonly port: number };
  readonly destination: { readonly address: Address; readonly port: number };
  /** The source of the answers: an endpoint, or the destination where nobody translates. */
  readonly answers: { readonly address: Address; readonly port: number };
  readonly isAnswered: boolean;
}

interface Entry {
  readonly id: number;
  facts: FlowFacts;
  until: number;
}

export class SimConntrack {
  readonly #time: SimTime;
  readonly #part: RequestPart;
  readonly #entries = new Map<string, Entry>();
  #ids = 0;

  constructor(time: SimTime) {
    this.#time = time;
    this.#part = new RequestPart('conntrack', {
      what: ({ type }) => (type === GET ? 'list flows' : 'delete a flow'),
      answer: (request) => this.#delete(request),
      list: (request) => this.#list(request),
    });
  }

  get flows(): readonly FlowFacts[] {
    this.#expire();
    return [...this.#entries.values()].map(({ facts }) => facts);
  }

  /** The flow that a client's next packet belongs to; undefined: the rules decide. */
  find(client: Pick<FlowFacts, 'protocol' | 'source' | 'destination'>): FlowFacts | undefined {
    this.#expire();
    return this.#entries.get(keyOf(client))?.facts;
  }

  /** A client's packet: it makes a flow, or keeps the one that exists, for so many seconds. */
  send(facts: FlowFacts, seconds: number): FlowFacts {
    this.#expire();
    const key = keyOf(facts);
    const until = this.#time.now + seconds * 1000;
    const found = this.#entries.get(key);
    if (found !== undefined) {
      found.until = until;
      if (facts.isAnswered) found.facts = { ...found.facts, isAnswered: true };
      return found.facts;
    }
    this.#entries.set(key, { id: ++this.#ids, facts, until });
    return facts;
  }

  /** The agent's client in a process. */
  open(process: SimProcess, sysctls: Pick<SettingFiles, 'read'>): OpenFlowTable {
    return flowTableOpener({ sysctls, open: () => transportTo(this.#part, process) });
  }

  /** Flows by their order in the kernel's table: a new one is not in a listing that began before. */
  #list({ type, bytes }: Request): Listed {
    if (type !== GET) throw new Refused(EOPNOTSUPP);
    this.#expire();
    const isAsked = filterOf(bytes);
    const keys = [...this.#entries].filter(([, { facts }]) => isAsked(facts)).map(([key]) => key);
    return {
      entries: () =>
        keys.map((key) => () => {
          const entry = this.#entries.get(key);
          return entry && { type: netfilterType(NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_NEW), body: bodyOf(entry) };
        }),
    };
  }

  /** A flow goes where its tuple and its id are those of the request (ctnetlink_del_conntrack). */
  #delete({ type, bytes }: Request): readonly [] {
    if (type !== DELETE) throw new Refused(EOPNOTSUPP);
    this.#expire();
    const [tuple, id] = [valueIn(bytes, CTA_TUPLE_ORIG), valueIn(bytes, CTA_ID)];
    for (const [key, entry] of this.#entries) {
      if (!originalTuple(entry.facts).equals(tuple) || !u32(entry.id).equals(id)) continue;
      this.#entries.delete(key);
      return [];
    }
    throw new Refused(ENOENT);
  }

  #expire(): void {
    for (const [key, { until }] of this.#entries) if (until <= this.#time.now) this.#entries.delete(key);
  }
}

function isTranslated({ destination, answers }: FlowFacts): boolean {
  return destination.address !== answers.address || destination.port !== answers.port;
}

function keyOf({ protocol, source, destination }: Pick<FlowFacts, 'protocol' | 'source' | 'destination'>): string {
  return `${protocol} ${source.address} ${source.port} ${destination.address} ${destination.port}`;
}

function bodyOf({ id, facts }: Entry): Buffer {
  const { destination, answers, source, isAnswered } = facts;
  const state = facts.protocol === 'TCP' ? TCP : facts.protocol === 'SCTP' ? SCTP : undefined;
  const opened = state === undefined ? [] : [stateAttribute(state, isAnswered)];
  return Buffer.concat([
    netfilterHeader(familyOf(destination.address)),
    nested(CTA_TUPLE_ORIG, originalTuple(facts)),
    nested(CTA_TUPLE_REPLY, tupleOf(facts.protocol, answers, source)),
    attribute(CTA_STATUS, u32(statusOf(facts))),
    ...opened,
    attribute(CTA_ID, u32(id)),
  ]);
}

function stateAttribute({ info, at, opening }: typeof TCP | typeof SCTP, isAnswered: boolean): Buffer {
  return nested(CTA_PROTOINFO, nested(info, attribute(at, Buffer.from([isAnswered ? ESTABLISHED : opening]))));
}

function statusOf(facts: FlowFacts): number {
  return (facts.isAnswered ? IPS_SEEN_REPLY : 0) | (isTranslated(facts) ? IPS_DST_NAT : 0);
}

function originalTuple({ protocol, source, destination }: FlowFacts): Buffer {
  return tupleOf(protocol, source, destination);
}

type End = FlowFacts['source'];

function tupleOf(protocol: Protocol, from: End, to: End): Buffer {
  const isIpv4 = familyOf(from.address) === 'IPv4';
  return Buffer.concat([
    nested(
      CTA_TUPLE_IP,
      attribute(isIpv4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, addressOctets(from.address)),
      attribute(isIpv4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, addressOctets(to.address)),
    ),
    nested(
      CTA_TUPLE_PROTO,
      attribute(CTA_PROTO_NUM, Buffer.from([PROTOCOL_NUMBERS[protocol]])),
      attribute(CTA_PROTO_SRC_PORT, u16(from.port)),
      attribute(CTA_PROTO_DST_PORT, u16(to.port)),
    ),
  ]);
}

/** Which flows a request asks for: by family, protocol (with CTA_FILTER) and status. */
function filterOf(bytes: Buffer): (facts: FlowFacts) => boolean {
  const family = bytes.readUInt8(HEADER_LENGTH);
  const number = findIn(bytes, CTA_FILTER) < 0 ? undefined : protocolIn(bytes);
  const [status, mask] = [CTA_STATUS, CTA_STATUS_MASK].map((type) => {
    const at = findIn(bytes, type);
    return at < 0 ? 0 : bytes.readUInt32BE(at);
  }) as [number, number];
  return (facts) => {
    const isOfFamily = family === AF_UNSPEC || family === familyNumber(familyOf(facts.destination.address));
    const isOfProtocol = number === undefined || number === PROTOCOL_NUMBERS[facts.protocol];
    return isOfFamily && isOfProtocol && (statusOf(facts) & mask) === status;
  };
}

function protocolIn(bytes: Buffer): number | undefined {
  const tuple = findIn(bytes, CTA_TUPLE_ORIG);
  const proto = findAttribute(bytes, tuple, tuple + valueLength(bytes, tuple), CTA_TUPLE_PROTO);
  return bytes[findAttribute(bytes, proto, proto + valueLength(bytes, proto), CTA_PROTO_NUM, 1)];
}

function findIn(bytes: Buffer, type: number): number {
  return findAttribute(bytes, HEADER_LENGTH + NFGENMSG, bytes.length, type);
}

function valueIn(bytes: Buffer, type: number): Buffer {
  const at = findIn(bytes, type);
  if (at < 0) throw new Refused(EINVAL);
  return bytes.subarray(at, at + valueLength(bytes, at));
}
