/** What processes cost, from /proc: time of processors, memory, and how many were started. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** Clock ticks a second of /proc (sysconf(_SC_CLK_TCK)): 100 on every Linux that Node.js runs on. */
const TICKS = 100;

/** Milliseconds of processor time, to 10 ms. */
export interface ProcessorTime {
  readonly user: number;
  readonly system: number;
}

/** Of a process and all its threads, and of its descendants: living ones, and those that have ended and were waited for. */
export function processorTime(pid: number): ProcessorTime {
  const own = timeOf(pid);
  const below = treeOf(pid).filter((one) => one !== pid);
  const all = [own, ...below.flatMap((one) => orNothing(() => [timeOf(one)]))];
  const sum = (of: (time: ProcessorTime) => number) => all.reduce((total, time) => total + of(time), 0);
  return { user: sum(({ user }) => user), system: sum(({ system }) => system) };
}

function timeOf(pid: number): ProcessorTime {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name may hold anything: fields are counted behind its end. The first is field 3 of proc(5).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const milliseconds = (field: number) => (Number(fields[field - 3]) * 1000) / TICKS;
  return { user: milliseconds(14) + milliseconds(16), system: milliseconds(15) + milliseconds(17) };
}

/** Bytes. */
export interface ResidentMemory {
  readonly now: number;
  /** Of this, what is of no file: the rest is the program itself, which all its processes share. */
  readonly anonymous: number;
  /** The most it ever was. */
  readonly peak: number;
}

export function residentMemory(pid: number): ResidentMemory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024;
  return { now: bytes('VmRSS'), anonymous: bytes('RssAnon'), peak: bytes('VmHWM') };
}

/** A process and its living descendants. */
export function treeOf(pid: number): number[] {
  const found = [pid];
  // The list grows while it is gone through.
  for (const one of found) found.push(...childrenOf(one));
  return found;
}

function childrenOf(pid: number): number[] {
  return orNothing(() =>
    readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      orNothing(() => numbers(readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8'))),
    ),
  );
}

function numbers(text: string): number[] {
  return text
    .split(/\s+/)
    .filter((word) => word !== '')
    .map(Number);
}

/** What is read of a process that ends meanwhile is nothing. */
function orNothing<T>(read: () => T[]): T[] {
  try {
    return read();
  } catch {
    return [];
  }
}

/**
 * Bytes resident of all processes of a tree together; what they share counts for each. A child that has its parent's address
 * space until it executes its program (vfork) counts once: its size is the parent's to the page.
 */
export function treeMemory(pid: number): number {
  const seen = new Set<number>();
  let sum = 0;
  for (const one of treeOf(pid)) {
    for (const { size, resident } of orNothing(() => [pagesOf(one)])) {
      if (!seen.has(size)) sum += resident * PAGE;
      seen.add(size);
    }
  }
  return sum;
}

/** Pages, from statm, which is much cheaper to make for the kernel than status. */
function pagesOf(pid: number): { size: number; resident: number } {
  const [size, resident] = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ').map(Number);
  return { size: size ?? 0, resident: resident ?? 0 };
}

/** Of x86-64, and of arm64 as distributions configure it. */
const PAGE = 4096;

/** Samples the memory of a tree until it is stopped. What lives for less than the time between two samples may be missed. */
export class MemorySampler {
  readonly #pid: number;
  readonly #every: number;
  readonly #running: Promise<void>;
  #isStopped = false;
  #peak = 0;
  #samples = 0;

  /** `every`: milliseconds. */
  constructor(pid: number, every = 5) {
    this.#pid = pid;
    this.#every = every;
    this.#running = this.#run();
  }

  /** The most bytes resident that the tree had at a sample, and how many samples there were. */
  async stop(): Promise<{ peak: number; samples: number }> {
    this.#isStopped = true;
    await this.#running;
    return { peak: this.#peak, samples: this.#samples };
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#peak = Math.max(this.#peak, treeMemory(this.#pid));
      this.#samples += 1;
      await pause(this.#every);
    }
  }
}
