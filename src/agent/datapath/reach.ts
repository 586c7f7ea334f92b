/** The seam to TCP of the checks of the data path: connects as a client would, and answers such connections. */
import net from 'node:net';
import type { Address } from '../../base/address.ts';

export interface TcpAddress {
  readonly address: Address;
  readonly port: number;
}

/**
 * The result of a connection. `said`: what the other side wrote first, when that was asked for. `refused`: it was reset. `unroutable`: this node
 * has no route to the address, so no rule saw a packet.
 */
export type Reached =
  | { readonly kind: 'connected'; readonly said: string }
  | { readonly kind: 'refused' | 'silent' | 'unroutable'; readonly cause: string };

export interface DatapathSockets {
  /** Connects, reads `length` bytes at most, and closes. Resolves within the given milliseconds, and never rejects. */
  reach(to: TcpAddress, options: { readonly length: number; readonly milliseconds: number }): Promise<Reached>;
  /** Answers each connection from one of these addresses with the text, and closes the others. Resolves with its port. Rejects when it cannot listen. */
  answer(at: Address, text: string, isAllowed: (from: string) => boolean): Promise<AnsweringPort>;
}

export interface AnsweringPort extends TcpAddress {
  close(): void;
}

const UNROUTABLE = ['ENETUNREACH', 'EADDRNOTAVAIL', 'EACCES', 'EPERM'];
/** Connections that are open at once. Each lasts for a moment. */
const MAX_ANSWERED = 64;
/** Milliseconds after which a client that does not close is closed. */
const MAX_OPEN_MS = 2000;

/** Sockets of the kernel. */
export const datapathSockets: DatapathSockets = {
  reach: ({ address, port }, { length, milliseconds }) =>
    new Promise((resolve) => {
      const socket = net.connect({ host: address, port });
      let [isOpen, said] = [false, ''];
      const end = (result: Reached) => {
        clearTimeout(late);
        // Neither a socket nor an entry of conntrack or IPVS waits for the end of a connection that is reset.
        socket.resetAndDestroy();
        resolve(result);
      };
      const connected = () => end({ kind: 'connected', said: said.slice(0, length) });
      const late = setTimeout(() => {
        if (isOpen) connected();
        else end({ kind: 'silent', cause: `no answer within ${milliseconds} ms` });
      }, milliseconds);
      socket.setEncoding('latin1');
      socket.once('connect', () => {
        isOpen = true;
        if (length === 0) connected();
      });
      socket.on('data', (piece: string) => {
        said += piece;
        if (said.length >= length) connected();
      });
      socket.once('end', connected);
      // `on`: an error after the end must find a listener too.
      socket.on('error', ({ code = '', message }: NodeJS.ErrnoException) => {
        const kind = UNROUTABLE.includes(code) ? 'unroutable' : code === 'ETIMEDOUT' ? 'silent' : 'refused';
        end({ kind, cause: message });
      });
    }),
  answer: async (at, text, isAllowed) => {
    const server = net.createServer((client) => {
      client.on('error', () => undefined);
      client.setTimeout(MAX_OPEN_MS, () => client.destroy());
      const { remoteAddress: from } = client;
      if (from === undefined || !isAllowed(from)) client.destroy();
      else client.end(text);
    });
    server.maxConnections = MAX_ANSWERED;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    server.listen({ host: at, port: 0, ipv6Only: true }, resolve);
    await promise;
    server.off('error', reject);
    server.on('error', () => undefined);
    server.unref();
    return { address: at, port: (server.address() as net.AddressInfo).port, close: () => void server.close() };
  },
};
