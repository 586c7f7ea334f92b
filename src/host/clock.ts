/** The seam to time. */
export interface Clock {
  /** Milliseconds that only go forward. */
  now(): number;
  /** Milliseconds since 1970. */
  wall(): number;
  /** Call once after some milliseconds; the result cancels it. */
  after(milliseconds: number, call: () => void): () => void;
}

export const realClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(milliseconds, call) {
    const timer = setTimeout(call, milliseconds);
    return () => clearTimeout(timer);
  },
};

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
