/**
 * Port-forward over WebSocket as API server and kubelet answer it (k8s.io/cri-streaming, portforward/websocket.go): each channel begins
 * with the port, channel 0 has data, channel 1 the error. What is behind a Pod is up to the test.
 */
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { statusBody } from '../../cluster/api/api-answers.ts';
import type { ApiServer } from '../../cluster/api/api-server.ts';

const PROTOCOL = 'v4.channel.k8s.io';

/** What happens to a connection to a Pod. */
export type Behind =
  /** It leads to this port of the loopback. */
  | { readonly kind: 'agent'; readonly port: number }
  /** The kubelet fails, in these words. */
  | { readonly kind: 'fails'; readonly error: string }
  /** Nothing ever comes. */
  | { readonly kind: 'hangs' }
  /** The API server never answers. */
  | { readonly kind: 'silent' }
  /** The connection is cut after so many bytes of the agent's answer. */
  | { readonly kind: 'cut'; readonly port: number; readonly after: number }
  /** These bytes come, in messages of these lengths, and then the end. */
  | { readonly kind: 'bytes'; readonly messages: readonly Buffer[] }
  /** The API server refuses. */
  | { readonly kind: 'refused'; readonly status: number; readonly message: string };

/** A connection that was asked for. */
export interface Forwarded {
  readonly pod: string;
  readonly port: number;
  readonly headers: IncomingMessage['headers'];
}

export interface FakeKubelets {
  readonly asked: readonly Forwarded[];
  /** Connections that are open, and how many were at most. */
  readonly open: () => number;
  readonly most: () => number;
}

/** `behind`: by namespace/name. */
export function serveForwards(server: ApiServer, behind: (pod: string) => Behind): FakeKubelets {
  const sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: (offered) => (offered.has(PROTOCOL) ? PROTOCOL : false),
  });
  const asked: Forwarded[] = [];
  let [open, most] = [0, 0];
  server.onUpgrade((request, connection, head) => {
    const url = new URL(request.url ?? '/', 'http://server');
    const match = /\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)\/portforward$/.exec(url.pathname);
    const pod = `${decodeURIComponent(match?.[1] ?? '')}/${decodeURIComponent(match?.[2] ?? '')}`;
    const port = Number(url.searchParams.get('ports'));
    asked.push({ pod, port, headers: request.headers });
    const is = behind(pod);
    open++;
    most = Math.max(most, open);
    connection.on('close', () => open--);
    connection.on('error', () => undefined);
    if (is.kind === 'silent') return;
    if (match === null || is.kind === 'refused') {
      refuse(connection, is.kind === 'refused' ? is : { status: 404, message: 'not found' });
      return;
    }
    sockets.handleUpgrade(request, connection, head, (socket) => serve(socket, port, is));
  });
  return { asked, open: () => open, most: () => most };
}

function refuse(connection: Duplex, { status, message }: { readonly status: number; readonly message: string }): void {
  const body = JSON.stringify(statusBody(status, { message }));
  connection.end(
    `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function serve(socket: WebSocket, port: number, is: Exclude<Behind, { kind: 'silent' | 'refused' }>): void {
  const send = (channel: number, data: Uint8Array) => socket.send(Buffer.concat([Buffer.of(channel), data]));
  const head = Buffer.alloc(2);
  head.writeUInt16LE(port);
  send(0, head);
  send(1, head);
  if (is.kind === 'fails') {
    send(1, Buffer.from(is.error));
    socket.close(1000);
  } else if (is.kind === 'bytes') {
    for (const message of is.messages) send(0, message);
    socket.close(1000);
  } else if (is.kind !== 'hangs') bridge(socket, is, (data) => send(0, data));
}

function bridge(
  socket: WebSocket,
  is: Extract<Behind, { readonly port: number }>,
  send: (data: Uint8Array) => void,
): void {
  const agent = connect(is.port, '127.0.0.1');
  let left = is.kind === 'cut' ? is.after : Number.POSITIVE_INFINITY;
  socket.on('message', (message: Buffer) => void agent.write(message.subarray(1)));
  socket.on('close', () => agent.destroy());
  agent.on('data', (data: Buffer) => {
    send(data.subarray(0, left));
    left -= data.length;
    if (left <= 0) socket.terminate();
  });
  agent.on('error', () => socket.terminate());
  agent.on('close', () => socket.close(1000));
}
