/**
 * Requests over HTTP/1.1, for a server or a proxy without HTTP/2. Lists and writes share kept connections; each watch
 * has one of its own. The kernel probes a quiet connection (TCP keep-alive): first after 20 s, then each second, and ends
 * it after 10 probes without an answer (`uv_tcp_keepalive` of libuv): a dead peer is noticed after 30 s.
 */
import http from 'node:http';
import https from 'node:https';
import { type Incoming, KEEP_ALIVE, LostWhileIdle, type Outgoing, withinTimeout } from './answer.ts';

/** Reuses connections for writes and for pages of lists. Requests with different certificates never share one. */
export class Http1 {
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
    // An agent that is set connects through a proxy.
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

  /** Close idle connections. */
  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }
}
