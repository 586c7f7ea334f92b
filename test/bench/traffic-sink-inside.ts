/**
 * Serves TCP and UDP on a port of every local address: it closes connections at once, reads what they send, or sends it back.
 *
 *   node traffic-sink-inside.ts PORT ADDRESS     ADDRESS: the local one that serves UDP, whose answers must come from there
 */
import { setImmediate as breath } from 'node:timers/promises';
import { AF_INET, bind, close, SOL_SOCKET, SystemError, sendTo, setSocketOption, socket } from '../../native/libc.ts';
import { obey } from './inside.ts';
import {
  accept,
  listen,
  receiveFrom,
  receiveNow,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  send,
  socketAddress,
  waitToReceive,
} from './sockets.ts';
import type { TrafficKind, TrafficSinkAnswer, TrafficSinkCommand } from './traffic-protocol.ts';

const BACKLOG = 65_535;
/** asm-generic/socket.h */
const SO_REUSEADDR = 2;
/** Milliseconds that a command may wait. */
const TURN = 5;

const [port, udpAddress = ''] = process.argv.slice(2);
const piece = Buffer.alloc(1024 * 1024);
let serves: TrafficKind = 'connects';
/** The connection that is read; its reader knows one alone. */
let stream: number | undefined;

const tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
setSocketOption(tcp, SOL_SOCKET, SO_REUSEADDR, 1);
bind(tcp, socketAddress('0.0.0.0', Number(port)));
listen(tcp, BACKLOG);
const udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
bind(udp, socketAddress(udpAddress, Number(port)));

function acceptAll(): void {
  for (let accepted = accept(tcp); accepted !== undefined; accepted = accept(tcp)) {
    if (serves !== 'connects' && stream === undefined) stream = accepted;
    else close(accepted);
  }
}

/** Until nothing is there, or the time is up: commands are heard in between. */
function read(from: number): void {
  const until = performance.now() + TURN;
  try {
    while (performance.now() < until) {
      const received = receiveNow(from, piece);
      if (received === undefined) return;
      if (received === 0) break;
      if (serves === 'round-trips') send(from, piece.subarray(0, received));
    }
    if (performance.now() >= until) return;
  } catch (error) {
    // The client ends it with a reset.
    if (!(error instanceof SystemError)) throw error;
  }
  close(from);
  stream = undefined;
}

function answerAll(): void {
  for (let from = receiveFrom(udp, piece); from !== undefined; from = receiveFrom(udp, piece))
    sendTo(udp, piece.subarray(0, 1), from);
}

async function serve(): Promise<void> {
  for (;;) {
    if (waitToReceive(serves === 'flows' ? udp : (stream ?? tcp), TURN)) {
      if (serves === 'flows') answerAll();
      else if (stream === undefined) acceptAll();
      else read(stream);
    }
    await breath();
  }
}

void serve();
obey<TrafficSinkCommand, TrafficSinkAnswer>(({ kind }) => {
  serves = kind;
  const { user, system } = process.cpuUsage();
  return { processor: user + system };
});
