/**
 * Sends requests over one connection of HTTP/2 where the server supports it, and over HTTP/1.1 where the server, or a proxy
 * in between, does not.
 */

import { createHash } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { unlessAborted } from '../../base/clock.ts';
import { type Incoming, KEEP_ALIVE, LostWhileIdle, type Outgoing, withinTimeout } from './answer.ts';
import { Http1Required, type Http2Connection, openHttp2, type PingTimes } from './http2.ts';

/** Milliseconds until HTTP/2 is tried again after a server chose HTTP/1.1. */
const HTTP2_RETRY_MS = 600_000;

interface SharedConnection {
  /** Identity that the connection was authenticated with. */
  readonly key: string;
  /** undefined when the server has no HTTP/2. */
  readonly connection: Promise<Http2Connection | undefined>;
}

/** Sends requests to one API server. */
export type Requests = Pick<ApiTransport, 'request' | 'close'>;

/** Opens no connection before the first request. */
export type Connect = (pings: PingTimes) => Requests;

export const connect: Connect = (pings) => new ApiTransport(pings);

class ApiTransport {
  readonly #pings: PingTimes;
  readonly #http1 = new Http1();
  #shared: SharedConnection | undefined;
  #http1Until = Number.NEGATIVE_INFINITY;
  /** Aborts connections that are being opened. */
  readonly #closed = new AbortController();

  constructor(pings: PingTimes) {
    this.#pings = pings;
  }

  /** Rejects with Node.js's own error. */
  async request(outgoing: Outgoing): Promise<Incoming> {
    try {
      return await this.#request(outgoing);
    } catch (error) {
      if (!(error instanceof LostWhileIdle || error instanceof Http1Required)) throw error;
      if (error instanceof Http1Required) this.#http1Until = performance.now() + HTTP2_RETRY_MS;
      return await this.#request(outgoing);
    }
  }

  /** Ends all requests and connections. */
  close(): void {
    this.#closed.abort(new Error('the client was closed'));
    void this.#shared?.connection.then((connection) => connection?.destroy()).catch(() => undefined);
    this.#shared = undefined;
    this.#http1.close();
  }

  async #request(outgoing: Outgoing): Promise<Incoming> {
    // Other requests may wait for the same connection, so an aborted request does not end it.
    const connection = this.#mayUseHttp2(outgoing)
      ? await unlessAborted(this.#connection(outgoing), outgoing.signal)
      : undefined;
    return await (connection ?? this.#http1).request(outgoing);
  }

  /** kube-apiserver has no HTTP/2 without TLS; an agent that connects through a proxy speaks HTTP/1.1. */
  #mayUseHttp2({ url, auth }: Outgoing): boolean {
    return url.protocol === 'https:' && auth.agent === false && performance.now() >= this.#http1Until;
  }

  /** The open connection, or a new one; requests share one that is being opened. undefined when the server chose HTTP/1.1. */
  async #connection(outgoing: Outgoing): Promise<Http2Connection | undefined> {
    const key = identityOf(outgoing);
    const before = this.#shared;
    if (before?.key === key) {
      const connection = await before.connection;
      if (connection === undefined || connection.isUsable) return connection;
    }
    if (this.#shared !== before) return await this.#connection(outgoing);
    // Another certificate needs another connection; requests on the former connection go on.
    if (before !== undefined) void before.connection.then((old) => old?.retire()).catch(() => undefined);
    const opening: SharedConnection = { key, connection: openHttp2(outgoing, this.#pings, this.#closed.signal) };
    this.#shared = opening;
    try {
      const connection = await opening.connection;
      if (connection === undefined) this.#http1Until = performance.now() + HTTP2_RETRY_MS;
      if (connection === undefined && this.#shared === opening) this.#shared = undefined;
      return connection;
    } catch (error) {
      if (this.#shared === opening) this.#shared = undefined;
      throw error;
    }
  }
}

/** Hash of the certificates that authenticate and verify a connection; tokens belong to requests. */
function identityOf({ url, auth }: Outgoing): string {
  const hash = createHash('sha256').update(url.origin);
  for (const part of [auth.ca, auth.cert, auth.key, auth.pfx, auth.passphrase, auth.servername]) {
    for (const one of Array.isArray(part) ? part : [part]) {
      const bytes = typeof one === 'string' || Buffer.isBuffer(one) ? one : JSON.stringify(one ?? null);
      hash.update(`\0${bytes.length}\0`).update(bytes);
    }
  }
  return hash.update(String(auth.rejectUnauthorized)).digest('base64');
}

// Requests over HTTP/1.1, for a server or a proxy without HTTP/2. Lists and writes share kept connections; each watch
// has one of its own. The kernel probes a quiet connection (TCP keep-alive): first after 20 s, then each second, and ends
// it after 10 probes without an answer (`uv_tcp_keepalive` of libuv): a dead peer is noticed after 30 s.

/** Reuses connections for writes and for pages of lists. Requests with different certificates never share one. */
class Http1 {
  readonly #agents: { readonly http: http.Agent; readonly https: https.Agent };

  constructor() {
    // Servers close idle connections later than that: Go's after 120 s, gateways often after 60 s.
    const options = { keepAlive: true, timeout: 30_000, scheduling: 'lifo' } as const;
    this.#agents = { http: new http.Agent(options), https: new https.Agent(options) };
  }

  /** Rejects with LostWhileIdle, or with Node.js's own error. */
  async request({ method, url, headers, body, auth, isWatch, signal }: Outgoing): Promise<Incoming> {
    const isPlain = url.protocol === 'http:';
    const options: https.RequestOptions = { ...auth, method, headers, signal };
    // An agent that is already set connects through a proxy.
    if (!isWatch && auth.agent === false) options.agent = isPlain ? this.#agents.http : this.#agents.https;
    const sent = (isPlain ? http : https).request(url, options);
    sent.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE));
    const answered = new Promise<Incoming>((resolve, reject) => {
      sent.on('response', (answer) => {
        const { statusCode = 0, statusMessage = '', headers, socket } = answer;
        // Node.js reports «aborted» for an answer that was cut off; the socket has the cause.
        const onError = (error: Error) => answer.destroy(error);
        socket.prependOnceListener('error', onError);
        answer.once('close', () => socket.removeListener('error', onError));
        resolve({
          status: statusCode,
          statusText: statusMessage,
          headers,
          body: answer,
          isWhole: () => answer.complete,
        });
      });
      sent.on('error', (error: NodeJS.ErrnoException) => {
        const wasIdle = sent.reusedSocket && error.code === 'ECONNRESET';
        reject(wasIdle ? new LostWhileIdle(error.message, { cause: error }) : error);
      });
    });
    sent.end(body);
    return await withinTimeout(answered, (error) => sent.destroy(error));
  }

  /** Closes idle connections. */
  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }
}
