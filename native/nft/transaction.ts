/**
 * A transaction of nftables: the kernel carries out all of its requests, or none (nfnetlink's batches). With a generation of the
 * ruleset, the kernel refuses the transaction (ERESTART) when another program wrote since that generation.
 */
import type { NetlinkError, NetlinkRequest } from '../netlink.ts';
import type { NetlinkSocket } from '../netlink-socket.ts';
import { NFNL_SUBSYS_NFTABLES } from '../nftables.ts';
import { NFNL_BATCH_GENID, NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END } from './constants.ts';

/** struct nfgenmsg; its resource is the subsystem of the batch, in network order. */
const HEADER = Buffer.from([0, 0, 0, NFNL_SUBSYS_NFTABLES]);

/** The outcome of each request, in their order; all are undefined when the transaction was carried out. Throws NetlinkError, SystemError. */
export function commit(
  socket: NetlinkSocket,
  requests: readonly NetlinkRequest[],
  generation?: number,
): readonly (NetlinkError | undefined)[] {
  const body = generation === undefined ? [HEADER] : [HEADER, generationAttribute(generation)];
  const begin: NetlinkRequest = { type: NFNL_MSG_BATCH_BEGIN, flags: 0, body };
  return socket.batch(begin, requests, { type: NFNL_MSG_BATCH_END, flags: 0, body: [HEADER] });
}

function generationAttribute(generation: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(8, 0);
  bytes.writeUInt16LE(NFNL_BATCH_GENID, 2);
  bytes.writeUInt32BE(generation, 4);
  return bytes;
}
