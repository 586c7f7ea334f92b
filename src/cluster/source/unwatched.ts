/** The warning where the kernel cannot watch a file or folder (inotify(7)): cause, remedy, and what follows. */
import { causeOf } from '../../base/cause.ts';

const FULL: Readonly<Record<string, string>> = {
  EMFILE: 'all inotify instances of this user are in use; raise fs.inotify.max_user_instances',
  ENOSPC: 'all inotify watches of this user are in use; raise fs.inotify.max_user_watches',
};

/** `period`: milliseconds between reads of the files. */
export function unwatchedText(error: unknown, period: number): string {
  const cause = FULL[(error as NodeJS.ErrnoException).code ?? ''] ?? causeOf(error);
  return `the kernel does not report changes: ${cause}. Until it does, changes are noticed within ${period / 1000} s`;
}
