/** The seam to TCP: listening on loopback, and connecting to endpoints. */
import net, { type Socket } from 'node:net';
import type { SocketAddress } from '../../base/address.ts';

export interface RelayListener {
  /** Closes the listening socket; connections stay. */
  close(): void;
}

export interface RelaySockets {
  /** Rejects when the port cannot be bound. New connections are paused. `onError` is called when connections cannot be accepted. */
  listen(
    at: SocketAddress,
    onConnection: (client: Socket) => void,
    onError: (error: Error) => void,
  ): Promise<RelayListener>;
  /** Returns a socket that begins to connect. */
  connect(to: SocketAddress): Socket;
}

/** Silence after which the kernel probes the other end (tcp(7), TCP_KEEPIDLE). */
const KEEP_ALIVE_MS = 60_000;
/** Bytes that a stream holds before its source waits: bounds the memory of a connection whose reader is slow. */
const HIGH_WATER_MARK = 16_384;

const OPTIONS = {
  allowHalfOpen: true,
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: KEEP_ALIVE_MS,
  highWaterMark: HIGH_WATER_MARK,
};

/** Sockets of the kernel. */
export const relaySockets: RelaySockets = {
  async listen({ address, port }, onConnection, onError) {
    const server = net.createServer({ ...OPTIONS, pauseOnConnect: true }, onConnection);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    server.listen({ host: address, port, ipv6Only: true }, resolve);
    await promise;
    server.off('error', reject);
    server.on('error', onError);
    return { close: () => void server.close() };
  },
  connect: ({ address, port }) => net.connect({ ...OPTIONS, host: address, port }),
};
