/** Notifies the supervisor of this process: systemd with Type=notify and WatchdogSec. */
import { setTimeout as pause } from 'node:timers/promises';

/** Sends states such as `READY=1`; does nothing without a supervisor. Rejects with SystemError when sending fails. */
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
