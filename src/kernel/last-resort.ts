/**
 * Makes sure that the process ends. `process.exit` waits for all threads (uv_thread_join), and a thread that reads from a dead
 * mount never ends. alarm(2) and _exit(2) end all threads, as SIGKILL does.
 */

/** Seconds that stopping may take while no write goes on. */
const STOP_TIMEOUT_SECONDS = 5;
/** Milliseconds that a write to the kernel may go on after the signal to stop; systemd's unit allows 30 s. */
export const WRITE_GRACE = 10_000;
/** Seconds with such a write: ending it takes a little longer. */
const MAX_WRITE_SECONDS = WRITE_GRACE / 1000 + 2;

let isStopping = false;
let writing = 0;

/** When the signal aborts, the process gets an alarm that ends it. */
export function endSoonAfter(signal: AbortSignal): void {
  const begin = () => {
    isStopping = true;
    void setAlarm(writing > 0 ? MAX_WRITE_SECONDS : STOP_TIMEOUT_SECONDS);
  };
  if (signal.aborted) begin();
  else signal.addEventListener('abort', begin, { once: true });
}

/** Runs a write to the kernel: a process that stops gives it time to finish. */
export async function whileWriting<T>(write: () => Promise<T>): Promise<T> {
  writing++;
  try {
    return await write();
  } finally {
    if (--writing === 0 && isStopping) await setAlarm(STOP_TIMEOUT_SECONDS);
  }
}

/** Ends the process now, without waiting for threads. */
export async function endNow(status: number): Promise<never> {
  const { exitNow } = await import('../../native/libc.ts');
  return exitNow(status);
}

async function setAlarm(seconds: number): Promise<void> {
  const { alarm } = await import('../../native/libc.ts');
  alarm(seconds);
}
