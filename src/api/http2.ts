/**
 * One connection to the API server over HTTP/2, which all lists, watches and writes share.
 *
 * A watch of what nobody changes is silent for many minutes, and that is no failure: a kube-apiserver sends no bookmark
 * before something of that kind changed. Whether the connection lives is asked of the connection, as client-go does
 * (k8s#95981, golang.org/x/net/http2 ReadIdleTimeout and PingTimeout): a PING every 25 s, and the end of the connection when
 * nothing at all was received within the 15 s after one. A cut cable is noticed within 40 s.
 */
import http2 from 'node:http2';
import { isIP } from 'node:net';
import tls from 'node:tls';
import { ANSWER_TIMEOUT, type Incoming, KEEP_ALIVE, LostWhileIdle, type Outgoing, withinTimeout } from './answer.ts';

/** Milliseconds. */
export interface PingTimes {
  /** Between an answer and the next PING. */
  readonly every: number;
  /** For anything to be received after a PING. */
  readonly answer: number;
}

export const PINGS: PingTimes = { every: 25_000, answer: 15_000 };

/** Milliseconds after which a connection without any request is closed: client-go's idle connections live as long. */
const IDLE = 90_000;
/** Bytes that the server may send ahead on one stream and on all, so that a page of a list needs no acknowledgement amid it. */
const STREAM_WINDOW = 4 * 2 ** 20;
const CONNECTION_WINDOW = 16 * 2 ** 20;

/** Megabytes that one connection may hold; bounded in fact by the windows. */
const MOST_BUFFERED = 256;

/** Nothing came on a connection for too long after a PING. */
export class ConnectionDead extends Error {}

/** The server speaks no HTTP/2, or wants HTTP/1.1 for this. */
export class Http1Required extends Error {}

/** Connect by TLS; undefined when the server chose HTTP/1.1 (ALPN, RFC 7301). Rejects with what failed. */
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
  // For the time after the server said that it gives the connection up: then it answers no PING any more.
  socket.setKeepAlive(true, KEEP_ALIVE);
  const session = http2.connect(outgoing.url.origin, {
    createConnection: () => socket,
    settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
    // Node.js rejects new streams of a session that holds more than 10 MB; pages of lists are large, and come side by side.
    maxSessionMemory: MOST_BUFFERED,
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
      // An address is no name for SNI (RFC 6066, section 3).
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
  #timer: NodeJS.Timeout | undefined;
  #idle: NodeJS.Timeout | undefined;
  #open = 0;
  #isRetired = false;

  constructor(session: http2.ClientHttp2Session, pings: PingTimes) {
    this.#session = session;
    this.#pings = pings;
    // Each request hears of it by itself.
    session.on('error', () => undefined);
    session.once('connect', () => session.setLocalWindowSize(CONNECTION_WINDOW));
    session.once('close', () => {
      clearTimeout(this.#timer);
      clearTimeout(this.#idle);
    });
    this.#later();
  }

  /** False once the server or a failure has ended it: requests go over another one. */
  get isUsable(): boolean {
    return !this.#isRetired && !this.#isOver;
  }

  /** Rejects with LostWhileIdle when nothing came of the request, Http1Required, or whatever Node.js says of the failure. */
  async request({ method, url, headers, body, auth, signal }: Outgoing): Promise<Incoming> {
    signal.throwIfAborted();
    const asked = {
      ...headers,
      ...(auth.auth ? { authorization: `Basic ${Buffer.from(auth.auth).toString('base64')}` } : {}),
      ':method': method,
      ':path': url.pathname + url.search,
    };
    let stream: http2.ClientHttp2Stream;
    try {
      stream = this.#session.request(asked, { endStream: body === undefined, signal });
    } catch (error) {
      throw requestFailure(error as NodeJS.ErrnoException, 0);
    }
    this.#opened(stream);
    const answered = new Promise<Incoming>((resolve, reject) => {
      stream.once('response', ({ ':status': status = 0, ...rest }) =>
        resolve({ status, statusText: '', headers: rest, body: stream, isWhole: () => stream.rstCode === NO_ERROR }),
      );
      // A stream that ends may do so without an error: RST_STREAM with NO_ERROR or CANCEL.
      stream.on('error', (error) => reject(requestFailure(error, stream.rstCode ?? 0)));
      stream.once('close', () =>
        reject(requestFailure(new Error('the server ended the request'), stream.rstCode ?? 0)),
      );
    });
    if (body !== undefined) stream.end(body);
    return await withinTimeout(answered, (error) => stream.destroy(error));
  }

  /** End it with all requests on it. */
  destroy(): void {
    this.#session.destroy();
  }

  /** No request begins on it any more; those under way go on. */
  retire(): void {
    this.#isRetired = true;
    if (this.#open === 0) this.#session.close();
  }

  #opened(stream: http2.ClientHttp2Stream): void {
    this.#open += 1;
    clearTimeout(this.#idle);
    stream.once('close', () => {
      this.#open -= 1;
      if (this.#open > 0) return;
      if (this.#isRetired) this.#session.close();
      this.#idle = setTimeout(() => this.#session.close(), IDLE);
      this.#idle.unref();
    });
  }

  #later(): void {
    this.#timer = setTimeout(() => this.#ping(), this.#pings.every);
    this.#timer.unref();
  }

  #ping(): void {
    if (this.#isOver) return;
    const before = this.#session.socket.bytesRead;
    let isAnswered = false;
    // What is on its way before the answer shows that the connection lives as well as the answer does.
    const judge = () => {
      if (!isAnswered) this.#judge(this.#session.socket.bytesRead > before);
    };
    // An event loop that was held reads what has come before it judges.
    this.#timer = setTimeout(() => setImmediate(() => setImmediate(judge)), this.#pings.answer);
    this.#timer.unref();
    this.#session.ping((failure) => {
      if (failure !== null && !this.#isOver) return;
      isAnswered = true;
      clearTimeout(this.#timer);
      if (!this.#isOver) this.#later();
    });
  }

  /** The server gave it up (GOAWAY): what is under way goes on, and PING says nothing any more. TCP keep-alive tells whether it lives. */
  get #isOver(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  #judge(isAlive: boolean): void {
    if (this.#isOver) return;
    if (isAlive) this.#later();
    else {
      const seconds = (this.#pings.every + this.#pings.answer) / 1000;
      this.#session.destroy(new ConnectionDead(`no answer to a PING: nothing was received for ${seconds} s`));
    }
  }
}

/** RFC 9113, section 7. */
const { NGHTTP2_NO_ERROR: NO_ERROR, NGHTTP2_REFUSED_STREAM, NGHTTP2_HTTP_1_1_REQUIRED } = http2.constants;
/** The session was over before anything was sent. */
const UNSENT = new Set(['ERR_HTTP2_INVALID_SESSION', 'ERR_HTTP2_GOAWAY_SESSION', 'ERR_HTTP2_OUT_OF_STREAMS']);

function requestFailure(error: NodeJS.ErrnoException, code: number): Error {
  if (code === NGHTTP2_HTTP_1_1_REQUIRED) return new Http1Required(error.message, { cause: error });
  const isUnsent = code === NGHTTP2_REFUSED_STREAM || UNSENT.has(error.code ?? '');
  return isUnsent ? new LostWhileIdle(error.message, { cause: error }) : error;
}
