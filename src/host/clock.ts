/** The seam to time. */
import { setImmediate } from 'node:timers/promises';

export interface Clock {
  /** Milliseconds that only go forward. */
  now(): number;
  /** Milliseconds since 1970. */
  wall(): number;
  /** Call once after some milliseconds; the result cancels it. */
  after(milliseconds: number, call: () => void): () => void;
}

/** Milliseconds: 24 days. */
const LONGEST = 2 ** 31 - 1;

export const realClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(milliseconds, call) {
    // A longer wait would be none at all (setTimeout); waking too early does no harm.
    const timer = setTimeout(call, Math.min(milliseconds, LONGEST));
    return () => clearTimeout(timer);
  },
};

/** Let what waits for the event loop go first. */
export function breath(): Promise<void> {
  return setImmediate();
}

/** Wait on a clock; rejects with the signal's reason when it aborts. */
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

/** Never resolves; rejects with the signal's reason when it aborts. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** Rejects with the signal's reason when it aborts first; what the promise waits for goes on. Leaves no listener behind, unlike a race with `aborted`. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: abort, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    // Also where it aborted before: that nobody waits any more must not make a later failure one that nobody heard.
    return await Promise.race([promise, abort]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
