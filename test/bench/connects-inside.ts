/**
 * Connects again and again, one connection at a time, and says how long each took: from before connect(2) until the
 * handshake was done. Each is reset at once, so that no port waits (TIME_WAIT) and the kernel's entry for it ends early.
 */
import { setImmediate as breath, setTimeout as pause } from 'node:timers/promises';
import { AF_INET, close, socket } from '../../native/libc.ts';
import type { ConnectAnswer, ConnectCommand, Failure, Target } from './connects-protocol.ts';
import { obey } from './inside.ts';
import { nanoseconds } from './monotonic.ts';
import { connect, errorOf, resetAtClose, SOCK_NONBLOCK, SOCK_STREAM, socketAddress, waitToSend } from './sockets.ts';

const EINPROGRESS = 115;
const FAILURES: Readonly<Record<number, Failure>> = {
  101: 'unreachable',
  104: 'reset',
  110: 'timed out',
  111: 'refused',
  113: 'unreachable',
};
/** Failures that are told one by one. */
const TOLD = 100;
/** Milliseconds after which commands are heard. */
const TURN = 5;

interface Outcome {
  /** Nanoseconds. */
  readonly took: number;
  readonly failure: Failure | undefined;
}

function connectOnce(address: Uint8Array, timeout: number): Outcome {
  const descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  try {
    resetAtClose(descriptor);
    const start = nanoseconds();
    let error = connect(descriptor, address);
    if (error === EINPROGRESS) error = waitToSend(descriptor, timeout) ? errorOf(descriptor) : 110;
    return { took: nanoseconds() - start, failure: error === 0 ? undefined : (FAILURES[error] ?? 'other') };
  } finally {
    close(descriptor);
  }
}

class Run {
  readonly #command: ConnectCommand;
  readonly #addresses: readonly { readonly target: Target; readonly bytes: Uint8Array }[];
  readonly #times: number[] = [];
  readonly #failures: Record<Failure, number> = { refused: 0, reset: 0, 'timed out': 0, unreachable: 0, other: 0 };
  #firstAt: number | undefined;
  readonly #first: { at: number; failure: Failure; address: string }[] = [];

  constructor(command: ConnectCommand) {
    this.#command = command;
    this.#addresses = command.targets.map((target) => ({ target, bytes: socketAddress(target.address, target.port) }));
  }

  async run(): Promise<ConnectAnswer> {
    const { seconds, perSecond, untilFirst = false } = this.#command;
    const start = performance.now();
    const end = start + seconds * 1000;
    let breathed = start;
    for (let i = 0; ; i++) {
      const due = perSecond === undefined ? 0 : start + (i * 1000) / perSecond;
      const now = performance.now();
      if (Math.max(now, due) >= end || (untilFirst && this.#firstAt !== undefined)) break;
      if (due > now) await pause(due - now);
      else if (now - breathed > TURN) await breath();
      if (due > now || now - breathed > TURN) breathed = now;
      this.#connect(i);
    }
    return { times: this.#times, firstAt: this.#firstAt, failures: this.#failures, first: this.#first };
  }

  #connect(i: number): void {
    const to = this.#addresses[i % this.#addresses.length];
    if (to === undefined) return;
    const at = nanoseconds();
    const { took, failure } = connectOnce(to.bytes, this.#command.timeout);
    if (failure === undefined) {
      this.#firstAt ??= at + took;
      this.#times.push(took / 1000);
      return;
    }
    this.#failures[failure] += 1;
    if (this.#first.length < TOLD) this.#first.push({ at, failure, address: to.target.address });
  }
}

obey<ConnectCommand, ConnectAnswer>((command) => new Run(command).run());
