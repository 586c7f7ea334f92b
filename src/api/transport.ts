/**
 * How requests reach the API server: over one connection of HTTP/2 where the server has it, over HTTP/1.1 where it, or a proxy
 * on the way, does not.
 */
import { createHash } from 'node:crypto';
import { unlessAborted } from '../host/clock.ts';
import { type Incoming, LostWhileIdle, type Outgoing } from './answer.ts';
import { Http1 } from './http1.ts';
import { Http1Required, type Http2Connection, openHttp2, type PingTimes } from './http2.ts';

/** Milliseconds for which a server that chose HTTP/1.1 is not asked for HTTP/2 again. */
const RECHECK = 600_000;

interface Shared {
  /** What the connection was authenticated with. */
  readonly key: string;
  /** Undefined: the server has no HTTP/2. */
  readonly connection: Promise<Http2Connection | undefined>;
}

export class Transport {
  readonly #pings: PingTimes;
  readonly #http1 = new Http1();
  #shared: Shared | undefined;
  #http1Until = Number.NEGATIVE_INFINITY;
  /** Ends connections that are being made. */
  readonly #closed = new AbortController();

  constructor(pings: PingTimes) {
    this.#pings = pings;
  }

  /** Rejects with what failed, as Node.js says it. */
  async request(outgoing: Outgoing): Promise<Incoming> {
    try {
      return await this.#request(outgoing);
    } catch (error) {
      if (!(error instanceof LostWhileIdle || error instanceof Http1Required)) throw error;
      if (error instanceof Http1Required) this.#http1Until = performance.now() + RECHECK;
      return await this.#request(outgoing);
    }
  }

  /** End what is under way. */
  close(): void {
    this.#closed.abort(new Error('the client was closed'));
    void this.#shared?.connection.then((connection) => connection?.destroy()).catch(() => undefined);
    this.#shared = undefined;
    this.#http1.close();
  }

  async #request(outgoing: Outgoing): Promise<Incoming> {
    // Others may wait for the same connection: who does not want it any more leaves it to them.
    const connection = this.#mayUseHttp2(outgoing)
      ? await unlessAborted(this.#connection(outgoing), outgoing.signal)
      : undefined;
    return await (connection ?? this.#http1).request(outgoing);
  }

  /** HTTP/2 without TLS is not spoken by kube-apiserver; a proxy is led through by its agent, which speaks HTTP/1.1. */
  #mayUseHttp2({ url, auth }: Outgoing): boolean {
    return url.protocol === 'https:' && auth.agent === false && performance.now() >= this.#http1Until;
  }

  /** The one that stands, or a new one; requests that come while it is made wait for the same. Undefined: HTTP/1.1 it is. */
  async #connection(outgoing: Outgoing): Promise<Http2Connection | undefined> {
    const key = identityOf(outgoing);
    const before = this.#shared;
    if (before?.key === key) {
      const connection = await before.connection;
      if (connection === undefined || connection.isUsable) return connection;
    }
    if (this.#shared !== before) return await this.#connection(outgoing);
    // Another certificate needs another connection; what is under way on the former one goes on.
    if (before !== undefined) void before.connection.then((old) => old?.retire()).catch(() => undefined);
    const opening: Shared = { key, connection: openHttp2(outgoing, this.#pings, this.#closed.signal) };
    this.#shared = opening;
    try {
      const connection = await opening.connection;
      if (connection === undefined) this.#http1Until = performance.now() + RECHECK;
      if (connection === undefined && this.#shared === opening) this.#shared = undefined;
      return connection;
    } catch (error) {
      if (this.#shared === opening) this.#shared = undefined;
      throw error;
    }
  }
}

/** What a connection is authenticated and verified with; a token is each request's own. */
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
