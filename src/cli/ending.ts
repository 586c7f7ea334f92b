/** Ends the process, also when a thread hangs. */
import { documentFiles, singleFiles } from '../cluster/documents/files.ts';
import { endNow } from '../kernel/process.ts';

/** Sets the exit status. When a thread hangs in a file, ends at once, because the runtime would wait for it. */
export async function end(status: number): Promise<void> {
  process.exitCode = status;
  if (documentFiles.stuck.length + singleFiles.stuck.length > 0) await endNow(status);
}

/** Ends without waiting, after the second signal. */
export async function endAtOnce(): Promise<void> {
  await endNow(1);
}
