/**
 * The table of nftables that makes the kernel trace the packets of one question. It lives as long as its socket: the kernel removes it
 * when the process ends, however it ends (NFT_TABLE_F_OWNER, since Linux 5.12). An older kernel keeps it until `removeLeftTraces`.
 */

import { readFile } from 'node:fs/promises';
import { EEXIST, EINVAL, ENOENT, EOPNOTSUPP, EPERM } from '../../native/errno.ts';
import { SystemError } from '../../native/libc.ts';
import { NetlinkError, type NetlinkRequest } from '../../native/netlink.ts';
import { NetlinkSocket, type NetlinkTransport, openTransport } from '../../native/netlink-socket.ts';
import { NETLINK_NETFILTER } from '../../native/nfnetlink.ts';
import * as bytecode from '../../native/nft/expressions.ts';
import { type TableFacts, tableFacts } from '../../native/nft/listings.ts';
import { addChain, addRule, createTable, deleteTable } from '../../native/nft/table-requests.ts';
import { openTraces, TraceSocket } from '../../native/nft/trace.ts';
import { commit } from '../../native/nft/transaction.ts';
import { NO_NFTABLES } from '../../native/nftables.ts';
import { addressOctets, FAMILIES, type Family } from '../base/address.ts';
import { type Clock, realClock, sleep } from '../base/clock.ts';
import {
  BEGINNINGS,
  ENDS,
  PacketCollector,
  PROTOCOL_NUMBERS,
  TRACE_TABLE,
  type TracedPacket,
  type TraceQuestion,
} from './traced-packets.ts';

/** Behind NF_IP_PRI_CONNTRACK_DEFRAG (-400), which joins fragments, and before NF_IP_PRI_RAW (-300; linux/netfilter_ipv4.h). */
const FIRST = -350;
/** Behind NF_IP_PRI_CONNTRACK_HELPER (300), the last one that changes or drops packets. */
const LAST = 1000;

/** Packets are being traced already. The message names the process. */
export class TraceBusy extends Error {
  readonly code = 'TRACE_BUSY';
}

/** This kernel cannot trace packets, or denies permission. */
export class TraceUnusable extends Error {
  readonly code = 'TRACE_UNUSABLE';
}

export interface TraceTable {
  /** Removes the table. Returns false when another program removed it before. Throws NetlinkError. */
  remove(): boolean;
  /** Closes the socket. A kernel that knows owners then removes the table, if it still exists. */
  close(): void;
}

export interface TraceTableOptions {
  /** Packets that are traced at each hook. */
  readonly most: number;
  /** Opens sockets, for example in another network namespace. */
  readonly open?: typeof openTransport;
}

/** Throws TraceBusy, TraceUnusable, SystemError. */
export async function createTraceTable(
  question: TraceQuestion,
  { most, open = openTransport }: TraceTableOptions,
): Promise<TraceTable> {
  const socket = new NetlinkSocket(open(NETLINK_NETFILTER));
  const id = { family: question.family, table: TRACE_TABLE };
  const create = (isOwned: boolean) => firstError(socket, requests(question, most, isOwned));
  try {
    let refused = create(true);
    // EOPNOTSUPP, before Linux 5.14 EINVAL: the kernel knows no owners.
    const isOld = refused?.errno === EOPNOTSUPP || refused?.errno === EINVAL;
    if (isOld) refused = create(false);
    if (refused?.errno === EEXIST || refused?.errno === EPERM) {
      await removeDead(socket, question.family, refused);
      refused = create(!isOld);
    }
    if (refused !== undefined) throw refused;
  } catch (error) {
    socket.close();
    throw error instanceof NetlinkError ? unusable(error) : error;
  }
  return {
    remove() {
      const error = firstError(socket, [deleteTable(id)]);
      if (error !== undefined && error.errno !== ENOENT) throw error;
      return error === undefined;
    },
    close: () => socket.close(),
  };
}

/** The error for a refusal of the kernel to trace. */
export function unusable({ errno, message }: NetlinkError | SystemError): TraceUnusable {
  if (errno !== EPERM) return new TraceUnusable(`this kernel cannot trace packets: ${message}`);
  return new TraceUnusable(`no permission to trace packets: ${message}; run slicewire as root of the node`);
}

function firstError(socket: NetlinkSocket, all: readonly NetlinkRequest[]): NetlinkError | undefined {
  return commit(socket, all).find((error) => error !== undefined);
}

/** Removes the table of a process that ended; throws TraceBusy while it lives, TraceUnusable without permission. */
async function removeDead(socket: NetlinkSocket, family: Family, cause: NetlinkError): Promise<void> {
  const facts = tableFacts(socket, { family, table: TRACE_TABLE });
  if (facts === undefined) {
    if (cause.errno === EEXIST) return;
    throw unusable(cause);
  }
  if (await isAlive(facts)) throw busy(pidOf(facts));
  const error = firstError(socket, [deleteTable({ family, table: TRACE_TABLE })]);
  if (error !== undefined && error.errno !== ENOENT) throw error;
}

function busy(pid: number | undefined): TraceBusy {
  const who = pid === undefined ? 'another process' : `the process ${pid}`;
  return new TraceBusy(`${who} traces packets already: one \`slicewire explain --live\` at a time; wait until it ends`);
}

/**
 * Removes tables that processes left behind. Tables of living processes stay. Returns what was removed, such as
 * `table ip slicewire-trace`; nothing where the kernel has no nftables. Throws TraceUnusable, SystemError.
 */
export async function removeLeftTraces(open: typeof openTransport = openTransport): Promise<readonly string[]> {
  const socket = new NetlinkSocket(open(NETLINK_NETFILTER));
  const removed: string[] = [];
  try {
    for (const family of FAMILIES) {
      const id = { family, table: TRACE_TABLE };
      const facts = tableFacts(socket, id);
      if (facts === undefined || (await isAlive(facts))) continue;
      const error = firstError(socket, [deleteTable(id)]);
      if (error === undefined) removed.push(`table ${family === 'IPv4' ? 'ip' : 'ip6'} ${TRACE_TABLE}`);
      else if (error.errno !== ENOENT) throw error;
    }
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    if (NO_NFTABLES.includes(error.errno)) return removed;
    const cause = error.errno === EPERM ? `no permission (${error.message})` : error.message;
    throw new TraceUnusable(`the tables ${TRACE_TABLE} cannot be removed: ${cause}; they stay, if there are any`);
  } finally {
    socket.close();
  }
  return removed;
}

/** Whether the table's process is alive. The kernel removes an owned table with its owner; another table names its process. */
async function isAlive(facts: TableFacts): Promise<boolean> {
  if (facts.isOwned) return true;
  const pid = pidOf(facts);
  if (pid === undefined || pid === process.pid) return false;
  // A zombie has no command line.
  return await readFile(`/proc/${pid}/cmdline`, 'utf8').then(
    (text) => text !== '',
    () => false,
  );
}

function pidOf({ comment }: TableFacts): number | undefined {
  const found = /process (\d{1,10})$/.exec(comment)?.[1];
  return found === undefined ? undefined : Number(found);
}

function requests(question: TraceQuestion, most: number, isOwned: boolean): NetlinkRequest[] {
  const { family, origin } = question;
  const id = { family, table: TRACE_TABLE };
  const trace = [...matching(question), bytecode.first(most), bytecode.immediate(0, ONE), bytecode.setTrace(0)];
  const type = 'filter' as const;
  return [
    createTable(id, `Packets traced by slicewire, process ${process.pid}`, isOwned),
    addChain(id, BEGINNINGS.prerouting, { type, hook: 'prerouting', priority: FIRST }),
    addChain(id, BEGINNINGS.output, { type, hook: 'output', priority: FIRST }),
    addChain(id, ENDS.input, { type, hook: 'input', priority: LAST }),
    addChain(id, ENDS.postrouting, { type, hook: 'postrouting', priority: LAST }),
    ...(origin === 'node' ? [] : [addRule(id, BEGINNINGS.prerouting, trace, 'trace')]),
    ...(origin === 'network' ? [] : [addRule(id, BEGINNINGS.output, trace, 'trace')]),
  ];
}

const ONE = Buffer.from([1]);

/**
 * Expressions that match the packets of the question: of TCP a SYN without ACK (RFC 9293, 3.1), of SCTP an INIT (RFC 9260, 3.3.2), of UDP
 * every packet, because the bytes of a flow's first packet do not differ from those of others, and a stale flow is worth seeing.
 */
function matching({ family, source, destination, protocol, port }: TraceQuestion): bytecode.ExpressionWriter[] {
  const [from, to, length] = family === 'IPv4' ? [12, 16, 4] : [8, 24, 16];
  const ports = Buffer.alloc(2);
  ports.writeUInt16BE(port);
  const all = [
    ...equal(bytecode.payload('network', to, length, 0), addressOctets(destination)),
    ...equal(bytecode.meta('l4proto', 0), Buffer.from([PROTOCOL_NUMBERS[protocol]])),
    ...equal(bytecode.payload('transport', 2, 2, 0), ports),
  ];
  if (source !== undefined) all.push(...equal(bytecode.payload('network', from, length, 0), addressOctets(source)));
  if (protocol === 'TCP') {
    const [mask, none, syn] = [Buffer.from([0x12]), Buffer.from([0]), Buffer.from([0x02])];
    all.push(
      bytecode.payload('transport', 13, 1, 0),
      bytecode.bitwise(0, 0, mask, none),
      bytecode.compare(0, 'eq', syn),
    );
  }
  if (protocol === 'SCTP') all.push(...equal(bytecode.payload('transport', 12, 1, 0), ONE));
  return all;
}

function equal(load: bytecode.ExpressionWriter, value: Uint8Array): bytecode.ExpressionWriter[] {
  return [load, bytecode.compare(0, 'eq', value)];
}

export interface TraceOptions extends TraceQuestion {
  /** The longest time. The trace ends before, soon after `most` packets came. */
  readonly milliseconds: number;
  /** Packets that are traced. */
  readonly most: number;
  readonly signal: AbortSignal;
  /** Called when the kernel begins to trace. */
  readonly onReady?: () => void;
  readonly clock?: Clock;
  /** Opens sockets, for example in another network namespace. */
  readonly open?: typeof openTransport;
  readonly listen?: () => NetlinkTransport;
}

export interface Trace {
  readonly packets: readonly TracedPacket[];
  /** A sentence about packets or steps that may be missing; undefined when the trace is whole. */
  readonly gap: string | undefined;
}

/** Milliseconds between two reads of the socket, and for which the last packet's way is followed. */
const READ_PAUSE_MS = 20;
const FOLLOW_MS = 200;
const DROPPED = 'The kernel had to drop parts of the trace, so packets or steps may be missing.';
const REMOVED = 'Another program removed the table of the trace before its end, so packets may be missing.';
/** Events that are read before the event loop runs other work. */
const EVENTS_AT_ONCE = 2000;

/**
 * Traces real packets of one question through all tables of nftables and of iptables-nft, in this network namespace, and resolves with the
 * packets that came. The table that makes the kernel trace is removed in every case. Rejects with TraceBusy, TraceUnusable, SystemError, and
 * the signal's reason.
 */
export async function tracePackets(options: TraceOptions): Promise<Trace> {
  const {
    family,
    protocol,
    milliseconds,
    most,
    signal,
    onReady,
    clock = realClock,
    open,
    listen = openTraces,
  } = options;
  signal.throwIfAborted();
  const collector = new PacketCollector({ family: family === 'IPv4' ? 'ip' : 'ip6', protocol, most });
  // Before the table, because the kernel makes no events without a listener.
  const socket = listening(listen);
  try {
    const table = await createTraceTable(options, open === undefined ? { most } : { most, open });
    let gap: string | undefined;
    try {
      onReady?.();
      let end = clock.now() + milliseconds;
      while (clock.now() < end) {
        await sleep(clock, Math.min(READ_PAUSE_MS, end - clock.now()), signal);
        const wasFull = collector.isFull;
        const taken = socket.take(EVENTS_AT_ONCE);
        for (const event of taken.events) collector.add(event, clock.wall());
        if (taken.isIncomplete) gap = DROPPED;
        if (collector.isFull && !wasFull) end = Math.min(end, clock.now() + FOLLOW_MS);
      }
    } finally {
      try {
        if (!table.remove()) gap = REMOVED;
      } finally {
        table.close();
      }
    }
    return { packets: collector.packets, gap };
  } finally {
    socket.close();
  }
}

function listening(open: () => NetlinkTransport): TraceSocket {
  try {
    return new TraceSocket(open);
  } catch (error) {
    throw error instanceof SystemError ? unusable(error) : error;
  }
}
