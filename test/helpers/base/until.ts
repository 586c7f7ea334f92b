/** Waiting in tests for what happens on its own. */
import { setTimeout as pause } from 'node:timers/promises';

/** Milliseconds after which a condition is taken as never coming. It costs nothing when the condition comes, on a busy machine as well. */
const LONGEST = 30_000;

/** Resolve as soon as the condition holds; reject after some milliseconds, naming what was waited for. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, longest = LONGEST): Promise<void> {
  const end = performance.now() + longest;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`waited in vain for: ${what}`);
    await pause(1);
  }
}

/** Long enough for requests on the loopback to have been made: to show that something does NOT happen. */
export async function aWhile(milliseconds = 60): Promise<void> {
  await pause(milliseconds);
}
