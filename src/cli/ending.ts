/** Ends the process, also where a thread hangs. */
import { documentFiles, singleFiles } from '../cluster/documents/files.ts';
import { endNow } from '../kernel/process.ts';

/** End with this status when nothing is left to do; at once where a thread hangs in a file, because the runtime would wait for it. */
export async function end(status: number): Promise<void> {
  process.exitCode = status;
  if (documentFiles.stuck.length + singleFiles.stuck.length > 0) await endNow(status);
}

/** For the second signal: do not wait. */
export async function endAtOnce(): Promise<void> {
  await endNow(1);
}
