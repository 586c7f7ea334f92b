/** Memory of this process. */

import { writeFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { returnFreed, shareArenas } from '../../native/libc.ts';

/**
 * Keeps V8's space for young objects at its first size. It would grow to three times 16 MB while lists are read, and stay unused
 * afterwards. This saves 45 MB at the peak and costs no time. Threads that start from now on share malloc's existing arenas: each arena
 * would keep freed memory of its own.
 */
export function growSparingly(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  shareArenas(1);
}

/** In bytes: the memory limit of this process's cgroup, undefined for none, and the limit of V8's heap. */
export interface MemoryRoom {
  readonly limit: number | undefined;
  readonly objects: number;
}

/**
 * V8 collects more garbage the nearer its heap comes to its limit, which is half of the cgroup's limit, and at least 256 MB. libuv reads the
 * cgroup's limit (uv_get_constrained_memory): 0, or more than the machine's memory, means that there is none.
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

/** Milliseconds in which V8 ends its collections after `releaseMemory`. */
const SETTLE_MS = 3000;
/** V8's own values (its flag-definitions.h) of what `releaseMemory` and `collectSoon` set. */
const USUAL = ['--no-memory-saver-mode', '--memory-reducer-delay-ms=8000', '--bytecode-old-age=6'];

/**
 * While it has work, V8's memory reducer (memory-reducer.cc) checks every 8 s whether the program rests, and then collects twice with
 * compaction, in small steps beside the program. From now on it checks every half second, until `releaseMemory` has done its work. It
 * begins 30 s after the start of the process; in the executable it begins after one second (scripts/build.ts).
 */
export function collectSoon(): void {
  setFlagsFromString('--memory-reducer-delay-ms=500');
}

let settled: NodeJS.Timeout | undefined;

/**
 * Returns memory of the start to the system within some seconds, without blocking the event loop for long. V8 does so by itself only when the
 * program seems at rest, and it seems busy long after a start. With "memory saver" V8 does not wait for that.
 */
export function releaseMemory(): void {
  clearTimeout(settled);
  collectSoon();
  setFlagsFromString('--memory-saver-mode');
  // V8 drops the compiled code of functions that only the start ran: after two collections, instead of six, without a call.
  setFlagsFromString('--bytecode-old-age=2');
  settled = setTimeout(() => {
    for (const flag of USUAL) setFlagsFromString(flag);
    returnFreed();
  }, SETTLE_MS).unref();
}

// Settings of this process.

/** Sets the OOM-killer score: -1000 protects the process, 1000 makes it the first to be killed (proc_pid_oom_score_adj(5)). Rejects without permission. */
export async function setOomScore(score: number): Promise<void> {
  await writeFile('/proc/self/oom_score_adj', String(score));
}
