/** The command that starts this program again: from its source, or the executable of `npm run build`. */
import { isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';

export interface SelfCommand {
  readonly file: string;
  readonly args: readonly string[];
}

/** The program with these arguments. */
export function selfCommand(...args: readonly string[]): SelfCommand {
  const file = process.execPath;
  // The executable has no source beside it.
  return isSea()
    ? { file, args }
    : { file, args: ['--disable-sigusr1', fileURLToPath(new URL('../main.ts', import.meta.url)), ...args] };
}
