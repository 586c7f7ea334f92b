/** How this program starts itself again: from its source, or as the one executable that `npm run build` makes. */
import { isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';

export interface SelfCommand {
  readonly file: string;
  readonly args: readonly string[];
}

export function selfCommand(...args: readonly string[]): SelfCommand {
  const file = process.execPath;
  // In the executable there is no source beside this file.
  return isSea()
    ? { file, args }
    : { file, args: ['--disable-sigusr1', fileURLToPath(new URL('../main.ts', import.meta.url)), ...args] };
}
