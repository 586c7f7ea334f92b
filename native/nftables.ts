/** Questions to nftables (linux/netfilter/nf_tables.h): whether a chain exists, the counters of its rules, the generation of the ruleset. */
import { BodyWriter } from './body-writer.ts';
import { EAFNOSUPPORT, EINVAL, ENOENT, EOPNOTSUPP, EPROTONOSUPPORT } from './errno.ts';
import {
  attributes,
  findAttribute,
  type Message,
  NetlinkError,
  type NetlinkRequest,
  textAt,
  valueLength,
} from './netlink.ts';
import { NetlinkSocket, type NetlinkTransport, openTransport } from './netlink-socket.ts';
import { NETLINK_NETFILTER, type NetfilterFamily, NFGENMSG, netfilterHeader, netfilterType } from './nfnetlink.ts';
import {
  NFT_MSG_GETRULE,
  NFT_MSG_NEWRULE,
  NFTA_COUNTER_PACKETS,
  NFTA_EXPR_DATA,
  NFTA_EXPR_NAME,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_RULE_TABLE,
} from './nft/constants.ts';

export const NFNL_SUBSYS_NFTABLES = 10;
export const NFT_MSG_NEWCHAIN = 3;
export const NFT_MSG_GETCHAIN = 4;
export const NFT_MSG_NEWGEN = 15;
export const NFT_MSG_GETGEN = 16;
export const NFTA_GEN_ID = 1;
export const NFTA_GEN_PROC_PID = 2;
export const NFTA_GEN_PROC_NAME = 3;
export const NFTA_CHAIN_TABLE = 1;
export const NFTA_CHAIN_NAME = 3;

/** Answers of a kernel without nftables; EINVAL is nfnetlink's for a subsystem that it does not know (nfnetlink.c). */
export const NO_NFTABLES: readonly number[] = [EINVAL, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT];

/** A chain of `table ip …` or `table ip6 …`: NFPROTO_IPV4 and NFPROTO_IPV6 are AF_INET and AF_INET6. */
export interface ChainId {
  readonly family: NetfilterFamily;
  readonly table: string;
  readonly chain: string;
}

const writer = new BodyWriter();

/** A socket for these questions. */
export class NftablesSocket {
  readonly #socket: NetlinkSocket;

  /** Throws SystemError. */
  constructor(open: () => NetlinkTransport = () => openTransport(NETLINK_NETFILTER)) {
    this.#socket = new NetlinkSocket(open());
  }

  close(): void {
    this.#socket.close();
  }

  /**
   * The generation of the ruleset: a new number after each transaction of any program in this network namespace. Throws
   * NetlinkError, SystemError; RangeError when the answer has no generation.
   */
  generation(): number {
    const generation = this.#socket.ask(generationRequest(), decodeGeneration);
    if (generation === undefined) throw new RangeError('nftables answered without the generation of its ruleset');
    return generation;
  }

  /** Packets that matched each rule of a chain, in the order of the rules; empty for a missing chain. Throws NetlinkError, SystemError. */
  ruleCounters(id: ChainId): number[] {
    const parts = this.#socket.decoded(rulesRequest(id), (buffer, message) => decodeRuleCounter(buffer, message, id));
    return [...parts].flat();
  }

  /** Whether a chain exists. Throws NetlinkError, SystemError; RangeError when the answer is about another chain. */
  hasChain(id: ChainId): boolean {
    try {
      const name = this.#socket.ask(chainRequest(id), decodeChain);
      if (name !== id.chain) throw new RangeError(`nftables answered about the chain ${name} instead of ${id.chain}`);
      return true;
    } catch (error) {
      // The chain is missing, or its table.
      if (error instanceof NetlinkError && error.errno === ENOENT) return false;
      throw error;
    }
  }
}

/** `nft list chain`, only its rules. Kernels that ignore the chain in this request list all rules of the table. */
export function rulesRequest({ family, table, chain }: ChainId): NetlinkRequest {
  const body = writer.begin(netfilterHeader(family)).text(NFTA_RULE_TABLE, table).text(NFTA_RULE_CHAIN, chain);
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETRULE), flags: 0, body: [body.end()] };
}

/** Packets that matched a rule of this chain, 0 when it has no counter; undefined when the message is about another chain. */
export function decodeRuleCounter(
  buffer: Buffer,
  { type, start, end }: Message,
  { table, chain }: ChainId,
): number | undefined {
  if (type !== netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWRULE)) return undefined;
  const from = start + NFGENMSG;
  if (textAt(buffer, from, end, NFTA_RULE_TABLE) !== table) return undefined;
  if (textAt(buffer, from, end, NFTA_RULE_CHAIN) !== chain) return undefined;
  const list = findAttribute(buffer, from, end, NFTA_RULE_EXPRESSIONS);
  return list < 0 ? 0 : (countedPackets(buffer, list, list + valueLength(buffer, list)) ?? 0);
}

/** Packets that the counter of a rule has counted, from the content of its NFTA_RULE_EXPRESSIONS; undefined for a rule without one. */
export function countedPackets(buffer: Buffer, list: number, stop: number): number | undefined {
  for (const [at, length] of attributes(buffer, list, stop)) {
    if (textAt(buffer, at, at + length, NFTA_EXPR_NAME) !== 'counter') continue;
    const data = findAttribute(buffer, at, at + length, NFTA_EXPR_DATA);
    const end = data < 0 ? -1 : data + valueLength(buffer, data);
    const packets = data < 0 ? -1 : findAttribute(buffer, data, end, NFTA_COUNTER_PACKETS, 8);
    return packets < 0 ? 0 : Number(buffer.readBigUInt64BE(packets));
  }
  return undefined;
}

/** Asks for the generation of the ruleset. */
export function generationRequest(): NetlinkRequest {
  const body = writer.begin(netfilterHeader('IPv4'));
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN), flags: 0, body: [body.end()] };
}

/** The generation of the ruleset; undefined for another message. */
export function decodeGeneration(buffer: Buffer, { type, start, end }: Message): number | undefined {
  if (type !== netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWGEN)) return undefined;
  const at = findAttribute(buffer, start + NFGENMSG, end, NFTA_GEN_ID);
  return at < 0 || valueLength(buffer, at) !== 4 ? undefined : buffer.readUInt32BE(at);
}

/** The program that committed a transaction. */
export interface Writer {
  readonly pid: number;
  /** The name of its thread, at most 15 bytes (TASK_COMM_LEN). */
  readonly name: string;
}

/**
 * The program of a transaction, from the message with the new generation that the kernel sends to the group of nftables. The answer to
 * `generationRequest` names the program that asks (nf_tables_fill_gen_info), and is no use for this. undefined for another message.
 */
export function decodeWriter(buffer: Buffer, { type, start, end }: Message): Writer | undefined {
  if (type !== netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWGEN)) return undefined;
  const at = findAttribute(buffer, start + NFGENMSG, end, NFTA_GEN_PROC_PID);
  if (at < 0 || valueLength(buffer, at) !== 4) return undefined;
  return { pid: buffer.readUInt32BE(at), name: textAt(buffer, start + NFGENMSG, end, NFTA_GEN_PROC_NAME) ?? '' };
}

/** `nft list chain`, without its rules */
export function chainRequest({ family, table, chain }: ChainId): NetlinkRequest {
  const body = writer.begin(netfilterHeader(family)).text(NFTA_CHAIN_TABLE, table).text(NFTA_CHAIN_NAME, chain);
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETCHAIN), flags: 0, body: [body.end()] };
}

/** The chain's name; undefined for another message. */
export function decodeChain(buffer: Buffer, { type, start, end }: Message): string | undefined {
  if (type !== netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWCHAIN)) return undefined;
  return textAt(buffer, start + NFGENMSG, end, NFTA_CHAIN_NAME);
}
