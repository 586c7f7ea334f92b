/** The end of the process, also where a thread hangs. */
import { documentFiles, singleFiles } from '../documents/files.ts';
import { endNow } from '../host/last-resort.ts';

/** With this status, when nothing is left to do; at once where a thread hangs in a file, for which the runtime would wait. */
export async function end(status: number): Promise<void> {
  process.exitCode = status;
  if (documentFiles.stuck.length + singleFiles.stuck.length > 0) await endNow(status);
}

/** Who asks twice does not want to wait. */
export async function endAtOnce(): Promise<void> {
  await endNow(1);
}
