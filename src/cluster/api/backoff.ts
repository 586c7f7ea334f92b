/** The wait after the n-th failure in a row, as in client-go's reflector: 0.8 s doubling to 30 s, with jitter. */

const FIRST = 800;
const MOST = 30_000;

/** Milliseconds, at least `retryAfter` (a Retry-After of the server). `failures` counts from 1; `random` is in [0, 1). */
export function backoff(failures: number, random: number, retryAfter = 0): number {
  const base = Math.min(MOST, FIRST * 2 ** Math.min(failures - 1, 16));
  return Math.max(retryAfter, base * (0.5 + random));
}
