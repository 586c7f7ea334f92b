/** nftables over nfnetlink (linux/netfilter/nf_tables.h): whether there is a chain, and whether anything changed. */
import { BodyWriter } from './body-writer.ts';
import { findAttribute, type Message, NetlinkError, type Request, valueLength } from './netlink.ts';
import { NetlinkSocket, openTransport, type Transport } from './netlink-socket.ts';
import { NETLINK_NETFILTER, type NetfilterFamily, NFGENMSG, netfilterHeader, netfilterType } from './nfnetlink.ts';

export const NFNL_SUBSYS_NFTABLES = 10;
export const NFT_MSG_NEWCHAIN = 3;
export const NFT_MSG_GETCHAIN = 4;
export const NFT_MSG_NEWGEN = 15;
export const NFT_MSG_GETGEN = 16;
export const NFTA_GEN_ID = 1;
export const NFTA_CHAIN_TABLE = 1;
export const NFTA_CHAIN_NAME = 3;
const ENOENT = 2;

/** A chain of `table ip …` or `table ip6 …`: NFPROTO_IPV4 and NFPROTO_IPV6 are AF_INET and AF_INET6. */
export interface ChainId {
  readonly family: NetfilterFamily;
  readonly table: string;
  readonly chain: string;
}

const writer = new BodyWriter();

export class NftablesSocket {
  readonly #socket: NetlinkSocket;

  /** Throws SystemError. */
  constructor(open: () => Transport = () => openTransport(NETLINK_NETFILTER)) {
    this.#socket = new NetlinkSocket(open());
  }

  close(): void {
    this.#socket.close();
  }

  /**
   * Number of the ruleset: another after each transaction of anybody in this network namespace. Throws NetlinkError,
   * SystemError; RangeError when the kernel tells none.
   */
  generation(): number {
    const said = this.#socket.ask(generationRequest(), decodeGeneration);
    if (said === undefined) throw new RangeError('nftables was asked for the generation of its ruleset and told none');
    return said;
  }

  /** Throws NetlinkError, SystemError; RangeError when the kernel tells of another chain. */
  hasChain(id: ChainId): boolean {
    try {
      const said = this.#socket.ask(chainRequest(id), decodeChain);
      if (said !== id.chain) throw new RangeError(`nftables was asked for the chain ${id.chain} and told ${said}`);
      return true;
    } catch (error) {
      // The chain, or its table.
      if (error instanceof NetlinkError && error.errno === ENOENT) return false;
      throw error;
    }
  }
}

/** The first message of every nft: which generation of the ruleset there is. */
export function generationRequest(): Request {
  const body = writer.begin(netfilterHeader('IPv4'));
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN), flags: 0, body: [body.end()] };
}

/** undefined when the message tells of none. */
export function decodeGeneration(buffer: Buffer, { type, start, end }: Message): number | undefined {
  if (type !== netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWGEN)) return undefined;
  const at = findAttribute(buffer, start + NFGENMSG, end, NFTA_GEN_ID);
  return at < 0 || valueLength(buffer, at) !== 4 ? undefined : buffer.readUInt32BE(at);
}

/** `nft list chain`, without its rules */
export function chainRequest({ family, table, chain }: ChainId): Request {
  const body = writer.begin(netfilterHeader(family)).text(NFTA_CHAIN_TABLE, table).text(NFTA_CHAIN_NAME, chain);
  return { type: netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_GETCHAIN), flags: 0, body: [body.end()] };
}

/** The chain's name; undefined when the message tells of none. */
export function decodeChain(buffer: Buffer, { type, start, end }: Message): string | undefined {
  if (type !== netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWCHAIN)) return undefined;
  const at = findAttribute(buffer, start + NFGENMSG, end, NFTA_CHAIN_NAME);
  // NUL-terminated.
  return at < 0 ? undefined : buffer.toString('latin1', at, at + Math.max(0, valueLength(buffer, at) - 1));
}
