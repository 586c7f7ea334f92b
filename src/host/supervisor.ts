/** The supervisor that started this process, as far as it wants to be told: systemd with Type=notify and WatchdogSec. */
import { setTimeout as pause } from 'node:timers/promises';

/** Tell it states such as `READY=1`; nothing happens where none listens. Throws when it cannot be told. */
export async function notifySupervisor(...states: string[]): Promise<void> {
  const path = process.env.NOTIFY_SOCKET;
  if (path === undefined || path === '') return;
  // Loaded only here: the foreign-function module is not needed without a supervisor.
  const { notify } = await import('../../native/notify.ts');
  notify(path, ...states);
}

/** Tell the supervisor that a reload goes on, until it hears `READY=1` (systemd.service(5), Type=notify-reload, which wants to know since when). */
export async function notifyReloading(): Promise<void> {
  // The clock that Node.js counts by is CLOCK_MONOTONIC, in nanoseconds.
  await notifySupervisor('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`);
}

/**
 * Tell the supervisor that this process lives, twice as often as it wants to hear it (sd_watchdog_enabled(3)); nothing happens
 * where it does not. It is the event loop that is told of: syncs that fail are for health, and a restart mends none of them.
 * One failure does not end it.
 */
export async function keepAlive(signal: AbortSignal, onFailure: (error: Error) => void): Promise<void> {
  const microseconds = Number(process.env.WATCHDOG_USEC);
  const isForOther = process.env.WATCHDOG_PID !== undefined && process.env.WATCHDOG_PID !== String(process.pid);
  if (!(microseconds > 0) || isForOther) return;
  while (!signal.aborted) {
    await notifySupervisor('WATCHDOG=1').catch(onFailure);
    await pause(microseconds / 2000, undefined, { signal }).catch(() => undefined);
  }
}
