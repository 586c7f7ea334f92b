/** How long to wait after the n-th failure in a row: client-go's reflector (0.8 s doubling to 30 s, with jitter). */

const FIRST = 800;
const MOST = 30_000;

/** `failures` from 1; `random` in [0, 1). A Retry-After of the server is never undercut. Milliseconds. */
export function backoff(failures: number, random: number, retryAfter = 0): number {
  const base = Math.min(MOST, FIRST * 2 ** Math.min(failures - 1, 16));
  return Math.max(Math.min(retryAfter, 3_600_000), base * (0.5 + random));
}
