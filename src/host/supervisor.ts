/** The supervisor that started this process, as far as it wants to be told: systemd with Type=notify. */

/** Tell it states such as `READY=1`; nothing happens where none listens. Throws when it cannot be told. */
export async function tellSupervisor(...states: string[]): Promise<void> {
  const path = process.env.NOTIFY_SOCKET;
  if (path === undefined || path === '') return;
  // Loaded only here: the foreign-function module is not needed without a supervisor.
  const { notify } = await import('../../native/notify.ts');
  notify(path, ...states);
}
