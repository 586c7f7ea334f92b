/** IPVS's counts of each virtual server (ip_vs_genl_fill_stats64 in net/netfilter/ipvs/ip_vs_ctl.c). */
import { GENERIC_HEADER } from './generic.ts';
import { decodeServer, IPVS_CMD_ATTR_SERVICE, type IpvsRequests, type ServerId } from './ipvs.ts';
import { findAttribute, type Message, valueLength } from './netlink.ts';
import type { NetlinkSocket } from './netlink-socket.ts';

/** Before Linux 4.1 the kernel has only the numbers of 32 bits, in which bytes have 64. */
export const IPVS_SVC_ATTR_STATS = 10;
export const IPVS_SVC_ATTR_STATS64 = 12;
export const IPVS_STATS_ATTR_CONNS = 1;
export const IPVS_STATS_ATTR_INBYTES = 4;
export const IPVS_STATS_ATTR_OUTBYTES = 5;

/** Counts since the server was made. */
export interface ServerCounts extends ServerId {
  readonly connections: number;
  /** From clients. */
  readonly inBytes: number;
  /** To clients. */
  readonly outBytes: number;
}

/** The counts of all virtual servers, part by part, as `virtualServers`. Throws NetlinkError. */
export function* serverCounts(
  socket: NetlinkSocket,
  requests: IpvsRequests,
): Generator<readonly ServerCounts[], boolean> {
  return yield* socket.decoded(requests.listServers(), decodeCounts);
}

/** undefined for a server by firewall mark, and one without counts. */
export function decodeCounts(buffer: Buffer, message: Message): ServerCounts | undefined {
  const server = decodeServer(buffer, message);
  const nest = findAttribute(buffer, message.start + GENERIC_HEADER, message.end, IPVS_CMD_ATTR_SERVICE);
  if (server === undefined || nest < 0) return undefined;
  const end = nest + valueLength(buffer, nest);
  const wide = findAttribute(buffer, nest, end, IPVS_SVC_ATTR_STATS64);
  const counts = wide < 0 ? findAttribute(buffer, nest, end, IPVS_SVC_ATTR_STATS) : wide;
  if (counts < 0) return undefined;
  const stop = counts + valueLength(buffer, counts);
  const number = (type: number): number => {
    const at = findAttribute(buffer, counts, stop, type, 4);
    if (at < 0) return 0;
    return valueLength(buffer, at) < 8 ? buffer.readUInt32LE(at) : Number(buffer.readBigUInt64LE(at));
  };
  const { protocol, address, port } = server;
  return {
    ...{ protocol, address, port, connections: number(IPVS_STATS_ATTR_CONNS) },
    ...{ inBytes: number(IPVS_STATS_ATTR_INBYTES), outBytes: number(IPVS_STATS_ATTR_OUTBYTES) },
  };
}
