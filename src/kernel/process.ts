/** This process: the command that starts it again, SIGHUP, the messages to its supervisor, and the alarm that ends it for certain. */
import { isSea } from 'node:sea';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** The command that starts this program again: from its source, or the executable of `npm run build`. */
interface SelfCommand {
  readonly file: string;
  readonly args: readonly string[];
}

/**
 * Options of Node.js for the program from its source, as package.json has them. SIGUSR1 must not open the debugger. Types are stripped by
 * WebAssembly, which is compiled once and never anew: V8's registry of executable memory ended processes that compiled it anew beside its
 * work, with "Check failed: it->second.Size() > offset" (nodejs/node#64500). The executable runs none.
 */
export const SOURCE_OPTIONS = ['--disable-sigusr1', '--liftoff-only'] as const;

export function selfCommand(...args: readonly string[]): SelfCommand {
  const file = process.execPath;
  // The executable has no source beside it.
  return isSea()
    ? { file, args }
    : { file, args: [...SOURCE_OPTIONS, fileURLToPath(new URL('../main.ts', import.meta.url)), ...args] };
}

/** Sends states such as `READY=1` to systemd (sd_notify(3)); does nothing without a supervisor. Rejects with SystemError when sending fails. */
export async function notifySupervisor(...states: string[]): Promise<void> {
  const path = process.env.NOTIFY_SOCKET;
  if (path === undefined || path === '') return;
  // Loaded only here: without a supervisor the process needs no foreign functions.
  const { notify } = await import('../../native/notify.ts');
  notify(path, ...states);
}

/** Reports that a reload has begun; `READY=1` ends it (systemd.service(5): Type=notify-reload needs the time of the beginning). */
export async function notifyReloading(): Promise<void> {
  // process.hrtime is CLOCK_MONOTONIC in nanoseconds.
  await notifySupervisor('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`);
}

/**
 * Sends the watchdog's keep-alive twice in each interval (sd_watchdog_enabled(3)); does nothing without a watchdog. It proves that
 * the event loop runs. Failed syncs are reported by the health server: a restart would not repair them. A failure to send calls
 * `onFailure`, and the next keep-alive is sent all the same; each that was sent calls `onSent`.
 */
export async function keepAlive(
  signal: AbortSignal,
  onFailure: (error: Error) => void,
  onSent: () => void,
): Promise<void> {
  const microseconds = Number(process.env.WATCHDOG_USEC);
  const isForOther = process.env.WATCHDOG_PID !== undefined && process.env.WATCHDOG_PID !== String(process.pid);
  if (!(microseconds > 0) || isForOther) return;
  while (!signal.aborted) {
    await notifySupervisor('WATCHDOG=1').then(onSent, onFailure);
    await pause(microseconds / 2000, undefined, { signal }).catch(() => undefined);
  }
}

/** SIGHUP makes a daemon read its configuration again (daemon(7)). Any other command has lost its terminal, and ends. */
export class Hangups {
  #onHangup: () => void;

  /** Without a listener, SIGHUP calls `otherwise`. */
  constructor(otherwise: () => void) {
    this.#onHangup = otherwise;
  }

  /** From now on SIGHUP calls `onHangup`. */
  listen(onHangup: () => void): void {
    this.#onHangup = onHangup;
  }

  received(): void {
    this.#onHangup();
  }
}

// `process.exit` waits for all threads (uv_thread_join), and a thread that reads from a dead mount never ends. alarm(2) and _exit(2) end
// all threads, as SIGKILL does.

/** Seconds until the alarm where no write goes on. */
const STOP_TIMEOUT_SECONDS = 5;
/** Milliseconds that a write to the kernel may go on after the signal to stop; systemd's unit allows 30 s. */
export const WRITE_GRACE = 10_000;
/** Seconds until the alarm during a write: to end the write takes a little longer than its grace. */
const STOP_WHILE_WRITING_SECONDS = WRITE_GRACE / 1000 + 2;

let isStopping = false;
let writing = 0;

/** Sets the alarm when the signal aborts. */
export function endSoonAfter(signal: AbortSignal): void {
  const begin = () => {
    isStopping = true;
    void setAlarm(writing > 0 ? STOP_WHILE_WRITING_SECONDS : STOP_TIMEOUT_SECONDS);
  };
  if (signal.aborted) begin();
  else signal.addEventListener('abort', begin, { once: true });
}

/** Runs a write to the kernel, for which a process that stops has more time. */
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
