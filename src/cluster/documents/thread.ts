/** One thread that reads files, and the deadline of its first unanswered request. */
import { Worker } from 'node:worker_threads';
import type { ThreadAnswer, ThreadRequest } from './protocol.ts';

/** The thread's program inside the single-file executable (set by `scripts/bundle.ts`); from source it is a file of its own. */
declare const DOCUMENT_THREAD: string | undefined;

/** Megabytes that the thread may hold: about six times the text of the largest file. A file that needs more ends only the thread. */
export const MAX_MEMORY_MB = 640;
/** The thread's share of the cgroup's memory limit, where that is less. */
const MAX_SHARE = 1 / 4;

function mostMemory(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(MAX_MEMORY_MB, Math.floor((limit * MAX_SHARE) / 2 ** 20)) : MAX_MEMORY_MB;
}
/** Milliseconds between checks. The deadline counts checks, not time: after the event loop itself was blocked, unread answers may be waiting. */
const CHECK = 500;

export interface ThreadEvents {
  readonly onAnswer: (answer: ThreadAnswer) => void;
  /** The first request was silent beyond its deadline. A thread that parses can be terminated; one that reads may hang in the kernel. */
  readonly onLate: (isParsing: boolean) => void;
  /** The thread ended; `cause`: the error, unless `end` was called. */
  readonly onEnd: (cause: unknown) => void;
}

/** Milliseconds of silence until a request is late: while a file is read, and while it is parsed. */
export interface ThreadTimeouts {
  readonly reading: number;
  readonly parsing: number;
}

export class Thread {
  readonly #worker: Worker;
  readonly #events: ThreadEvents;
  readonly #patience: ThreadTimeouts;
  #timer: NodeJS.Timeout | undefined;
  #checks = 0;
  #isParsing = false;
  #cause: unknown;

  constructor(events: ThreadEvents, patience: ThreadTimeouts) {
    this.#events = events;
    this.#patience = patience;
    const resourceLimits = { maxOldGenerationSizeMb: mostMemory(), maxYoungGenerationSizeMb: 16 };
    this.#worker =
      typeof DOCUMENT_THREAD === 'string'
        ? new Worker(DOCUMENT_THREAD, { eval: true, resourceLimits })
        : new Worker(new URL('./worker.ts', import.meta.url), { resourceLimits });
    this.#worker.on('message', (answer: ThreadAnswer) => {
      this.#checks = 0;
      this.#isParsing = answer.kind !== 'outcome';
      events.onAnswer(answer);
    });
    this.#worker.on('error', (error) => {
      this.#cause = error;
    });
    this.#worker.on('exit', () => {
      this.rest();
      events.onEnd(this.#cause);
    });
  }

  ask(request: ThreadRequest): void {
    if (this.#timer === undefined) {
      this.#checks = 0;
      this.#isParsing = false;
      this.#timer = setInterval(() => this.#check(), CHECK);
      this.#worker.ref();
    }
    this.#worker.postMessage(request);
  }

  /** No request is open: the process may exit. */
  rest(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#worker.unref();
  }

  /** Terminate the thread; one that hangs in the kernel ends when its call returns. */
  end(): void {
    this.rest();
    void this.#worker.terminate();
  }

  #check(): void {
    const { reading, parsing } = this.#patience;
    if (++this.#checks * CHECK >= (this.#isParsing ? parsing : reading)) this.#events.onLate(this.#isParsing);
  }
}
