/** The seam to TCP of the checks of the data path: connects as a client would, and answers such connections. */
import net, { type Socket } from 'node:net';
import type { Address, SocketAddress } from '../../base/address.ts';
import { causeOf } from '../../base/cause.ts';
import type { PodNetwork } from '../../kernel/pod-network.ts';

/** The result of a connection. `said`: what the other side wrote first, when that was asked for. */
export type Reached =
  | { readonly kind: 'connected'; readonly said: string }
  | { readonly kind: 'failed'; readonly cause: string };

export interface Reach {
  /** Connects, reads `length` bytes at most, and closes. Resolves within the given milliseconds, and never rejects. */
  reach(to: SocketAddress, options: { readonly length: number; readonly milliseconds: number }): Promise<Reached>;
}

export interface DatapathSockets extends Reach {
  /** Whether this node has a route to the address. Never rejects. */
  hasRoute(address: Address): Promise<boolean>;
  /** Answers each connection from an allowed address with the text, and closes the others. Resolves with its port. Rejects when it cannot listen. */
  answer(at: Address, text: string, isAllowed: (from: string) => boolean): Promise<AnsweringPort>;
  /** Joins a network namespace to the node as a Pod is, with these addresses (`makePodNetwork`). Rejects where that cannot be. */
  joinPod(addresses: readonly Address[]): Promise<JoinedPod>;
}

/** Connects from there, and answers there. */
export interface JoinedPod extends Reach {
  readonly addresses: readonly Address[];
  answer(at: Address, text: string): Promise<AnsweringPort>;
  /** Whether the node's route to this address of the Pod is still there. Never rejects. */
  isJoined(address: Address): Promise<boolean>;
  close(): void;
}

type RouteTo = (address: Address) => Promise<{ readonly device: string | undefined } | undefined>;

export interface AnsweringPort extends SocketAddress {
  close(): void;
}

/** Connections that are open at once. One more ends the oldest. */
const MAX_ANSWERED = 64;
/** Milliseconds after which a client that does not close is closed. */
const MAX_OPEN_MS = 500;

/** Sockets of the kernel. `routeTo`: as in kernel/devices.ts; `makePod`: as in kernel/pod-network.ts. */
export function datapathSockets(
  routeTo: RouteTo,
  makePod: (addresses: readonly Address[]) => Promise<PodNetwork>,
): DatapathSockets {
  return {
    reach: reachBy(({ address, port }) => net.connect({ host: address, port })),
    answer: (at, text, isAllowed) => answer({ host: at, port: 0, ipv6Only: true }, { at, text, isAllowed }),
    hasRoute: async (address) => (await routeTo(address).catch(() => undefined)) !== undefined,
    joinPod: async (addresses) => joinedPod(await makePod(addresses), routeTo),
  };
}

function joinedPod(network: PodNetwork, routeTo: RouteTo): JoinedPod {
  const { addresses, device } = network;
  return {
    addresses,
    isJoined: async (address) => (await routeTo(address).catch(() => undefined))?.device === device,
    reach: reachBy((to) => network.connect(to)),
    // The rules masquerade a Pod that reaches itself: so the client has one of the node's many addresses.
    answer: async (at, text) => await answer({ fd: network.bound(at) }, { at, text, isAllowed: () => true }),
    close: () => network.close(),
  };
}

const reachBy =
  (connect: (to: SocketAddress) => Socket): Reach['reach'] =>
  async (to, options) => {
    try {
      return await exchange(connect(to), options);
    } catch (error) {
      return { kind: 'failed', cause: causeOf(error) };
    }
  };

type ReachOptions = Parameters<Reach['reach']>[1];

/** The socket connects. One of a descriptor emits no `connect`: there `length` is not 0. */
const exchange = (socket: Socket, { length, milliseconds }: ReachOptions): Promise<Reached> =>
  new Promise((resolve) => {
    let hasConnected = false;
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
      if (!hasConnected && said === '') end({ kind: 'failed', cause: `no answer within ${milliseconds} ms` });
      else connected();
    }, milliseconds);
    socket.setEncoding('latin1');
    socket.once('connect', () => {
      hasConnected = true;
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

/** Where to listen: at an address, or by a socket that is bound already. */
type Listen = net.ListenOptions | { readonly fd: number };

interface AnswerOptions {
  readonly at: Address;
  readonly text: string;
  readonly isAllowed: (from: string) => boolean;
}

async function answer(listen: Listen, { at, text, isAllowed }: AnswerOptions): Promise<AnsweringPort> {
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
  server.listen(listen, resolve);
  await promise;
  server.off('error', reject);
  server.on('error', () => undefined);
  server.unref();
  return { address: at, port: (server.address() as net.AddressInfo).port, close: () => void server.close() };
}
