/** Memory of this process. */
import { totalmem } from 'node:os';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Keeps V8's space for young objects at its first size. It would grow to three times 16 MB while lists are read, and stay
 * unused afterwards. This saves 45 MB at the peak, and costs no time.
 */
export function growSparingly(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/** Bytes: the memory limit of this process's cgroup, undefined for none; and the limit of V8's heap. */
export interface MemoryRoom {
  readonly limit: number | undefined;
  readonly objects: number;
}

/**
 * V8 collects more garbage the nearer its heap comes to its limit. That limit is half of the cgroup's, and at least 256 MB.
 * libuv reads the cgroup's (uv_get_constrained_memory); 0, or more than the machine's memory, means that there is none.
 */
export function memoryRoom(): MemoryRoom {
  const limit = process.constrainedMemory();
  const isLimited = limit > 0 && limit < totalmem();
  return { limit: isLimited ? limit : undefined, objects: getHeapStatistics().heap_size_limit };
}

/** A warning when the cgroup's limit is so small that the kernel would kill the process before V8 collects; undefined otherwise. */
export function memoryProblem({ limit, objects }: MemoryRoom): string | undefined {
  if (limit === undefined || objects + BESIDE_OBJECTS <= limit) return undefined;
  const megabytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MB`;
  return `the memory limit of this container or unit is ${megabytes(limit)}, and the JavaScript heap may grow to ${megabytes(objects)}: the kernel may kill the agent; raise the limit to ${megabytes(objects + BESIDE_OBJECTS)} or more`;
}

/** Bytes beside the heap: code, buffers, and the tools that the process starts. */
const BESIDE_OBJECTS = 128 * 2 ** 20;

/** With a larger heap, in bytes, `releaseMemory` would block the event loop for too long. */
const MOST_RELEASED = 160 * 1024 * 1024;

/**
 * Returns memory of the start to the system. V8 does so by itself only when it allocates again, and an agent at rest does not.
 * It takes 200 ms for each 100 MB of heap; a large heap stays as it is.
 */
export function releaseMemory(): void {
  if (getHeapStatistics().used_heap_size > MOST_RELEASED) return;
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  // "last-resort" also compacts, and returns pages to the system (v8: src/extensions/gc-extension.cc).
  collect({ type: 'major', flavor: 'last-resort' });
}
