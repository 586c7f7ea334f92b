/** Accepts connections on a port (the one argument) of every local address, closes them in order, and counts them. */
import { setImmediate as breath } from 'node:timers/promises';
import { AF_INET, bind, close, SOL_SOCKET, setSocketOption, socket } from '../../native/libc.ts';
import type { SinkAnswer, SinkCommand } from './connects-protocol.ts';
import { obey } from './inside.ts';
import { accept, listen, localAddress, SOCK_NONBLOCK, SOCK_STREAM, socketAddress, waitToReceive } from './sockets.ts';

/** Connections that wait while this process does: a handshake is refused to none. */
const BACKLOG = 65_535;
/** asm-generic/socket.h */
const SO_REUSEADDR = 2;
/** Milliseconds that a command may wait. */
const TURN = 5;

let counts: Record<string, number> = {};

const descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
// Connections of a sink before this one may still be waiting for the end of their time.
setSocketOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
bind(descriptor, socketAddress('0.0.0.0', Number(process.argv[2])));
listen(descriptor, BACKLOG);

function acceptAll(): void {
  for (;;) {
    const accepted = accept(descriptor);
    if (accepted === undefined) return;
    const address = localAddress(accepted);
    counts[address] = (counts[address] ?? 0) + 1;
    close(accepted);
  }
}

async function serve(): Promise<void> {
  for (;;) {
    if (waitToReceive(descriptor, TURN)) acceptAll();
    await breath();
  }
}

void serve();
obey<SinkCommand, SinkAnswer>(({ kind }) => {
  if (kind === 'ready') return {};
  acceptAll();
  const counted = counts;
  counts = {};
  return counted;
});
