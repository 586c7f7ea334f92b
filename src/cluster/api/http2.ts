/**
 * One connection to the API server over HTTP/2; all lists, watches and writes share it.
 *
 * A watch may be silent for many minutes, and silence is no failure: a kube-apiserver sends no bookmark
 * before an object of the kind changed. A PING finds out whether the connection lives, as in client-go
 * (k8s#95981, golang.org/x/net/http2 ReadIdleTimeout and PingTimeout): one every 25 s, and the connection ends when
 * no byte was received within the 15 s after it. A cut cable is noticed within 40 s.
 */
import http2 from 'node:http2';
import { isIP } from 'node:net';
import tls from 'node:tls';
import { ANSWER_TIMEOUT, type Incoming, KEEP_ALIVE, LostWhileIdle, type Outgoing, withinTimeout } from './answer.ts';

/** Times of the PINGs on a connection, in milliseconds. */
export interface PingTimes {
  /** Between an answer and the next PING. */
  readonly every: number;
  /** Between a PING and the first byte after it. */
  readonly answer: number;
}

export const PINGS: PingTimes = { every: 25_000, answer: 15_000 };

/** Milliseconds until a connection without requests is closed, as in client-go. */
const IDLE_TIMEOUT_MS = 90_000;
/** Bytes that the server may send ahead on one stream, and on all streams: a page of a list fits without an acknowledgement in between. */
const STREAM_WINDOW = 4 * 2 ** 20;
const CONNECTION_WINDOW = 16 * 2 ** 20;

/** Memory limit of a session, in megabytes; the windows keep it below that in practice. */
const MAX_SESSION_MB = 256;

/** No byte was received in time after a PING. */
export class ConnectionDead extends Error {}

/** The server requires HTTP/1.1 for this request. */
export class Http1Required extends Error {}

/** Connects by TLS; undefined when the server chose HTTP/1.1 (ALPN, RFC 7301). Rejects with the error of the connection. */
export async function openHttp2(
  outgoing: Outgoing,
  pings: PingTimes,
  signal: AbortSignal,
): Promise<Http2Connection | undefined> {
  const socket = await connectTls(outgoing, signal);
  if (socket.alpnProtocol !== 'h2') {
    socket.destroy();
    return undefined;
  }
  // After a GOAWAY of the server no PING is answered any more; keep-alive notices a dead peer then.
  socket.setKeepAlive(true, KEEP_ALIVE);
  const session = http2.connect(outgoing.url.origin, {
    createConnection: () => socket,
    settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
    // By default Node.js rejects new streams of a session that holds more than 10 MB; pages of lists are large and arrive in parallel.
    maxSessionMemory: MAX_SESSION_MB,
  });
  return new Http2Connection(session, pings);
}

function connectTls({ url, auth }: Outgoing, signal: AbortSignal): Promise<tls.TLSSocket> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const { ca, cert, key, pfx, passphrase, rejectUnauthorized } = auth;
  return new Promise((resolve, reject) => {
    const socket = tls.connect({
      host,
      port: Number(url.port || 443),
      // SNI takes names only, no addresses (RFC 6066, section 3).
      servername: auth.servername ?? (isIP(host) === 0 ? host : ''),
      ALPNProtocols: ['h2', 'http/1.1'],
      ca,
      cert,
      key,
      pfx,
      passphrase,
      ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
    });
    const onAbort = () => socket.destroy(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const late = setTimeout(
      () => socket.destroy(new Error(`no connection within ${ANSWER_TIMEOUT / 1000} s`)),
      ANSWER_TIMEOUT,
    );
    const settle = () => {
      clearTimeout(late);
      signal.removeEventListener('abort', onAbort);
      socket.removeListener('error', onError);
    };
    const onError = (error: Error) => {
      settle();
      reject(error);
    };
    socket.once('error', onError);
    socket.once('secureConnect', () => {
      settle();
      resolve(socket);
    });
  });
}

export class Http2Connection {
  readonly #session: http2.ClientHttp2Session;
  readonly #pings: PingTimes;
  #pingTimer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #openStreams = 0;
  #isRetired = false;

  constructor(session: http2.ClientHttp2Session, pings: PingTimes) {
    this.#session = session;
    this.#pings = pings;
    // Each request reports the error itself.
    session.on('error', () => undefined);
    session.once('connect', () => session.setLocalWindowSize(CONNECTION_WINDOW));
    session.once('close', () => {
      clearTimeout(this.#pingTimer);
      clearTimeout(this.#idleTimer);
    });
    this.#schedulePing();
  }

  /** False once the server or a failure has ended it; requests need another connection then. */
  get isUsable(): boolean {
    return !this.#isRetired && !this.#isOver;
  }

  /** Rejects with LostWhileIdle when the server did not process the request, with Http1Required, or with Node.js's own error. */
  async request({ method, url, headers, body, auth, signal }: Outgoing): Promise<Incoming> {
    signal.throwIfAborted();
    const fields = {
      ...headers,
      ...(auth.auth ? { authorization: `Basic ${Buffer.from(auth.auth).toString('base64')}` } : {}),
      ':method': method,
      ':path': url.pathname + url.search,
    };
    let stream: http2.ClientHttp2Stream;
    try {
      stream = this.#session.request(fields, { endStream: body === undefined, signal });
    } catch (error) {
      throw requestFailure(error as NodeJS.ErrnoException, 0);
    }
    this.#trackStream(stream);
    const answered = new Promise<Incoming>((resolve, reject) => {
      stream.once('response', ({ ':status': status = 0, ...rest }) =>
        resolve({ status, statusText: '', headers: rest, body: stream, isWhole: () => stream.rstCode === NO_ERROR }),
      );
      // A stream may end without an error event: RST_STREAM with NO_ERROR or CANCEL.
      stream.on('error', (error) => reject(requestFailure(error, stream.rstCode ?? 0)));
      stream.once('close', () =>
        reject(requestFailure(new Error('the server ended the request'), stream.rstCode ?? 0)),
      );
    });
    if (body !== undefined) stream.end(body);
    return await withinTimeout(answered, (error) => stream.destroy(error));
  }

  /** Ends the connection and all its requests. */
  destroy(): void {
    this.#session.destroy();
  }

  /** Starts no more requests; those under way go on. */
  retire(): void {
    this.#isRetired = true;
    if (this.#openStreams === 0) this.#session.close();
  }

  #trackStream(stream: http2.ClientHttp2Stream): void {
    this.#openStreams += 1;
    clearTimeout(this.#idleTimer);
    stream.once('close', () => {
      this.#openStreams -= 1;
      if (this.#openStreams > 0) return;
      if (this.#isRetired) this.#session.close();
      this.#idleTimer = setTimeout(() => this.#session.close(), IDLE_TIMEOUT_MS);
      this.#idleTimer.unref();
    });
  }

  #schedulePing(): void {
    this.#pingTimer = setTimeout(() => this.#ping(), this.#pings.every);
    this.#pingTimer.unref();
  }

  #ping(): void {
    if (this.#isOver) return;
    const before = this.#session.socket.bytesRead;
    let isAnswered = false;
    // Any byte received shows that the connection lives, not only the answer.
    const judge = () => {
      if (!isAnswered) this.#judge(this.#session.socket.bytesRead > before);
    };
    // After the event loop was blocked, it reads the bytes that have arrived before this judges the connection.
    this.#pingTimer = setTimeout(() => setImmediate(() => setImmediate(judge)), this.#pings.answer);
    this.#pingTimer.unref();
    this.#session.ping((failure) => {
      if (failure !== null && !this.#isOver) return;
      isAnswered = true;
      clearTimeout(this.#pingTimer);
      if (!this.#isOver) this.#schedulePing();
    });
  }

  /** After a GOAWAY of the server, requests under way go on, and PING is not answered any more. TCP keep-alive notices a dead peer. */
  get #isOver(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  #judge(isAlive: boolean): void {
    if (this.#isOver) return;
    if (isAlive) this.#schedulePing();
    else {
      const seconds = (this.#pings.every + this.#pings.answer) / 1000;
      this.#session.destroy(new ConnectionDead(`no answer to a PING: nothing was received for ${seconds} s`));
    }
  }
}

/** RFC 9113, section 7. */
const { NGHTTP2_NO_ERROR: NO_ERROR, NGHTTP2_REFUSED_STREAM, NGHTTP2_HTTP_1_1_REQUIRED } = http2.constants;
/** Codes of errors that mean that nothing was sent. */
const UNSENT = new Set(['ERR_HTTP2_INVALID_SESSION', 'ERR_HTTP2_GOAWAY_SESSION', 'ERR_HTTP2_OUT_OF_STREAMS']);

function requestFailure(error: NodeJS.ErrnoException, code: number): Error {
  if (code === NGHTTP2_HTTP_1_1_REQUIRED) return new Http1Required(error.message, { cause: error });
  const isUnsent = code === NGHTTP2_REFUSED_STREAM || UNSENT.has(error.code ?? '');
  return isUnsent ? new LostWhileIdle(error.message, { cause: error }) : error;
}
