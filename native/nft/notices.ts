/** The kernel's notices of each transaction, to the multicast group of nftables (nf_tables_api.c, nft_commit_notify): the objects, then the new generation. */
import { AF_INET, AF_INET6 } from '../libc.ts';
import { attributes, findAttribute, type Message, textAt, valueLength } from '../netlink.ts';
import { type LeftOut, type MulticastSocket, openListener } from '../netlink-socket.ts';
import { NETLINK_NETFILTER, type NetfilterFamily, NFGENMSG, netfilterType } from '../nfnetlink.ts';
import { NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWCHAIN, NFT_MSG_NEWGEN } from '../nftables.ts';
import {
  NFNLGRP_NFTABLES,
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELRULE,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_DELTABLE,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  NFTA_DATA_VALUE,
  NFTA_SET_ELEM_KEY,
  NFTA_SET_ELEM_LIST_ELEMENTS,
} from './constants.ts';

/**
 * Bytes of the receive buffer. The kernel tells of a flush in one message for each rule, some 600 bytes, and names the writer in the last one:
 * the messages of 70,000 rules fit. It takes memory only while messages wait.
 */
const RECEIVE_BUFFER = 64 * 1024 * 1024;

/** An object that a transaction created, changed or deleted. Names are those of the kernel. */
export interface ObjectNotice {
  readonly family: NetfilterFamily;
  readonly table: string;
  readonly what:
    | { readonly kind: 'table'; readonly isGone: boolean }
    /** The chain itself, or its rules. */
    | { readonly kind: 'chain'; readonly name: string; readonly isRule: boolean }
    | { readonly kind: 'set'; readonly name: string }
    /** Keys of elements, as strings of Latin-1. */
    | { readonly kind: 'elements'; readonly set: string; readonly keys: readonly string[] };
}

/** Opens a listener of this network namespace. It gets only the generations of what the port `own` writes. Throws SystemError. */
export function openNotices(own?: number): MulticastSocket {
  const not: LeftOut | undefined =
    own === undefined ? undefined : { port: own, but: netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWGEN) };
  return openListener(NETLINK_NETFILTER, NFNLGRP_NFTABLES, RECEIVE_BUFFER, not);
}

/** undefined: a message about another kind of object, or of another family. */
export function decodeNotice(buffer: Buffer, { type, start, end }: Message): ObjectNotice | undefined {
  if (type >> 8 !== NFNL_SUBSYS_NFTABLES) return undefined;
  const number = buffer.readUInt8(start);
  const family = number === AF_INET ? 'IPv4' : number === AF_INET6 ? 'IPv6' : undefined;
  const what = family === undefined ? undefined : objectOf(buffer, type & 0xff, { start: start + NFGENMSG, end });
  if (family === undefined || what === undefined) return undefined;
  return { family, table: textAt(buffer, start + NFGENMSG, end, TABLE) ?? '', what };
}

/** The table is attribute 1 of every object, and the name of a chain 3, of a rule's chain 2, of a set 2 (linux/netfilter/nf_tables.h). */
const TABLE = 1;
const RULE_CHAIN = 2;
const CHAIN_NAME = 3;
const SET_NAME = 2;

function objectOf(
  buffer: Buffer,
  message: number,
  { start, end }: { readonly start: number; readonly end: number },
): ObjectNotice['what'] | undefined {
  const text = (type: number) => textAt(buffer, start, end, type) ?? '';
  switch (message) {
    case NFT_MSG_NEWTABLE:
    case NFT_MSG_DELTABLE:
      return { kind: 'table', isGone: message === NFT_MSG_DELTABLE };
    case NFT_MSG_NEWCHAIN:
    case NFT_MSG_DELCHAIN:
      return { kind: 'chain', name: text(CHAIN_NAME), isRule: false };
    case NFT_MSG_NEWRULE:
    case NFT_MSG_DELRULE:
      return { kind: 'chain', name: text(RULE_CHAIN), isRule: true };
    case NFT_MSG_NEWSET:
    case NFT_MSG_DELSET:
      return { kind: 'set', name: text(SET_NAME) };
    case NFT_MSG_NEWSETELEM:
    case NFT_MSG_DELSETELEM:
      return { kind: 'elements', set: text(SET_NAME), keys: keysOf(buffer, start, end) };
    default:
      return undefined;
  }
}

function keysOf(buffer: Buffer, start: number, end: number): string[] {
  const list = findAttribute(buffer, start, end, NFTA_SET_ELEM_LIST_ELEMENTS);
  if (list < 0) return [];
  const keys: string[] = [];
  for (const [at, length] of attributes(buffer, list, list + valueLength(buffer, list))) {
    const outer = findAttribute(buffer, at, at + length, NFTA_SET_ELEM_KEY);
    const value = outer < 0 ? -1 : findAttribute(buffer, outer, outer + valueLength(buffer, outer), NFTA_DATA_VALUE);
    keys.push(value < 0 ? '' : buffer.toString('latin1', value, value + valueLength(buffer, value)));
  }
  return keys;
}
