/** The rules of one chain with their handles, which traces name (linux/netfilter/nf_tables.h). */
import { ENOENT } from '../errno.ts';
import {
  attributes,
  findAttribute,
  type Message,
  NetlinkError,
  type NetlinkRequest,
  textAt,
  valueLength,
} from '../netlink.ts';
import type { NetlinkSocket } from '../netlink-socket.ts';
import { NFGENMSG } from '../nfnetlink.ts';
import {
  NFPROTO_INET,
  NFT_MSG_GETRULE,
  NFTA_EXPR_NAME,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_RULE_HANDLE,
  NFTA_RULE_TABLE,
  NFTA_RULE_USERDATA,
} from './constants.ts';
import { commentAt } from './listings.ts';
import { request } from './request.ts';

export interface HandledRule {
  readonly handle: bigint;
  /** "" for none */
  readonly comment: string;
  /** The names of its expressions, such as `cmp`, `nat`, `reject`. */
  readonly expressions: readonly string[];
}

/** A chain of a table of any program. */
export interface ForeignChain {
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly table: string;
  readonly chain: string;
}

/** The rules of a chain in their order; empty when there is no such chain. Throws NetlinkError. */
export function chainRules(socket: NetlinkSocket, id: ForeignChain): HandledRule[] {
  const parts = socket.decoded(chainRulesRequest(id), (buffer, message) => decodeHandledRule(buffer, message, id));
  try {
    return [...parts].flat();
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENOENT) return [];
    throw error;
  }
}

/** `nft -a list chain`, only its rules. Kernels that ignore the chain in this request list all rules of the table. */
export function chainRulesRequest({ family, table, chain }: ForeignChain): NetlinkRequest {
  const asked = request(NFT_MSG_GETRULE, { family: family === 'ip6' ? 'IPv6' : 'IPv4', table }, 0, (body) =>
    body.text(NFTA_RULE_TABLE, table).text(NFTA_RULE_CHAIN, chain),
  );
  if (family === 'inet') for (const bytes of asked.body) bytes[0] = NFPROTO_INET;
  return asked;
}

/** A rule of the chain; undefined when the message is about another chain. */
export function decodeHandledRule(
  buffer: Buffer,
  { start, end }: Message,
  { table, chain }: Pick<ForeignChain, 'table' | 'chain'>,
): HandledRule | undefined {
  const from = start + NFGENMSG;
  if (textAt(buffer, from, end, NFTA_RULE_TABLE) !== table) return undefined;
  if (textAt(buffer, from, end, NFTA_RULE_CHAIN) !== chain) return undefined;
  const handle = findAttribute(buffer, from, end, NFTA_RULE_HANDLE, 8);
  if (handle < 0) return undefined;
  const comment = commentAt(buffer, findAttribute(buffer, from, end, NFTA_RULE_USERDATA));
  const expressions: string[] = [];
  const list = findAttribute(buffer, from, end, NFTA_RULE_EXPRESSIONS);
  if (list >= 0) {
    for (const [one, length] of attributes(buffer, list, list + valueLength(buffer, list)))
      expressions.push(textAt(buffer, one, one + length, NFTA_EXPR_NAME) ?? '');
  }
  return { handle: buffer.readBigUInt64BE(handle), comment, expressions };
}
