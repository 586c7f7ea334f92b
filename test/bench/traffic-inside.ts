/** Makes traffic of one kind as fast as it can, and says what that took. */
import { AF_INET, close, SystemError, socket } from '../../native/libc.ts';
import { obey } from './inside.ts';
import {
  connect,
  giveUpAfter,
  receiveSoon,
  resetAtClose,
  SOCK_DGRAM,
  SOCK_STREAM,
  send,
  socketAddress,
} from './sockets.ts';
import type { TrafficAnswer, TrafficCommand, TrafficKind } from './traffic-protocol.ts';

/** Milliseconds: less than the time after which a lost packet is sent again. */
const PATIENCE = 900;
/** Bytes of one call. */
const PIECE = 256 * 1024;
/** Connections between two looks at the clock. */
const BATCH = 16;

const byte = Buffer.alloc(1);

/** Blocks until the connection stands. Throws SystemError where it does not. */
function opened(type: number, address: Uint8Array): number {
  const descriptor = socket(AF_INET, type, 0);
  // A reset at the end leaves no port in TIME_WAIT.
  if (type === SOCK_STREAM) resetAtClose(descriptor);
  giveUpAfter(descriptor, PATIENCE);
  const error = connect(descriptor, address);
  if (error === 0) return descriptor;
  close(descriptor);
  throw new SystemError('connect', error);
}

function roundTrip(descriptor: number): void {
  send(descriptor, byte);
  receiveSoon(descriptor, byte);
}

/** Does something again and again, and looks at the clock now and then. Returns how often. */
function again(until: number, once: () => void): number {
  let count = 0;
  while (performance.now() < until) {
    for (let i = 0; i < BATCH; i++) once();
    count += BATCH;
  }
  return count;
}

/** With one connection, which is closed at the end. */
function within(address: Uint8Array, work: (descriptor: number) => number): number {
  const descriptor = opened(SOCK_STREAM, address);
  try {
    return work(descriptor);
  } finally {
    close(descriptor);
  }
}

function flow(address: Uint8Array): void {
  const descriptor = opened(SOCK_DGRAM, address);
  try {
    roundTrip(descriptor);
  } finally {
    close(descriptor);
  }
}

/** Until a time of `performance.now`; returns the number of connections, flows, round trips or bytes. */
const MAKE: Readonly<Record<TrafficKind, (address: Uint8Array, until: number) => number>> = {
  connects: (address, until) => again(until, () => close(opened(SOCK_STREAM, address))),
  flows: (address, until) => again(until, () => flow(address)),
  'round-trips': (address, until) => within(address, (descriptor) => again(until, () => roundTrip(descriptor))),
  stream: (address, until) =>
    within(address, (descriptor) => {
      const piece = Buffer.alloc(PIECE);
      let count = 0;
      while (performance.now() < until) count += send(descriptor, piece);
      return count;
    }),
};

obey<TrafficCommand, TrafficAnswer>(({ kind, target, seconds }) => {
  const address = socketAddress(target.address, target.port);
  const [before, start] = [process.cpuUsage(), performance.now()];
  const count = MAKE[kind](address, start + seconds * 1000);
  const took = performance.now() - start;
  const { user, system } = process.cpuUsage(before);
  return { count, seconds: took / 1000, processor: user + system };
});
