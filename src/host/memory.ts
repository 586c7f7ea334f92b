/** Memory of this process. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Give back what the start needed and nothing needs any more. V8 does so by itself only when it allocates again, which
 * an agent at rest does not. Takes some tens of milliseconds for each 100 MB.
 */
export function releaseMemory(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  // «last-resort» also compacts and gives pages back to the system (v8: src/extensions/gc-extension.cc).
  collect({ type: 'major', flavor: 'last-resort' });
}
