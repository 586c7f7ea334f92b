/** The parts that all requests and listings of nftables share. */
import { BodyWriter } from '../body-writer.ts';
import type { NetlinkRequest } from '../netlink.ts';
import { type NetfilterFamily, netfilterHeader, netfilterType } from '../nfnetlink.ts';
import { NFNL_SUBSYS_NFTABLES } from '../nftables.ts';

/** NFTNL_UDATA_RULE_COMMENT, NFTNL_UDATA_TABLE_COMMENT */
export const UDATA_COMMENT = 0;
/** The expression that counts packets. */
export const COUNTER = 'counter';

/** A table of nftables. */
export interface TableId {
  readonly family: NetfilterFamily;
  readonly table: string;
}

const writer = new BodyWriter(65_536);

/** A request with the header of nftables' messages; `write` adds the attributes. */
export function request(
  message: number,
  { family }: TableId,
  flags: number,
  write: (body: BodyWriter) => void,
): NetlinkRequest {
  const body = writer.begin(netfilterHeader(family));
  write(body);
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, message), flags, body: [body.end()] };
}
