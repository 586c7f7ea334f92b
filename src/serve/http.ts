/**
 * A small HTTP server for health and metrics. It answers everybody who can reach its port, and limits the cost: short timeouts, small
 * headers, a bound on connections, no body is read. An answer is made from memory.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { aborted, type Clock, sleep } from '../host/clock.ts';
import type { Address } from '../model/address.ts';

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Pieces are sent as they come. */
  readonly body: string | Buffer | AsyncIterable<Uint8Array>;
}

export interface Asked {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** The header `Host`; undefined: the request has none. */
  readonly host: string | undefined;
  /** The header `Accept`; undefined: the request has none. */
  readonly accept?: string | undefined;
  /** The header `Accept-Encoding`; undefined: the request has none. */
  readonly encodings?: string | undefined;
  /** The header `Authorization`, which may be a secret: it must not be logged. undefined: the request has none. */
  readonly authorization?: string | undefined;
  /** The header `Sec-Fetch-Site`, by which a browser says whose page asks; undefined: the request has none. */
  readonly site?: string | undefined;
  /** The addresses of this end and of the client's, as Node.js writes them. */
  readonly local: string;
  readonly remote: string;
  /** The header `If-None-Match`; undefined: the request has none. */
  readonly known?: string | undefined;
  /** The body's beginning, for the few requests that have one. */
  body(): Promise<string>;
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal;
  /** Ends the connection now, whatever of the answer is still to be sent. Not there: nothing is connected. */
  hangUp?(): void;
}

export type Handler = (asked: Asked) => Answer | Promise<Answer>;

export interface ListenOptions {
  readonly address: Address;
  readonly port: number;
  /** Listen for this family only, also on `::`. Otherwise the unspecified address means both families. */
  readonly isOneFamily?: boolean;
}

/** Opens a port. Throws when it cannot be had. */
export type OpenServer = (options: ListenOptions, handler: Handler) => Promise<OpenedServer>;

export interface OpenedServer {
  /** Takes no new connections; questions that wait are still answered. A server without it takes them until it is closed. */
  refuse?(): void;
  close(): Promise<void>;
}

export const openServer: OpenServer = (options, handler) => HttpServer.open(options, handler);

const JSON_HEADERS = { 'content-type': 'application/json', 'x-content-type-options': 'nosniff' };
const TEXT_HEADERS = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };
export const NOT_FOUND: Answer = { status: 404, headers: TEXT_HEADERS, body: '404 page not found\n' };

export function jsonAnswer(status: number, body: string, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, headers: { ...JSON_HEADERS, ...headers }, body };
}

export function textAnswer(status: number, body: string): Answer {
  return { status, headers: TEXT_HEADERS, body };
}

/** Milliseconds for a request's headers to arrive, and all of it. */
export const REQUEST_TIMEOUT = 5000;
/** Milliseconds that a connection may stay idle. */
const IDLE_TIMEOUT = 10_000;
/** Milliseconds without a byte in either direction, such as with a client that does not read; not for profiles and recordings, which take long. */
const SILENCE = 30_000;
const LONG_ANSWERS = /^\/(?:debug\/|recording(?:\?|$))/;
/** Questions whose answer may come late, and then at once. */
const LATE_ANSWERS = /^\/(?:programmed|drained)\?/;
export const MOST_CONNECTIONS = 4096;
const BAD_REQUEST = 'HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n';
export const MOST_HEADER_BYTES = 8192;
export const MOST_BODY = 4096;

export class HttpServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(handler: Handler) {
    this.#server = createServer(
      {
        headersTimeout: REQUEST_TIMEOUT,
        requestTimeout: REQUEST_TIMEOUT,
        keepAliveTimeout: IDLE_TIMEOUT,
        connectionsCheckingInterval: 1000,
        maxHeaderSize: MOST_HEADER_BYTES,
      },
      (request, response) => void respond(handler, request, response),
    );
    this.#server.maxConnections = MOST_CONNECTIONS;
    this.#server.setTimeout(SILENCE, (socket) => socket.destroy());
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    this.#server.on('clientError', (_error, socket) => {
      // Who sends this may never close its side.
      if (socket.writable) socket.end(BAD_REQUEST, () => socket.destroy());
      else socket.destroy();
    });
  }

  /** Throws when the port cannot be had. */
  static async open(options: ListenOptions, handler: Handler): Promise<HttpServer> {
    const made = new HttpServer(handler);
    const isAny = options.address === '0.0.0.0' || options.address === '::';
    try {
      if (isAny && options.isOneFamily !== true) await made.#listen('::', options.port, false);
      else await made.#listen(options.address, options.port, true);
    } catch (error) {
      // A node without IPv6.
      if (!isAny || (error as NodeJS.ErrnoException).code !== 'EAFNOSUPPORT') throw error;
      await made.#listen('0.0.0.0', options.port, true);
    }
    return made;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  refuse(): void {
    this.#server.close();
    this.#server.closeIdleConnections();
  }

  /** Closes its connections too. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #listen(host: string, port: number, ipv6Only: boolean): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port, ipv6Only, exclusive: true }, () => {
        this.#server.removeListener('error', reject);
        // Running out of descriptors in accept must not end the agent.
        this.#server.on('error', () => undefined);
        resolve();
      });
    });
  }
}

export interface KeepOpenOptions {
  /** Opens the port; the real one by default. */
  readonly open?: OpenServer;
  readonly listen: ListenOptions;
  readonly handler: Handler;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called after each failure; may throw to give up. */
  readonly onFailure: (error: Error) => void;
  /** When the signal has aborted, no connections are taken any more, and those that there are stay until this resolves. */
  readonly patience?: () => Promise<void>;
}

/** Milliseconds until a port that could not be bound is tried again: kube-proxy's period. */
const RETRY = 5000;

/** Open a server, retrying until its port is bound, and close it when the signal aborts. Resolves then. */
export async function keepOpen({
  open = openServer,
  listen,
  handler,
  clock,
  signal,
  onFailure,
  patience,
}: KeepOpenOptions): Promise<void> {
  while (!signal.aborted) {
    try {
      const server = await open(listen, handler);
      await aborted(signal).catch(() => undefined);
      if (patience !== undefined) {
        server.refuse?.();
        await patience();
      }
      await server.close();
      return;
    } catch (error) {
      onFailure(error as Error);
      await sleep(clock, RETRY, signal).catch(() => undefined);
    }
  }
}

async function respond(handler: Handler, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  const { url = '', socket } = request;
  const isLate = LATE_ANSWERS.test(url);
  if (isLate || LONG_ANSWERS.test(url)) socket.setTimeout(0);
  response.on('close', () => gone.abort());
  try {
    const {
      status,
      headers = {},
      body,
    } = await handler({ ...askedOf(request, gone.signal), hangUp: () => response.destroy() });
    if (isLate) socket.setTimeout(SILENCE);
    request.resume();
    if (response.destroyed) return;
    const isHead = request.method === 'HEAD';
    if (typeof body === 'string' || Buffer.isBuffer(body)) {
      response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
      response.end(isHead ? undefined : body);
    } else {
      response.writeHead(status, headers);
      if (isHead) response.end();
      // An answer that breaks off ends the connection without its last piece: the client knows that something is missing.
      else await pipeline(Readable.from(body, { objectMode: false }), response);
    }
  } catch (error) {
    if (response.destroyed || response.headersSent) return;
    response.writeHead(500, TEXT_HEADERS);
    response.end(`${(error as Error).message}\n`);
  }
}

function askedOf(request: IncomingMessage, signal: AbortSignal): Asked {
  const [path = '/', query = ''] = (request.url ?? '/').split('?', 2);
  return {
    method: request.method ?? 'GET',
    path,
    query: new URLSearchParams(query),
    host: request.headers.host,
    accept: request.headers.accept,
    encodings: request.headers['accept-encoding']?.toString(),
    authorization: request.headers.authorization,
    site: request.headers['sec-fetch-site']?.toString(),
    local: request.socket.localAddress ?? '',
    remote: request.socket.remoteAddress ?? '',
    known: request.headers['if-none-match'],
    signal,
    async body() {
      let text = '';
      request.setEncoding('utf8');
      for await (const piece of request) {
        text += String(piece);
        if (text.length > MOST_BODY) break;
      }
      return text.slice(0, MOST_BODY);
    },
  };
}
