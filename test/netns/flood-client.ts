/**
 * A client that means harm, for floods.test.ts: `node flood-client.ts ATTACK ADDRESS PORT PATH MILLISECONDS [AUDIENCE]`. It opens again what the server
 * closes, a bounded number of times, and prints how many connections it made, and how many were open at the end and had been so for a while.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { madeToken } from '../helpers/cluster/api/api-reviews.ts';
import type { FloodClientReport } from './floods.ts';

const [attack = '', host = '', portText = '', path = '/', time = '', audience = ''] = process.argv.slice(2);
const port = Number(portText);
/** Connections that it makes in all, so that it ends whatever the server does. */
const MAX_MADE = 20_000;
/** Milliseconds after which a connection counts as open. */
const KEPT_MS = 300;
const head = `GET ${path} HTTP/1.1\r\nhost: ${host}\r\n`;

let made = 0;
/** Looks like a token of the API server's, and is another one each time. */
const token = () => madeToken(`made-up-${made}`, audience);

interface Attack {
  /** Connections that it keeps open. */
  readonly connections: number;
  /** Called when a connection is open, and whenever it may send more. */
  send?(socket: Socket): void;
  /** Called every 100 ms with each open connection. */
  drip?(socket: Socket): void;
  readonly readsAnswers?: boolean;
}

const PIPELINE = Buffer.from(`${head}\r\n`.repeat(40_000));
const EMPTY_LINES = Buffer.from('\r\n'.repeat(128 * 1024));
const JUNK = Buffer.alloc(256 * 1024, 'x');

const ATTACKS: Readonly<Record<string, Attack>> = {
  pipelining: { connections: 400, send: (socket) => socket.write(PIPELINE) },
  idle: { connections: 4096 },
  'forty idle': { connections: 40, readsAnswers: true },
  'slow heads': { connections: 400, send: (socket) => socket.write(head), drip: (socket) => socket.write('a') },
  'huge heads': { connections: 400, send: (socket) => socket.write(Buffer.concat([Buffer.from(`${head}a: `), JUNK])) },
  'endless bodies': {
    connections: 400,
    send: (socket) => socket.write(`PUT ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 1000000000\r\n\r\n`),
    drip: (socket) => socket.write(JUNK),
  },
  'half-closed': { connections: 400, send: (socket) => socket.end(`${head}\r\n`) },
  'empty lines': {
    connections: 400,
    send: (socket) => socket.write(`${head}\r\n`),
    drip: (socket) => socket.write(EMPTY_LINES),
    readsAnswers: true,
  },
  'made-up tokens': {
    connections: 400,
    send: (socket) => socket.write(`${head}authorization: Bearer ${token()}\r\nconnection: close\r\n\r\n`),
    readsAnswers: true,
  },
  'one request each': {
    connections: 400,
    send: (socket) => socket.write(`${head}connection: close\r\n\r\n`),
    readsAnswers: true,
  },
};

const { connections, send, drip, readsAnswers = false } = ATTACKS[attack] ?? { connections: 0 };
const open = new Set<Socket>();
const connectedAt = new Map<Socket, number>();
let isOver = false;

function add(): void {
  if (isOver || made >= MAX_MADE) return;
  made += 1;
  const socket = connect({ host, port, allowHalfOpen: true });
  open.add(socket);
  if (readsAnswers) socket.resume();
  else socket.pause();
  socket.on('connect', () => {
    connectedAt.set(socket, performance.now());
    send?.(socket);
  });
  socket.on('end', () => socket.destroy());
  socket.on('error', () => undefined);
  socket.on('close', () => {
    open.delete(socket);
    connectedAt.delete(socket);
    setTimeout(add, 5);
  });
}

for (let i = 0; i < connections; i += 1) add();
const until = performance.now() + Number(time);
while (performance.now() < until) {
  await pause(100);
  for (const socket of open)
    if (socket.writable && !socket.connecting && socket.writableLength < JUNK.length) drip?.(socket);
}
isOver = true;
// The kernel completes a connection before the server refuses it.
const latest = performance.now() - KEPT_MS;
const kept = [...connectedAt].filter(([socket, at]) => open.has(socket) && at < latest);
process.stdout.write(`${JSON.stringify({ made, open: kept.length } satisfies FloodClientReport)}\n`);
process.exit();
