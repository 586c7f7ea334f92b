/** What follows where the kernel does not tell of changes of a file, and what to do about it (inotify(7)). */
import { causeOf } from '../model/cause.ts';

const FULL: Readonly<Record<string, string>> = {
  EMFILE: 'all inotify instances of this user are in use; raise fs.inotify.max_user_instances',
  ENOSPC: 'all inotify watches of this user are in use; raise fs.inotify.max_user_watches',
};

/** `period`: milliseconds between looks. */
export function unwatchedText(error: unknown, period: number): string {
  const cause = FULL[(error as NodeJS.ErrnoException).code ?? ''] ?? causeOf(error);
  return `the kernel does not report changes: ${cause}. Until it does, changes are noticed within ${period / 1000} s`;
}
