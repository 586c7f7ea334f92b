/** The seam to TCP of the checks of the data path: connects as a client would, and answers such connections. */
import net, { type Socket } from 'node:net';
import type { Address, SocketAddress } from '../../base/address.ts';

/** The result of a connection. `said`: what the other side wrote first, when that was asked for. */
export type Reached =
  | { readonly kind: 'connected'; readonly said: string }
  | { readonly kind: 'failed'; readonly cause: string };

export interface DatapathSockets {
  /** Connects, reads `length` bytes at most, and closes. Resolves within the given milliseconds, and never rejects. */
  reach(to: SocketAddress, options: { readonly length: number; readonly milliseconds: number }): Promise<Reached>;
  /** Whether this node has a route to the address. Never rejects. */
  hasRoute(address: Address): Promise<boolean>;
  /** Answers each connection from an allowed address with the text, and closes the others. Resolves with its port. Rejects when it cannot listen. */
  answer(at: Address, text: string, isAllowed: (from: string) => boolean): Promise<AnsweringPort>;
}

export interface AnsweringPort extends SocketAddress {
  close(): void;
}

/** Connections that are open at once. One more ends the oldest. */
const MAX_ANSWERED = 64;
/** Milliseconds after which a client that does not close is closed. */
const MAX_OPEN_MS = 500;

/** Sockets of the kernel. `routeTo`: as in kernel/devices.ts. */
export function datapathSockets(routeTo: (address: Address) => Promise<object | undefined>): DatapathSockets {
  return { reach, answer, hasRoute: async (address) => (await routeTo(address).catch(() => undefined)) !== undefined };
}

const reach: DatapathSockets['reach'] = ({ address, port }, { length, milliseconds }) =>
  new Promise((resolve) => {
    const socket = net.connect({ host: address, port });
    let said = '';
    const end = (result: Reached) => {
      clearTimeout(late);
      // A socket that is reset waits for nothing, and neither does an entry of conntrack or IPVS. One that still connects would wait for that.
      if (socket.connecting) socket.destroy();
      else socket.resetAndDestroy();
      resolve(result);
    };
    const connected = () => end({ kind: 'connected', said: said.slice(0, length) });
    const late = setTimeout(() => {
      if (socket.connecting) end({ kind: 'failed', cause: `no answer within ${milliseconds} ms` });
      else connected();
    }, milliseconds);
    socket.setEncoding('latin1');
    socket.once('connect', () => {
      if (length === 0) connected();
    });
    socket.on('data', (piece: string) => {
      said += piece;
      if (said.length >= length) connected();
    });
    socket.once('end', connected);
    // `on`: an error after the end must find a listener too.
    socket.on('error', ({ message }) => end({ kind: 'failed', cause: message }));
  });

const answer: DatapathSockets['answer'] = async (at, text, isAllowed) => {
  const open = new Set<Socket>();
  const server = net.createServer((client) => {
    client.on('error', () => undefined);
    const { remoteAddress: from } = client;
    if (from === undefined || !isAllowed(from)) return void client.destroy();
    const [oldest] = open;
    if (open.size >= MAX_ANSWERED) oldest?.destroy();
    open.add(client);
    const late = setTimeout(() => client.destroy(), MAX_OPEN_MS);
    client.once('close', () => {
      clearTimeout(late);
      open.delete(client);
    });
    client.end(text);
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen({ host: at, port: 0, ipv6Only: true }, resolve);
  await promise;
  server.off('error', reject);
  server.on('error', () => undefined);
  server.unref();
  return { address: at, port: (server.address() as net.AddressInfo).port, close: () => void server.close() };
};
