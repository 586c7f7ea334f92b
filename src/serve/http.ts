/**
 * A small HTTP server for health and metrics. It answers every client that can reach its port, and limits what clients cost: short timeouts,
 * small heads and bodies, one request of a connection at a time (`http-connection.ts`), and a share for each client (`clients.ts`).
 * Answers are made from memory.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Address } from '../base/address.ts';
import { aborted, type Clock, realClock, sleep } from '../base/clock.ts';
import { Clients } from './clients.ts';
import { type BeginsWith, endsOf, HttpConnection, MAX_BODY_BYTES, MAX_HEAD_BYTES } from './http-connection.ts';

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Pieces are sent as they come. */
  readonly body: string | Buffer | AsyncIterable<Uint8Array>;
  /** Whether the pieces, or the client's reading, may pause for longer than the bound on silence, as with profiles and recordings. */
  readonly isLong?: boolean;
}

export interface HttpRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** The header `Host`. Headers are undefined where the request has none. */
  readonly host: string | undefined;
  /** The header `Accept`. */
  readonly accept?: string | undefined;
  /** The header `Accept-Encoding`. */
  readonly encodings?: string | undefined;
  /** The header `Authorization`, which may be a secret and must not be logged. */
  readonly authorization?: string | undefined;
  /** The header `Sec-Fetch-Site`, by which a browser names the relation of the asking page to this site. */
  readonly site?: string | undefined;
  /** The addresses of this end and of the client's, as Node.js writes them. */
  readonly local: string;
  readonly remote: string;
  /** The header `If-None-Match`. */
  readonly known?: string | undefined;
  /** The body, for the few requests that have one. */
  body(): Promise<string>;
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal;
  /** Ends the connection now, without the rest of the answer. Missing where nothing is connected. */
  hangUp?(): void;
  /** The handler calls it when its answer may come later than the bound on silence. Missing where nothing is connected. */
  mayWait?(): void;
}

export type Handler = (request: HttpRequest) => Answer | Promise<Answer>;

export interface ListenOptions {
  readonly address: Address;
  readonly port: number;
  /** Whether to listen for one family only, also on `::`. Otherwise the unspecified address means both families. */
  readonly isOneFamily?: boolean;
  /** The limits on clients, which the servers of a process share; by default limits of its own. */
  readonly clients?: Clients;
}

/** Opens a port. Rejects when it cannot be bound. */
export type OpenServer = (options: ListenOptions, handler: Handler) => Promise<OpenedServer>;

export interface OpenedServer {
  /** Stops accepting connections; waiting requests are still answered. A server without it accepts until it is closed. */
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

const METHOD_NOT_ALLOWED = textAnswer(405, 'method not allowed\n');

/** The refusal of methods that would change something; undefined for GET and HEAD. */
export function refusalOfMethod({ method }: Pick<HttpRequest, 'method'>): Answer | undefined {
  return method === 'GET' || method === 'HEAD' ? undefined : METHOD_NOT_ALLOWED;
}

/**
 * Whether the client takes gzip (RFC 9110, section 12.5.3): a weight of 0 refuses it, and `*` stands for encodings that are not named.
 * An element that is not well-formed does not count.
 */
export function acceptsGzip(encodings = ''): boolean {
  let [gzip, others]: (number | undefined)[] = [];
  for (const one of encodings.split(',')) {
    const [, name, weight = '1'] = /^\s*(gzip|\*)\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?$/i.exec(one) ?? [];
    if (name === '*') others = Number(weight);
    else if (name !== undefined) gzip = Number(weight);
  }
  return (gzip ?? others ?? 0) > 0;
}

/** Milliseconds for a request to arrive, and for its headers. */
export const REQUEST_TIMEOUT_MS = 5000;
/** Milliseconds that a connection may stay idle. */
const IDLE_TIMEOUT_MS = 10_000;
/** Milliseconds without a byte in either direction, such as with a client that does not read. */
const SILENCE_TIMEOUT_MS = 30_000;
/** Connections that the kernel completes before this process accepts them: a flood must not make it drop those of others (listen(2), somaxconn). */
const BACKLOG = 4096;
const BAD_REQUEST = 'HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n';

export class HttpServer {
  readonly #server: Server;
  readonly #connections = new Set<HttpConnection>();

  private constructor(handler: Handler, clients: Clients) {
    this.#server = createServer(
      {
        headersTimeout: REQUEST_TIMEOUT_MS,
        requestTimeout: REQUEST_TIMEOUT_MS,
        keepAliveTimeout: IDLE_TIMEOUT_MS,
        connectionsCheckingInterval: 1000,
        maxHeaderSize: MAX_HEAD_BYTES,
      },
      (request, response) => void respond(handler, clients, request, response),
    );
    // Node.js itself would answer expectations other than 100-continue, which this server would not count (RFC 9110, section 10.1.1).
    this.#server.on('checkExpectation', (request, response) => void respond(handler, clients, request, response));
    this.#server.setTimeout(SILENCE_TIMEOUT_MS, (socket) => socket.destroy());
    // node:http does not pass on this option of net.Server: nothing is read of a connection before its turn.
    Object.assign(this.#server, { pauseOnConnect: true });
    // node:http accepts any stream as a connection (Event: 'connection'), so each socket is wrapped before node:http sees a byte.
    const takes = this.#server.listeners('connection') as unknown as ((
      this: Server,
      connection: HttpConnection,
    ) => void)[];
    this.#server.removeAllListeners('connection');
    this.#server.on('connection', (socket: Socket) => {
      // A connection that was reset before it was accepted has no address any more.
      if (socket.remoteAddress === undefined) return void socket.destroy();
      // A reset leaves no connection in TIME_WAIT.
      if (!clients.hasPlace(endsOf(socket))) return void socket.resetAndDestroy();
      const connection = new HttpConnection(socket, clients);
      this.#connections.add(connection);
      connection.on('close', () => this.#connections.delete(connection));
      for (const take of takes) take.call(this.#server, connection);
      connection.begin();
    });
    this.#server.on('clientError', (_error, socket) => {
      (socket as unknown as HttpConnection).readNoMore();
      // The client may never close its side.
      if (socket.writable) socket.end(BAD_REQUEST, () => socket.destroy());
      else socket.destroy();
    });
  }

  /** Rejects when the port cannot be bound. */
  static async open(options: ListenOptions, handler: Handler): Promise<HttpServer> {
    const clients = options.clients ?? new Clients({ clock: realClock });
    const made = new HttpServer(handler, clients);
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
    for (const connection of this.#connections) connection.destroy();
    await closed;
  }

  async #listen(host: string, port: number, ipv6Only: boolean): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port, ipv6Only, exclusive: true, backlog: BACKLOG }, () => {
        this.#server.removeListener('error', reject);
        // accept(2) without free descriptors must not end the agent.
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
  /** Called after each failure. It may throw to give up. */
  readonly onFailure: (error: Error) => void;
  /** Called when the port is bound. */
  readonly onOpen?: () => void;
  /** After the abort no connections are accepted, and the open ones stay until this resolves. */
  readonly untilAnswered?: () => Promise<void>;
}

/** Milliseconds between two attempts to bind a port: kube-proxy's period. */
export const PORT_RETRY_MS = 5000;

/** Opens a server, retries until its port is bound, and closes it when the signal aborts. Resolves then. */
export async function keepOpen({
  open = openServer,
  listen,
  handler,
  clock,
  signal,
  onFailure,
  onOpen,
  untilAnswered,
}: KeepOpenOptions): Promise<void> {
  while (!signal.aborted) {
    try {
      const server = await open(listen, handler);
      onOpen?.();
      await aborted(signal).catch(() => undefined);
      if (untilAnswered !== undefined) {
        server.refuse?.();
        await untilAnswered();
      }
      await server.close();
      return;
    } catch (error) {
      onFailure(error as Error);
      await sleep(clock, PORT_RETRY_MS, signal).catch(() => undefined);
    }
  }
}

/** Answers to requests whose body is not read (RFC 9110, sections 15.5.12 and 15.5.14). */
const REFUSED_BODIES: Readonly<Record<Exclude<BeginsWith, 'request'>, Answer>> = {
  'body of unknown length': textAnswer(411, 'a body needs the header Content-Length\n'),
  'body too long': textAnswer(413, `a body has at most ${MAX_BODY_BYTES} bytes\n`),
};

async function respond(
  handler: Handler,
  clients: Clients,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const connection = incoming.socket as unknown as HttpConnection;
  const gone = new AbortController();
  response.on('close', () => {
    gone.abort();
    connection.answered();
  });
  const begins = connection.begins(incoming);
  if (begins !== 'request') return send(incoming, response, REFUSED_BODIES[begins], { connection: 'close' });
  let waits = false;
  const mayWait = () => {
    waits = true;
    connection.setTimeout(0);
  };
  try {
    const request = { ...requestOf(incoming, gone.signal), hangUp: () => response.destroy(), mayWait };
    const answer = await handler(request);
    if (waits && answer.isLong !== true) connection.setTimeout(SILENCE_TIMEOUT_MS);
    else if (answer.isLong === true) connection.setTimeout(0);
    incoming.resume();
    if (response.destroyed) return;
    const { status, headers = {}, body } = answer;
    if (typeof body === 'string' || Buffer.isBuffer(body)) send(incoming, response, { status, body }, headers);
    else {
      response.writeHead(status, headers);
      if (incoming.method === 'HEAD') response.end();
      // A failure ends the connection without the last chunk, so that the client knows that something is missing.
      else await pipeline(Readable.from(body, { objectMode: false }), response);
    }
    clients.answered(connection);
  } catch (error) {
    if (response.destroyed || response.headersSent) return;
    response.writeHead(500, TEXT_HEADERS);
    response.end(`${(error as Error).message}\n`);
  }
}

/** Sends an answer whose body is in one piece. */
function send(
  incoming: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Answer,
  more: Answer['headers'],
): void {
  const whole = body as string | Buffer;
  response.writeHead(status, { ...headers, ...more, 'content-length': Buffer.byteLength(whole) });
  response.end(incoming.method === 'HEAD' ? undefined : whole);
}

function requestOf(incoming: IncomingMessage, signal: AbortSignal): HttpRequest {
  const [path = '/', query = ''] = (incoming.url ?? '/').split('?', 2);
  return {
    method: incoming.method ?? 'GET',
    path,
    query: new URLSearchParams(query),
    host: incoming.headers.host,
    accept: incoming.headers.accept,
    encodings: incoming.headers['accept-encoding']?.toString(),
    authorization: incoming.headers.authorization,
    site: incoming.headers['sec-fetch-site']?.toString(),
    local: incoming.socket.localAddress ?? '',
    remote: incoming.socket.remoteAddress ?? '',
    known: incoming.headers['if-none-match'],
    signal,
    async body() {
      let text = '';
      incoming.setEncoding('utf8');
      for await (const piece of incoming) text += String(piece);
      return text;
    },
  };
}
