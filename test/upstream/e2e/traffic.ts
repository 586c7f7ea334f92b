/** Servers and clients in network namespaces: what agnhost's `netexec` and `serve-hostname` do, and `curl` and `nc` in the tests of Kubernetes. */
import { createSocket, type Socket as Datagrams } from 'node:dgram';
import { once } from 'node:events';
import { createServer, get, type Server } from 'node:http';
import net, { type Socket } from 'node:net';
import { inNamespace } from '../../helpers/kernel/namespace-sockets.ts';

/** What became of a request. `text`: the answer. */
export type Answer =
  | { readonly outcome: 'reply'; readonly text: string; readonly status: number }
  | { readonly outcome: 'refused' | 'timeout' | 'unreachable' }
  | { readonly outcome: 'error'; readonly text: string };

export interface Ask {
  readonly address: string;
  readonly port: number;
  readonly protocol?: 'TCP' | 'UDP';
  /** TCP: of the request; UDP: the datagram. Default: `hostname`. */
  readonly path?: string;
  /** Milliseconds. */
  readonly timeout?: number;
  /** A client that keeps its port keeps its flow. */
  readonly fromPort?: number;
  readonly from?: string;
}

const TIMEOUT = 1500;
/** Milliseconds until a datagram is sent again. */
const RETRY = 100;

/** A server that is to be closed. */
export interface Serving {
  close(): Promise<void>;
}

interface Serve {
  readonly namespace: string;
  readonly port: number;
  readonly hostname: string;
  /** An address of this node that it listens on; default: all. */
  readonly address?: string;
}

function answerTo(question: string, { hostname, port }: Serve, peer: string): string {
  const client = peer.replace(/^::ffff:/, '');
  if (question.startsWith('clientip')) return client;
  if (question.startsWith('serverport')) return String(port);
  if (question.startsWith('echo'))
    return question
      .slice('echo'.length)
      .replace(/^\?msg=/, '')
      .trim();
  return hostname;
}

/** HTTP: `/hostname`, `/clientip` (the address alone), `/echo?msg=…`, `/serverport`; anything else is answered with the name. */
export async function serveHttp(serve: Serve): Promise<Serving> {
  const server: Server = createServer((request, response) => {
    const { remoteAddress = '' } = request.socket;
    response.end(answerTo((request.url ?? '/').slice(1), serve, remoteAddress));
  });
  inNamespace(serve.namespace, () => server.listen(serve.port));
  await once(server, 'listening');
  return {
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The same words as datagrams. One socket for each address, so that the answer comes from the address that was asked. */
export async function serveUdp(serve: Serve, addresses: readonly string[]): Promise<Serving> {
  const listening: Promise<unknown>[] = [];
  const sockets = addresses.map((address) => {
    const socket = socketFor(address);
    listening.push(once(socket, 'listening'));
    socket.on('message', (message, peer) =>
      socket.send(answerTo(message.toString(), serve, peer.address), peer.port, peer.address),
    );
    inNamespace(serve.namespace, () => socket.bind({ port: serve.port, address, exclusive: true }));
    return socket;
  });
  await Promise.all(listening);
  return {
    async close() {
      for (const socket of sockets) socket.close();
    },
  };
}

/** Without a lookup that takes a turn of the loop: the socket is made at once. */
function socketFor(address: string): Datagrams {
  const type = address.includes(':') ? 'udp6' : 'udp4';
  const family = type === 'udp6' ? 6 : 4;
  return createSocket({
    type,
    reuseAddr: false,
    lookup: (host, _, done) => done(null, host || (family === 6 ? '::' : '0.0.0.0'), family),
  });
}

/** A TCP connection from a namespace. It is made at once. */
export function connectFrom(namespace: string, { address, port, fromPort, from }: Ask): Socket {
  const family = address.includes(':') ? 6 : 4;
  return inNamespace(namespace, () =>
    net.connect({
      // A name has a lookup, which is asked at once, and an address has none, but a turn of the loop.
      host: 'of.the.test',
      port,
      autoSelectFamily: false,
      lookup: (_, __, done) => done(null, address, family),
      ...(fromPort === undefined ? {} : { localPort: fromPort, localAddress: family === 6 ? '::' : '0.0.0.0' }),
      ...(from === undefined ? {} : { localAddress: from }),
    }),
  );
}

/** Ask from a namespace, on a new connection (an agent of HTTP would make its own), or by datagrams from one socket until an answer comes. */
export function ask(namespace: string, request: Ask): Promise<Answer> {
  return request.protocol === 'UDP' ? askUdp(namespace, request) : askHttp(namespace, request);
}

function askHttp(namespace: string, ask: Ask): Promise<Answer> {
  return new Promise((resolve) => {
    const request = get({
      host: ask.address,
      port: ask.port,
      path: `/${ask.path ?? 'hostname'}`,
      createConnection: () => connectFrom(namespace, ask),
    });
    const end = (answer: Answer) => {
      clearTimeout(late);
      request.destroy();
      resolve(answer);
    };
    const late = setTimeout(() => end({ outcome: 'timeout' }), ask.timeout ?? TIMEOUT);
    request.on('error', (error) => end(failure(error)));
    request.on('response', (response) => {
      let text = '';
      response.on('data', (piece) => {
        text += String(piece);
      });
      response.on('end', () => end({ outcome: 'reply', text, status: response.statusCode ?? 0 }));
      response.on('error', (error) => end(failure(error)));
    });
  });
}

function askUdp(namespace: string, { address, port, path = 'hostname', timeout, fromPort = 0 }: Ask): Promise<Answer> {
  return new Promise((resolve) => {
    const socket = socketFor(address);
    const end = (answer: Answer) => {
      clearInterval(again);
      clearTimeout(late);
      socket.close();
      resolve(answer);
    };
    const send = () => socket.send(path, () => undefined);
    const again = setInterval(send, RETRY);
    const late = setTimeout(() => end({ outcome: 'timeout' }), timeout ?? TIMEOUT);
    socket.once('message', (message) => end({ outcome: 'reply', text: message.toString(), status: 0 }));
    socket.once('error', (error) => end(failure(error)));
    socket.once('listening', () =>
      socket.connect(port, address, (error?: Error) => (error ? end(failure(error)) : send())),
    );
    inNamespace(namespace, () => socket.bind({ port: fromPort, exclusive: true }));
  });
}

const OUTCOMES: Readonly<Record<string, 'refused' | 'timeout' | 'unreachable'>> = {
  ECONNREFUSED: 'refused',
  ETIMEDOUT: 'timeout',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
};

function failure(error: Error): Answer {
  const { code = '' } = error as NodeJS.ErrnoException;
  const outcome = OUTCOMES[code];
  return outcome === undefined ? { outcome: 'error', text: code || error.message } : { outcome };
}

export interface Probe {
  /** All answers so far. */
  readonly answers: readonly string[];
  /** Datagrams so far. */
  readonly sent: number;
  close(): void;
}

/** Milliseconds between two datagrams of a probe. */
const PACE = 50;

/** A client that asks again and again from one port, so that it keeps its flow. */
export async function probeUdp(namespace: string, { address, port, path = 'hostname' }: Ask): Promise<Probe> {
  const socket = socketFor(address);
  const probe = { answers: [] as string[], sent: 0 };
  socket.on('message', (message) => probe.answers.push(message.toString()));
  // A refusal is one of the answers that may come.
  socket.on('error', () => undefined);
  const listening = once(socket, 'listening');
  inNamespace(namespace, () => socket.bind({ port: 0, exclusive: true }));
  await listening;
  const timer = setInterval(() => {
    probe.sent += 1;
    socket.send(path, port, address, () => undefined);
  }, PACE);
  return Object.assign(probe, {
    close() {
      clearInterval(timer);
      socket.close();
    },
  });
}

export interface TcpServer extends Serving {
  /** Of connections. */
  readonly errors: readonly Error[];
}

/** A server that sends back what it receives. `isOpenAfterEnd`: it leaves its side open when the client has closed its own. */
export async function serveTcp(namespace: string, port: number, { isOpenAfterEnd = false } = {}): Promise<TcpServer> {
  const errors: Error[] = [];
  const sockets = new Set<Socket>();
  const server = net.createServer({ allowHalfOpen: isOpenAfterEnd }, (socket) => {
    sockets.add(socket);
    socket.on('error', (error) => errors.push(error));
    socket.on('data', (data) => socket.write(data));
  });
  inNamespace(namespace, () => server.listen(port));
  await once(server, 'listening');
  return {
    errors,
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
