/**
 * A connection to a port of a Pod through the API server, as a stream of bytes. Nothing listens on this machine.
 *
 * The protocol is port-forward over WebSocket, as kubelets speak it (k8s.io/cri-streaming, portforward/websocket.go): the first byte of
 * a message is its channel. Channel 0 carries data, channel 1 the kubelet's error; each begins with the port in two bytes. The API server
 * asks for the verb `get` of pods/portforward, and since Kubernetes 1.35 for `create` as well (KEP-4006, k8s#134577).
 */
import { STATUS_CODES } from 'node:http';
import type { RequestOptions } from 'node:https';
import { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { type Credentials, MAX_STATUS_BYTES, readStatus } from '../../cluster/api/client.ts';
import { tlsProblem } from '../../cluster/api/tls-problem.ts';
import { NoAnswer } from '../../inspect/wire/envelope.ts';

const PROTOCOL = 'v4.channel.k8s.io';
const DATA = 0;
const ERROR = 1;
const PORT_BYTES = 2;
/** Bytes of a message: a kubelet sends 32 KiB at most. */
const MAX_MESSAGE = 16 << 20;
/** Bytes of the kubelet's error that are kept. */
const MAX_ERROR = 4096;
/** A close with these codes is the end of the stream (RFC 6455, section 7.4.1). */
const NORMAL: readonly number[] = [1000, 1005];

export interface ForwardTo {
  readonly credentials: Credentials;
  readonly userAgent: string;
  readonly namespace: string;
  readonly pod: string;
  readonly port: number;
  /** Ends the connection. */
  readonly signal: AbortSignal;
}

/** Resolves when the API server has the connection. Throws NoAnswer, or the reason of the signal. */
export async function openForward(to: ForwardTo): Promise<Duplex> {
  const { credentials, namespace, pod, port, signal, userAgent } = to;
  // Nothing else needs ws, so it is loaded here.
  const { WebSocket: Socket } = await import('ws');
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/portforward`;
  const url = new URL(`${credentials.server.replace(/\/$/, '')}${path}?ports=${port}`);
  url.protocol = url.protocol === 'http:' ? 'ws:' : 'wss:';
  const auth: RequestOptions = { headers: {} };
  await credentials.apply(auth);
  signal.throwIfAborted();
  const socket = new Socket(url, [PROTOCOL], {
    ...auth,
    headers: { ...auth.headers, 'user-agent': userAgent },
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE,
  });
  const onAbort = () => socket.terminate();
  signal.addEventListener('abort', onAbort, { once: true });
  socket.once('close', () => signal.removeEventListener('abort', onAbort));
  // The first messages may come together with the answer of the API server.
  const stream = streamOver(socket);
  try {
    await opened(socket, url);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
  return stream;
}

function opened(socket: WebSocket, url: URL): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('open', resolve);
    socket.on('error', (error: Error) => {
      const why = tlsProblem(error) ?? error.message;
      reject(new NoAnswer(`the API server ${url.host} did not open a connection to the Pod: ${why}`));
    });
    socket.once('unexpected-response', (request, response) => {
      const pieces: Buffer[] = [];
      let length = 0;
      const refuse = () => {
        const { statusCode = 0 } = response;
        const { message = STATUS_CODES[statusCode] ?? '' } = readStatus(Buffer.concat(pieces), false);
        reject(new NoAnswer(refusal(statusCode, message)));
        request.destroy();
      };
      response.on('data', (piece: Buffer) => {
        length += piece.length;
        if (length <= MAX_STATUS_BYTES) pieces.push(piece);
        else refuse();
      });
      response.once('close', refuse);
    });
  });
}

/** The reason why the API server does not forward, with advice. */
function refusal(status: number, message: string): string {
  const verb = /cannot (\w+) resource "pods\/portforward"/.exec(message)?.[1];
  if (status === 403 && verb !== undefined)
    return `the verb ${verb} of pods/portforward is missing in your rights: ${message}; docs/kubectl.md has a Role`;
  // The check for `create` after the one for `get` gives no reason (kube-apiserver 1.36).
  if (status === 403 && /forbidden:?\s*$/.test(message))
    return `the verb create of pods/portforward is missing in your rights: the API server allowed the verb get, and refused without a reason; docs/kubectl.md has a Role`;
  if (status === 403) return `the API server forbids port-forward: ${message}; docs/kubectl.md has a Role`;
  return `the API server refused port-forward: ${status} ${message}`;
}

/** The stream of channel 0. It fails with NoAnswer when the kubelet cannot reach the port. */
function streamOver(socket: WebSocket): Duplex {
  let problem = '';
  let failure: Error | undefined;
  const left = [PORT_BYTES, PORT_BYTES];
  const stream = new Duplex({
    read: () => socket.resume(),
    // A message that cannot be sent any more is followed by the close, which has the reason.
    write: (piece: Buffer, _encoding, done) => socket.send(Buffer.concat([Buffer.of(DATA), piece]), () => done()),
    // The protocol cannot end one direction alone.
    final: (done) => done(),
    destroy(error, done) {
      socket.terminate();
      done(error);
    },
  });
  // The reader of the stream gets the error, too. Without a listener it would end the process.
  stream.on('error', () => undefined);
  socket.on('message', (message: Buffer) => {
    const channel = message[0] ?? -1;
    if (channel !== DATA && channel !== ERROR) return;
    const skipped = Math.min(left[channel] ?? 0, message.length - 1);
    left[channel] = (left[channel] ?? 0) - skipped;
    const data = message.subarray(1 + skipped);
    if (channel === ERROR) problem = (problem + data.toString()).slice(0, MAX_ERROR);
    else if (data.length > 0 && !stream.push(data)) socket.pause();
  });
  socket.on('error', (error) => (failure = error));
  socket.on('close', (code, reason) => {
    if (problem !== '') stream.destroy(new NoAnswer(kubeletProblem(problem)));
    else if (NORMAL.includes(code)) stream.push(null);
    else stream.destroy(failure ?? new Error(`the API server or the kubelet cut it off (${code} ${reason})`));
  });
  return stream;
}

function kubeletProblem(error: string): string {
  const hint = /connection refused|ECONNREFUSED/.test(error)
    ? 'the agent does not listen there: it starts, or its --metrics-bind-address is another one; --port names the port, and the address must be of loopback'
    : 'look at the Pod and at its node';
  return `the kubelet could not reach the agent: ${error}; ${hint}`;
}
