/**
 * That the process ends when it is told to. A thread that waits in a dead mount cannot be ended from within: `process.exit`
 * waits for it (uv_thread_join), for ever. The kernel does not: alarm(2) and _exit(2) end all threads, as SIGKILL would.
 */

/** Seconds that stopping may take, when nothing is being written. */
const MOST = 5;
/** Milliseconds that a write to the kernel may go on after the signal to stop; the unit gives 30 s. */
export const WRITE_GRACE = 10_000;
/** Seconds with such a write: what it is ended with, and what waits for it, need a little more. */
const MOST_WRITING = WRITE_GRACE / 1000 + 2;

let isStopping = false;
let writing = 0;

/** From the moment in which the signal aborts the time of the process is counted. */
export function endSoonAfter(signal: AbortSignal): void {
  const begin = () => {
    isStopping = true;
    void setAlarm(writing > 0 ? MOST_WRITING : MOST);
  };
  if (signal.aborted) begin();
  else signal.addEventListener('abort', begin, { once: true });
}

/** Something is written to the kernel: when the process is told to stop, this may end first. */
export async function whileWriting<T>(write: () => Promise<T>): Promise<T> {
  writing++;
  try {
    return await write();
  } finally {
    if (--writing === 0 && isStopping) await setAlarm(MOST);
  }
}

/** End now: no thread is waited for. */
export async function endNow(status: number): Promise<never> {
  const { exitNow } = await import('../../native/libc.ts');
  return exitNow(status);
}

async function setAlarm(seconds: number): Promise<void> {
  const { alarm } = await import('../../native/libc.ts');
  alarm(seconds);
}
