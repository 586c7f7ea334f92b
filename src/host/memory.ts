/** Memory of this process. */
import { totalmem } from 'node:os';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Let the room for young objects stay as small as it begins. It would grow to three times 16 MB while lists are read, and
 * be of no use afterwards: 45 MB less at the peak, and no slower.
 */
export function growSparingly(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/** Bytes: what the cgroup of this process allows it in all, undefined for no limit; and what the engine takes for objects at most. */
export interface MemoryRoom {
  readonly limit: number | undefined;
  readonly objects: number;
}

/**
 * The engine collects garbage the harder the nearer it comes to its own limit, for which it takes half of that of the
 * cgroup, and no less than 256 MB. libuv reads the limit (uv_get_constrained_memory; 0 or a number beyond all memory: none).
 */
export function memoryRoom(): MemoryRoom {
  const limit = process.constrainedMemory();
  const isLimited = limit > 0 && limit < totalmem();
  return { limit: isLimited ? limit : undefined, objects: getHeapStatistics().heap_size_limit };
}

/** Why the room is too small: the kernel would end the process before the engine collects. Undefined when it is not. */
export function memoryProblem({ limit, objects }: MemoryRoom): string | undefined {
  if (limit === undefined || objects + BESIDE_OBJECTS <= limit) return undefined;
  const megabytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MB`;
  return `the memory limit of this container or unit is ${megabytes(limit)}, and the JavaScript heap may grow to ${megabytes(objects)}: the kernel may kill the agent; raise the limit to ${megabytes(objects + BESIDE_OBJECTS)} or more`;
}

/** Bytes that the process has beside objects: code, buffers, and the tools that it starts. */
const BESIDE_OBJECTS = 128 * 2 ** 20;

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
