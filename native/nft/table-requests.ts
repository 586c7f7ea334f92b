/** Tables, chains and rules of nftables as requests (linux/netfilter/nf_tables.h). */
import { type NetlinkRequest, NLM_F_CREATE, NLM_F_EXCL } from '../netlink.ts';
import { NFT_MSG_NEWCHAIN, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE } from '../nftables.ts';
import {
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELRULE,
  NFT_MSG_DELTABLE,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWTABLE,
  NFT_TABLE_F_DORMANT,
  NFT_TABLE_F_OWNER,
  NFTA_CHAIN_HOOK,
  NFTA_CHAIN_TYPE,
  NFTA_HOOK_HOOKNUM,
  NFTA_HOOK_PRIORITY,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_RULE_TABLE,
  NFTA_RULE_USERDATA,
  NFTA_TABLE_FLAGS,
  NFTA_TABLE_NAME,
  NFTA_TABLE_USERDATA,
} from './constants.ts';
import type { ExpressionWriter } from './expressions.ts';
import { request, type TableId, UDATA_COMMENT } from './request.ts';

const NLM_F_APPEND = 0x800;
/** Bytes of the longest comment with its NUL (NFTNL_UDATA_COMMENT_MAXLEN). */
const MAX_COMMENT_BYTES = 128;

/** `nft add table`. The comment names the owner for people; kernels before 5.10 drop it. */
export function addTable(id: TableId, comment: string): NetlinkRequest {
  return newTable(id, NLM_F_CREATE, 0, comment);
}

/**
 * `nft create table`: refused when it exists. With `isOwned` only this socket may change the table, and the kernel removes it when the
 * socket closes (`flags owner`, since Linux 5.12).
 */
export function createTable(id: TableId, comment: string, isOwned: boolean): NetlinkRequest {
  return newTable(id, NLM_F_CREATE | NLM_F_EXCL, isOwned ? NFT_TABLE_F_OWNER : 0, comment);
}

function newTable(id: TableId, flags: number, tableFlags: number, comment: string): NetlinkRequest {
  return request(NFT_MSG_NEWTABLE, id, flags, (body) =>
    body
      .text(NFTA_TABLE_NAME, id.table)
      .u32be(NFTA_TABLE_FLAGS, tableFlags)
      .bytes(NFTA_TABLE_USERDATA, userComment(comment)),
  );
}

/** A comment in nft's form of user data. Throws RangeError when it is too long. */
function userComment(comment: string): Buffer {
  const text = Buffer.from(`${comment}\0`);
  if (text.length > MAX_COMMENT_BYTES)
    throw new RangeError(`nftables: a comment of more than ${MAX_COMMENT_BYTES} bytes`);
  return Buffer.concat([Buffer.from([UDATA_COMMENT, text.length]), text]);
}

/**
 * `nft add table … { flags dormant; }`, or without the flag, for a table that exists: the kernel calls a dormant table for no packet, and keeps
 * all that is in it. One that does not exist would be made.
 */
export function setDormant(id: TableId, isDormant: boolean): NetlinkRequest {
  return request(NFT_MSG_NEWTABLE, id, 0, (body) =>
    body.text(NFTA_TABLE_NAME, id.table).u32be(NFTA_TABLE_FLAGS, isDormant ? NFT_TABLE_F_DORMANT : 0),
  );
}

/** `nft delete table` */
export function deleteTable(id: TableId): NetlinkRequest {
  return request(NFT_MSG_DELTABLE, id, 0, (body) => body.text(NFTA_TABLE_NAME, id.table));
}

export const HOOKS = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const;

/** The hook of a base chain. */
export interface BaseChain {
  readonly type: 'nat' | 'filter';
  readonly hook: keyof typeof HOOKS;
  readonly priority: number;
}

/** `nft add chain`; with `base` the kernel calls the chain at its hook. */
export function addChain(id: TableId, name: string, base?: BaseChain): NetlinkRequest {
  return request(NFT_MSG_NEWCHAIN, id, NLM_F_CREATE, (body) => {
    body.text(NFTA_CHAIN_TABLE, id.table).text(NFTA_CHAIN_NAME, name);
    if (base === undefined) return;
    body
      .nest(NFTA_CHAIN_HOOK, (hook) =>
        hook.u32be(NFTA_HOOK_HOOKNUM, HOOKS[base.hook]).u32be(NFTA_HOOK_PRIORITY, base.priority >>> 0),
      )
      .text(NFTA_CHAIN_TYPE, base.type);
  });
}

/** `nft delete chain` */
export function deleteChain(id: TableId, name: string): NetlinkRequest {
  return request(NFT_MSG_DELCHAIN, id, 0, (body) => body.text(NFTA_CHAIN_TABLE, id.table).text(NFTA_CHAIN_NAME, name));
}

/** `nft flush chain` */
export function flushChain(id: TableId, name: string): NetlinkRequest {
  return request(NFT_MSG_DELRULE, id, 0, (body) => body.text(NFTA_RULE_TABLE, id.table).text(NFTA_RULE_CHAIN, name));
}

/** `nft add rule`. The comment identifies the rule when it is read back; it has at most 127 bytes. Throws RangeError when it is longer. */
export function addRule(
  id: TableId,
  chain: string,
  expressions: readonly ExpressionWriter[],
  comment: string,
): NetlinkRequest {
  return request(NFT_MSG_NEWRULE, id, NLM_F_CREATE | NLM_F_APPEND, (body) => {
    body.text(NFTA_RULE_TABLE, id.table).text(NFTA_RULE_CHAIN, chain);
    body.nest(NFTA_RULE_EXPRESSIONS, (list) => {
      for (const write of expressions) write(list);
    });
    body.bytes(NFTA_RULE_USERDATA, userComment(comment));
  });
}
