/** Accepts connections on a port (the one argument) of every local address, and closes them at once or reads what they send. */
import { setImmediate as breath } from 'node:timers/promises';
import { AF_INET, bind, close, SOL_SOCKET, SystemError, setSocketOption, socket } from '../../native/libc.ts';
import { obey } from './inside.ts';
import { accept, listen, receiveNow, SOCK_NONBLOCK, SOCK_STREAM, socketAddress, waitToReceive } from './sockets.ts';
import type { TrafficSinkAnswer, TrafficSinkCommand } from './traffic-protocol.ts';

const BACKLOG = 65_535;
/** asm-generic/socket.h */
const SO_REUSEADDR = 2;
/** Milliseconds that a command may wait. */
const TURN = 5;

const piece = Buffer.alloc(1024 * 1024);
let isReading = false;
/** The connection that is read; its reader knows one alone. */
let stream: number | undefined;

const descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
setSocketOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
bind(descriptor, socketAddress('0.0.0.0', Number(process.argv[2])));
listen(descriptor, BACKLOG);

function acceptAll(): void {
  for (let accepted = accept(descriptor); accepted !== undefined; accepted = accept(descriptor)) {
    if (isReading && stream === undefined) stream = accepted;
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
    }
    if (performance.now() >= until) return;
  } catch (error) {
    // The client ends it with a reset.
    if (!(error instanceof SystemError)) throw error;
  }
  close(from);
  stream = undefined;
}

async function serve(): Promise<void> {
  for (;;) {
    if (waitToReceive(stream ?? descriptor, TURN)) {
      if (stream === undefined) acceptAll();
      else read(stream);
    }
    await breath();
  }
}

void serve();
obey<TrafficSinkCommand, TrafficSinkAnswer>(({ kind }) => {
  isReading = kind === 'read';
  const { user, system } = process.cpuUsage();
  return { processor: user + system };
});
