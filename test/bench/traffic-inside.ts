/** Connects again and again, or sends without end over one connection, and says what that took. */
import { AF_INET, close, SystemError, socket } from '../../native/libc.ts';
import { obey } from './inside.ts';
import { connect, giveUpAfter, resetAtClose, SOCK_STREAM, send, socketAddress } from './sockets.ts';
import type { TrafficAnswer, TrafficCommand } from './traffic-protocol.ts';

/** Milliseconds: less than the time after which a lost packet is sent again. */
const PATIENCE = 900;
/** Bytes of one call. */
const PIECE = 256 * 1024;
/** Connections between two looks at the clock. */
const BATCH = 16;

/** Blocks until the connection stands. Throws SystemError where it does not. */
function opened(address: Uint8Array): number {
  const descriptor = socket(AF_INET, SOCK_STREAM, 0);
  // A reset at the end leaves no port in TIME_WAIT.
  resetAtClose(descriptor);
  giveUpAfter(descriptor, PATIENCE);
  const error = connect(descriptor, address);
  if (error === 0) return descriptor;
  close(descriptor);
  throw new SystemError('connect', error);
}

function connects(address: Uint8Array, until: number): number {
  let count = 0;
  while (performance.now() < until) {
    for (let i = 0; i < BATCH; i++) close(opened(address));
    count += BATCH;
  }
  return count;
}

function stream(address: Uint8Array, until: number): number {
  const descriptor = opened(address);
  const piece = Buffer.alloc(PIECE);
  let count = 0;
  try {
    while (performance.now() < until) count += send(descriptor, piece);
  } finally {
    close(descriptor);
  }
  return count;
}

obey<TrafficCommand, TrafficAnswer>(({ kind, target, seconds }) => {
  const address = socketAddress(target.address, target.port);
  const [before, start] = [process.cpuUsage(), performance.now()];
  const count = (kind === 'connects' ? connects : stream)(address, start + seconds * 1000);
  const took = performance.now() - start;
  const { user, system } = process.cpuUsage(before);
  return { count, seconds: took / 1000, processor: user + system };
});
