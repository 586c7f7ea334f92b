/** The command that starts this program again: from its source, or the executable of `npm run build`. */
import { isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';

export interface SelfCommand {
  readonly file: string;
  readonly args: readonly string[];
}

/**
 * Options of Node.js for the program from its source, as package.json has them. SIGUSR1 must not open the debugger. Types are stripped by
 * WebAssembly, which is compiled once and never anew: V8's registry of executable memory ended processes that compiled it anew beside its
 * work, with "Check failed: it->second.Size() > offset" (nodejs/node#64500). The executable runs none.
 */
export const SOURCE_OPTIONS = ['--disable-sigusr1', '--liftoff-only'] as const;

/** The program with these arguments. */
export function selfCommand(...args: readonly string[]): SelfCommand {
  const file = process.execPath;
  // The executable has no source beside it.
  return isSea()
    ? { file, args }
    : { file, args: [...SOURCE_OPTIONS, fileURLToPath(new URL('../main.ts', import.meta.url)), ...args] };
}
