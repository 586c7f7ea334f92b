/**
 * nftables' trace (linux/netfilter/nf_tables.h, net/netfilter/nf_tables_trace.c): for each packet whose `nftrace` is set, the kernel
 * reports every rule that matched, every return, and every policy that decided, in all tables of nftables and of iptables-nft.
 */
import { EAGAIN, ENOBUFS } from '../errno.ts';
import { AF_INET, AF_INET6, SystemError } from '../libc.ts';
import { decodeMessages, findAttribute, type Message, textAt, valueLength } from '../netlink.ts';
import { type NetlinkTransport, openListener } from '../netlink-socket.ts';
import { NETLINK_NETFILTER, NFGENMSG, netfilterType } from '../nfnetlink.ts';
import { NFNL_SUBSYS_NFTABLES } from '../nftables.ts';
import {
  NF_ACCEPT,
  NF_DROP,
  NF_QUEUE,
  NF_STOLEN,
  NFNLGRP_NFTRACE,
  NFPROTO_INET,
  NFT_CONTINUE,
  NFT_GOTO,
  NFT_JUMP,
  NFT_MSG_TRACE,
  NFT_RETURN,
  NFT_TRACETYPE_POLICY,
  NFT_TRACETYPE_RETURN,
  NFT_TRACETYPE_RULE,
  NFTA_TRACE_CHAIN,
  NFTA_TRACE_ID,
  NFTA_TRACE_IIF,
  NFTA_TRACE_NETWORK_HEADER,
  NFTA_TRACE_OIF,
  NFTA_TRACE_POLICY,
  NFTA_TRACE_RULE_HANDLE,
  NFTA_TRACE_TABLE,
  NFTA_TRACE_TRANSPORT_HEADER,
  NFTA_TRACE_TYPE,
  NFTA_TRACE_VERDICT,
  NFTA_VERDICT_CHAIN,
  NFTA_VERDICT_CODE,
} from './constants.ts';

/** `continue`: the next rule. `other`: a number that this program does not know. */
export type TraceVerdict = 'accept' | 'drop' | 'stolen' | 'queue' | 'continue' | 'jump' | 'goto' | 'return' | 'other';

const VERDICTS: ReadonlyMap<number, TraceVerdict> = new Map([
  [NF_ACCEPT, 'accept'],
  [NF_DROP, 'drop'],
  [NF_STOLEN, 'stolen'],
  [NF_QUEUE, 'queue'],
  [NFT_CONTINUE, 'continue'],
  [NFT_JUMP, 'jump'],
  [NFT_GOTO, 'goto'],
  [NFT_RETURN, 'return'],
]);
const TYPES: ReadonlyMap<number, TraceEvent['type']> = new Map([
  [NFT_TRACETYPE_RULE, 'rule'],
  [NFT_TRACETYPE_RETURN, 'return'],
  [NFT_TRACETYPE_POLICY, 'policy'],
]);
/** The kernel's families of tables, as nft writes them. Others have no packets with addresses of the internet. */
const FAMILIES: ReadonlyMap<number, TraceEvent['family']> = new Map([
  [AF_INET, 'ip'],
  [AF_INET6, 'ip6'],
  [NFPROTO_INET, 'inet'],
]);

/** A rule that a packet matched, the end of a chain that returned, or a policy that decided. */
export interface TraceEvent {
  /** The same for all events of a packet, and used again for later packets. */
  readonly id: number;
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly table: string;
  readonly chain: string;
  readonly type: 'rule' | 'return' | 'policy';
  /** The handle of the rule; undefined for policies and returns at the end of a chain. */
  readonly handle: bigint | undefined;
  readonly verdict: TraceVerdict;
  /** The chain of a jump or goto; "" for other verdicts. */
  readonly to: string;
  /** The packet; only in the first event of each chain that a hook calls. */
  readonly packet: TracedHeaders | undefined;
}

/** Headers of a packet as it was at a hook. */
export interface TracedHeaders {
  readonly network: Buffer;
  readonly transport: Buffer;
  /** The index of the device that it came in by; 0 for none. */
  readonly input: number;
  /** The index of the device that it leaves by; 0 for none. */
  readonly output: number;
}

/** The largest message of a trace is far smaller. */
const MAX_MESSAGE_BYTES = 32 * 1024;
const RECEIVE_BUFFER = 4 * 1024 * 1024;

/** Gets the traces of all packets in this network namespace, also those that other programs asked for. */
export class TraceSocket {
  readonly #transport: NetlinkTransport;
  readonly #buffer = Buffer.alloc(MAX_MESSAGE_BYTES);

  /** Throws SystemError. */
  constructor(open: () => NetlinkTransport = openTraces) {
    this.#transport = open();
  }

  close(): void {
    this.#transport.close();
  }

  /** The events that came since the last call, at most about `most`; and whether the kernel had to drop some. Throws SystemError. */
  take(most: number): { readonly events: readonly TraceEvent[]; readonly isIncomplete: boolean } {
    const events: TraceEvent[] = [];
    let isIncomplete = false;
    while (events.length < most) {
      let length: number;
      try {
        length = this.#transport.receive(this.#buffer);
      } catch (error) {
        if (!(error instanceof SystemError)) throw error;
        if (error.errno === EAGAIN) break;
        if (error.errno !== ENOBUFS) throw error;
        isIncomplete = true;
        continue;
      }
      for (const message of decodeMessages(this.#buffer, Math.min(length, this.#buffer.length))) {
        const event = decodeTrace(this.#buffer, message);
        if (event !== undefined) events.push(event);
      }
    }
    return { events, isIncomplete };
  }
}

/** A socket that gets traces. Throws SystemError. */
export function openTraces(): NetlinkTransport {
  return openListener(NETLINK_NETFILTER, NFNLGRP_NFTRACE, RECEIVE_BUFFER);
}

/** The event of a message; undefined for another message, and for a packet of another family. */
export function decodeTrace(buffer: Buffer, { type, start, end }: Message): TraceEvent | undefined {
  if (type !== netfilterType(NFNL_SUBSYS_NFTABLES, NFT_MSG_TRACE)) return undefined;
  const family = FAMILIES.get(buffer.readUInt8(start));
  const from = start + NFGENMSG;
  const numberOf = (kind: number): number => {
    const at = findAttribute(buffer, from, end, kind, 4);
    return at < 0 ? 0 : buffer.readUInt32BE(at);
  };
  const what = TYPES.get(numberOf(NFTA_TRACE_TYPE));
  if (family === undefined || what === undefined) return undefined;
  const handle = findAttribute(buffer, from, end, NFTA_TRACE_RULE_HANDLE, 8);
  return {
    id: numberOf(NFTA_TRACE_ID),
    family,
    table: textAt(buffer, from, end, NFTA_TRACE_TABLE) ?? '',
    chain: textAt(buffer, from, end, NFTA_TRACE_CHAIN) ?? '',
    type: what,
    handle: handle < 0 ? undefined : buffer.readBigUInt64BE(handle),
    ...(what === 'policy'
      ? { verdict: VERDICTS.get(numberOf(NFTA_TRACE_POLICY)) ?? 'other', to: '' }
      : verdictOf(buffer, from, end)),
    packet: headersOf(buffer, from, end),
  };
}

function verdictOf(buffer: Buffer, from: number, end: number): Pick<TraceEvent, 'verdict' | 'to'> {
  const at = findAttribute(buffer, from, end, NFTA_TRACE_VERDICT);
  if (at < 0) return { verdict: 'other', to: '' };
  const stop = at + valueLength(buffer, at);
  const code = findAttribute(buffer, at, stop, NFTA_VERDICT_CODE, 4);
  // A queue has its number in the upper half (linux/netfilter.h, NF_QUEUE_NR).
  const number = code < 0 ? Number.NaN : buffer.readInt32BE(code);
  const verdict = VERDICTS.get(number) ?? ((number & 0xff) === NF_QUEUE && number > 0 ? 'queue' : 'other');
  return { verdict, to: textAt(buffer, at, stop, NFTA_VERDICT_CHAIN) ?? '' };
}

function headersOf(buffer: Buffer, from: number, end: number): TracedHeaders | undefined {
  const network = findAttribute(buffer, from, end, NFTA_TRACE_NETWORK_HEADER);
  if (network < 0) return undefined;
  const transport = findAttribute(buffer, from, end, NFTA_TRACE_TRANSPORT_HEADER);
  const copied = (at: number) =>
    at < 0 ? Buffer.alloc(0) : Buffer.from(buffer.subarray(at, at + valueLength(buffer, at)));
  const deviceAt = (kind: number): number => {
    const at = findAttribute(buffer, from, end, kind, 4);
    return at < 0 ? 0 : buffer.readUInt32BE(at);
  };
  return {
    network: copied(network),
    transport: copied(transport),
    input: deviceAt(NFTA_TRACE_IIF),
    output: deviceAt(NFTA_TRACE_OIF),
  };
}
