/** Time behind an interface, and waits that an AbortSignal ends. */
import { setImmediate } from 'node:timers/promises';

export interface Clock {
  /** Milliseconds of a clock that never goes backwards. */
  now(): number;
  /** Milliseconds since 1970. */
  wall(): number;
  /** Calls once after some milliseconds. The result cancels the call. */
  after(milliseconds: number, call: () => void): () => void;
}

/** The longest wait of setTimeout: 24 days. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export const realClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(milliseconds, call) {
    // setTimeout would not wait at all for a longer time. Waking too early does no harm.
    const timer = setTimeout(call, Math.min(milliseconds, MAX_TIMEOUT_MS));
    return () => clearTimeout(timer);
  },
};

/** The wait after failures in a row, in milliseconds: `first` after one of them, and twice as long after each further one, up to `max`. */
export function doubledWait(failures: number, first: number, max: number): number {
  return Math.min(max, first * 2 ** Math.min(failures - 1, 30));
}

/** Yields to the event loop: resolves after it has run other work. */
export function breath(): Promise<void> {
  return setImmediate();
}

/** Resolves after some milliseconds; rejects with the signal's reason when it aborts before. */
export function sleep(clock: Clock, milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = clock.after(milliseconds, () => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    });
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

/** Whether the work ends within these milliseconds. It goes on otherwise. Rejects as the work does until then. */
export async function endsWithin(
  milliseconds: number,
  work: Promise<void>,
  clock: Pick<Clock, 'after'>,
): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  const cancel = clock.after(milliseconds, () => resolve(false));
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    cancel();
  }
}

/** Never resolves; rejects with the signal's reason when it aborts. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/**
 * Resolves as the promise; rejects with the signal's reason when it aborts first. The work of the promise goes on. Unlike a race with
 * `aborted`, it removes its listener.
 */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: abort, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    // The race also runs after an abort: a later failure of the promise would otherwise be an unhandled rejection.
    return await Promise.race([promise, abort]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

export interface WaitOptions {
  /** Milliseconds; undefined: until it is woken. */
  readonly time: number | undefined;
  readonly isWakeable: boolean;
  readonly signal: AbortSignal;
}

/** A wait that ends after some time, when it is woken, or when the signal aborts, whichever comes first. */
export class Wait {
  readonly #clock: Clock;
  #wake: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends the current wait, if it may be woken. */
  wake(): void {
    this.#wake?.();
  }

  /** Never rejects: the caller checks the signal. */
  start({ time, isWakeable, signal }: WaitOptions): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        cancel?.();
        this.#wake = undefined;
        signal.removeEventListener('abort', done);
        resolve();
      };
      const cancel = time === undefined ? undefined : this.#clock.after(Math.max(0, time), done);
      if (isWakeable) this.#wake = done;
      signal.addEventListener('abort', done, { once: true });
      if (signal.aborted) done();
    });
  }
}
