/** conntrack, the kernel's table of connections: flows to list and to delete, and the connections of a question. */

import type { Connection, ConnectionEnd } from '../../native/connections.ts';
import type { ConntrackSocket, Flow, FlowEntry } from '../../native/conntrack.ts';
import { errnoOf } from '../../native/errno.ts';
import type { NetlinkTransport, openTransport } from '../../native/netlink-socket.ts';
import { addressOctets, addressOfBytes, type Family, type SocketAddress } from '../base/address.ts';
import { breath } from '../base/clock.ts';
import { CONNTRACK_COUNT } from './conntrack-settings.ts';
import { realSysctls, type SettingFiles } from './sysctls.ts';
import { PROTOCOL_NUMBERS, type TraceQuestion } from './traced-packets.ts';

export type { Flow, FlowEntry };

export interface FlowTable {
  /**
   * UDP flows, part by part: each `next` blocks the event loop for one part. Returns whether a flow may be missing. Throws when the kernel
   * refuses.
   */
  udpFlows(family: Family): Generator<readonly Flow[], boolean>;
  /** Translated connections of TCP and SCTP without an answer yet, of both families, in the same way. */
  openings(): Generator<readonly Flow[], boolean>;
  /** Translated flows of all protocols and both families, in the same way. */
  translated(): Generator<readonly Flow[], boolean>;
  /** The same as `openings` with the connections that IPVS translates. */
  unanswered(): Generator<readonly Flow[], boolean>;
  /** All flows of TCP, UDP and SCTP of both families, in the same way. */
  entries(): Generator<readonly FlowEntry[], boolean>;
  /** Deletes flows; returns how many still existed. Throws when the kernel refuses. */
  delete(flows: readonly Flow[]): number;
  close(): void;
}

/** `oneStep`: the largest number of entries that the kernel filters in one step. Throws when the kernel refuses. */
export type OpenFlowTable = (oneStep?: number) => Promise<FlowTable>;

/** With at most so many entries the kernel filters the whole table in one step, which takes about 10 ms. */
const ONE_STEP = 100_000;

/** Where the kernel is reached; default: this process's network namespace. */
export interface FlowTableSeams {
  readonly sysctls?: Pick<SettingFiles, 'read'>;
  readonly open?: () => NetlinkTransport;
}

export function flowTableOpener({ sysctls = realSysctls, open }: FlowTableSeams = {}): OpenFlowTable {
  return async (oneStep = ONE_STEP) => await openSocket({ sysctls, ...(open === undefined ? {} : { open }) }, oneStep);
}

async function openSocket(
  { sysctls = realSysctls, open }: FlowTableSeams = {},
  oneStep = ONE_STEP,
): Promise<ConntrackSocket> {
  const entries = Number(await sysctls.read(CONNTRACK_COUNT));
  // Loaded only here: commands that read no flows need no foreign functions.
  const native = await import('../../native/conntrack.ts');
  return new native.ConntrackSocket({ isFiltered: entries <= oneStep, ...(open === undefined ? {} : { open }) });
}

export const openFlowTable = flowTableOpener();

/**
 * The number of flows whose destination is translated, and was one that `isCounted` admits; undefined where the kernel refuses, or has no
 * table of connections.
 */
export async function countTranslated(isCounted: (flow: Flow) => boolean): Promise<number | undefined> {
  let socket: ConntrackSocket | undefined;
  try {
    socket = await openSocket();
    let count = 0;
    for (const part of socket.translated()) {
      for (const flow of part) if (isCounted(flow)) count += 1;
      await breath();
    }
    return count;
  } catch (error) {
    if (errnoOf(error) !== undefined || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  } finally {
    socket?.close();
  }
}

/** A connection: the ends of its first packet, the ends after translation, and whether an answer was seen. */
export interface TrackedConnection {
  readonly source: SocketAddress;
  readonly destination: SocketAddress;
  readonly sentTo: SocketAddress;
  readonly sentFrom: SocketAddress;
  readonly isAnswered: boolean;
}

export interface KnownConnections {
  readonly connections: readonly TrackedConnection[];
  /** The number of connections beyond the limit. */
  readonly otherConnections: number;
}

/** Reads the connections of a question, at most `most`. Throws NetlinkError, SystemError. */
export async function readConnections(
  { family, source, destination, protocol, port }: TraceQuestion,
  { most, open }: { readonly most: number; readonly open?: typeof openTransport | undefined },
): Promise<KnownConnections> {
  // Loaded only here: commands that read no connections need no foreign functions.
  const [native, sockets, { NETLINK_NETFILTER }] = await Promise.all([
    import('../../native/connections.ts'),
    import('../../native/netlink-socket.ts'),
    import('../../native/nfnetlink.ts'),
  ]);
  const socket = new sockets.NetlinkSocket((open ?? sockets.openTransport)(NETLINK_NETFILTER));
  const found: TrackedConnection[] = [];
  let otherConnections = 0;
  try {
    const question = {
      family,
      source: source === undefined ? undefined : addressOctets(source),
      destination: addressOctets(destination),
      protocol: PROTOCOL_NUMBERS[protocol],
      port,
    };
    for (const part of native.connections(socket, question)) {
      for (const connection of part) {
        if (found.length < most) found.push(tracked(connection));
        else otherConnections += 1;
      }
      await breath();
    }
  } finally {
    socket.close();
  }
  return { connections: found, otherConnections };
}

function tracked({ source, destination, replySource, replyDestination, isAnswered }: Connection): TrackedConnection {
  return {
    source: end(source),
    destination: end(destination),
    sentTo: end(replySource),
    sentFrom: end(replyDestination),
    isAnswered,
  };
}

function end({ address, port }: ConnectionEnd): SocketAddress {
  return { address: addressOfBytes(address), port };
}
