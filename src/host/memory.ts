/** Memory of this process. */
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Let the room for young objects stay as small as it begins. It would grow to three times 16 MB while lists are read, and
 * be of no use afterwards: 45 MB less at the peak, and no slower.
 */
export function growSparingly(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/** Bytes of objects, live or not, above which `releaseMemory` would hold the event loop for too long. */
const MOST_RELEASED = 160 * 1024 * 1024;

/**
 * Give back what the start needed and nothing needs any more. V8 does so by itself only when it allocates again, which
 * an agent at rest does not. Takes 200 ms for each 100 MB, which nobody is to wait for: above that nothing is done.
 */
export function releaseMemory(): void {
  if (getHeapStatistics().used_heap_size > MOST_RELEASED) return;
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  // «last-resort» also compacts and gives pages back to the system (v8: src/extensions/gc-extension.cc).
  collect({ type: 'major', flavor: 'last-resort' });
}
