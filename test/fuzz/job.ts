/** A run of a target in a thread that is watched: what hangs or takes all memory is ended, and the rest goes on. */
import { Worker } from 'node:worker_threads';
import { type Finding, inputAt } from './engine.ts';
import type { Target } from './target.ts';

/** Passed to the thread. */
export interface Job {
  readonly target: string;
  readonly seed: number;
  readonly from: number;
  readonly inputs: number;
  /** Milliseconds. */
  readonly most: number;
  readonly known: readonly string[];
  /** The index of the input that runs; -1 before the first. */
  readonly progress: Int32Array<SharedArrayBuffer>;
}

export interface Done {
  readonly kind: 'done';
  /** Inputs that ran. */
  readonly ran: number;
}

type Said = Done | { readonly kind: 'finding'; readonly finding: Finding };

/** Milliseconds without a new input after which the thread is ended: a thread that shrinks a finding needs a while. */
const SILENCE = 60_000;
const CHECK = 1000;
/** Megabytes of the thread's heap. An input that needs so many is a finding. */
const MAX_HEAP = 300;
/** Threads that ended without a result, in a run. */
const MAX_ENDS = 10;

export interface JobResult {
  readonly inputs: number;
  readonly seconds: number;
  readonly findings: readonly Finding[];
}

export interface JobOptions {
  readonly seed: number;
  readonly inputs: number;
  /** Milliseconds. */
  readonly most: number;
  readonly onFinding: (finding: Finding) => void;
}

export async function runWatched(target: Target, { seed, inputs, most, onFinding }: JobOptions): Promise<JobResult> {
  const findings: Finding[] = [];
  const start = performance.now();
  const take = (finding: Finding) => {
    findings.push({ ...finding, input: Buffer.from(finding.input) });
    onFinding(findings.at(-1) as Finding);
  };
  let next = 0;
  for (let ends = 0; next < inputs && ends <= MAX_ENDS; ends++) {
    const left = most - (performance.now() - start);
    if (left <= 0) break;
    const known = findings.map(({ mark }) => mark);
    const ended = await inThread(
      { target: target.name, seed, from: next, inputs: inputs - next, most: left, known },
      take,
    );
    if ('ran' in ended) {
      next += ended.ran;
      break;
    }
    take({ target: target.name, seed, ...ended, input: inputAt(target, seed, ended.index) });
    next = ended.index + 1;
  }
  return { inputs: next, seconds: (performance.now() - start) / 1000, findings };
}

type Ended = Done | Pick<Finding, 'kind' | 'index' | 'mark' | 'problem'>;

function inThread(job: Omit<Job, 'progress'>, onFinding: (finding: Finding) => void): Promise<Ended> {
  const progress = new Int32Array(new SharedArrayBuffer(4));
  progress[0] = job.from;
  const workerData: Job = { ...job, progress };
  return new Promise((resolve) => {
    const worker = new Worker(new URL('./worker.ts', import.meta.url), {
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP, maxYoungGenerationSizeMb: 32, stackSizeMb: 1 },
    });
    let last = -1;
    let since = performance.now();
    const end = (how: Ended) => {
      clearInterval(timer);
      void worker.terminate();
      resolve(how);
    };
    const broke = (kind: Finding['kind'], problem: string) => {
      const index = Atomics.load(progress, 0);
      end({ kind, index, mark: `${kind} ${index}`, problem });
    };
    const timer = setInterval(() => {
      const index = Atomics.load(progress, 0);
      if (index !== last) [last, since] = [index, performance.now()];
      else if (performance.now() - since > SILENCE) broke('hang', `no end after ${SILENCE / 1000} s`);
    }, CHECK);
    worker.on('message', (said: Said) => (said.kind === 'done' ? end(said) : onFinding(said.finding)));
    worker.on('error', (error: NodeJS.ErrnoException) =>
      broke(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'out of memory' : 'crash', error.stack ?? error.message),
    );
  });
}
