/** Traces real packets of one question through all tables of nftables and of iptables-nft, in this network namespace. */
import { SystemError } from '../../native/libc.ts';
import type { NetlinkTransport, openTransport } from '../../native/netlink-socket.ts';
import { openTraces, TraceSocket } from '../../native/nft/trace.ts';
import { type Clock, realClock, sleep } from '../base/clock.ts';
import type { TraceQuestion } from './trace-names.ts';
import { createTraceTable, unusable } from './trace-table.ts';
import { PacketCollector, type TracedPacket } from './traced-packets.ts';

export type { TraceQuestion } from './trace-names.ts';
export { removeLeftTraces, TraceBusy, TraceUnusable } from './trace-table.ts';
export type { PacketAt, TracedPacket, TracedStep } from './traced-packets.ts';

export interface TraceOptions extends TraceQuestion {
  /** The longest time. The trace ends before, soon after `most` packets came. */
  readonly milliseconds: number;
  /** Packets that are traced. */
  readonly most: number;
  readonly signal: AbortSignal;
  /** Called when the kernel traces: packets from now on are seen. */
  readonly onReady?: () => void;
  readonly clock?: Clock;
  /** Opens sockets, for example in another network namespace. */
  readonly open?: typeof openTransport;
  readonly listen?: () => NetlinkTransport;
}

export interface Trace {
  readonly packets: readonly TracedPacket[];
  /** Why packets or their steps may be missing, as a sentence; undefined when the trace is whole. */
  readonly gap: string | undefined;
}

/** Milliseconds between two looks at the socket, and for which the last packet's way is followed. */
const LOOK_PAUSE_MS = 20;
const FOLLOW = 200;
const DROPPED = 'The kernel had to drop parts of the trace, so packets or steps may be missing.';
const REMOVED = 'Another program removed the table of the trace before its end, so packets may be missing.';
/** Events that are read without a breath. */
const EVENTS = 2000;

/**
 * Resolves with the packets that came. The table that asks the kernel for the traces is removed in every case. Throws TraceBusy,
 * TraceUnusable, SystemError, and the signal's reason.
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
  // Before the table: the kernel makes no events that nobody listens to.
  const socket = listening(listen);
  try {
    const table = await createTraceTable(options, open === undefined ? { most } : { most, open });
    let gap: string | undefined;
    try {
      onReady?.();
      let end = clock.now() + milliseconds;
      while (clock.now() < end) {
        await sleep(clock, Math.min(LOOK_PAUSE_MS, end - clock.now()), signal);
        const wasFull = collector.isFull;
        const taken = socket.take(EVENTS);
        for (const event of taken.events) collector.add(event, clock.wall());
        if (taken.isIncomplete) gap = DROPPED;
        if (collector.isFull && !wasFull) end = Math.min(end, clock.now() + FOLLOW);
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
