/** The connections of conntrack to one destination. */
import type { Connection, ConnectionEnd } from '../../native/connections.ts';
import type { openTransport } from '../../native/netlink-socket.ts';
import { type Address, addressOctets, addressOfBytes } from '../base/address.ts';
import { breath } from '../base/clock.ts';
import { NUMBERS, type TraceQuestion } from './trace-names.ts';

export interface SocketAddress {
  readonly address: Address;
  readonly port: number;
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
  /** The number of further ones. */
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
      protocol: NUMBERS[protocol],
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
