/** One thread that reads files, with what it was asked and has not answered yet. */
import { Worker } from 'node:worker_threads';
import type { Answer, Request } from './protocol.ts';

/** The thread's program where all is one file (`scripts/bundle.ts` puts it there); from source it is a file of its own. */
declare const DOCUMENT_THREAD: string | undefined;

/** Megabytes of values that the thread may hold: some six times the text of the largest file. A file that needs more ends the thread, and nothing else. */
const MOST_MEMORY = 640;
/** Of what the cgroup allows the whole process, where that is less. */
const MOST_SHARE = 1 / 4;

function mostMemory(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(MOST_MEMORY, Math.floor((limit * MOST_SHARE) / 2 ** 20)) : MOST_MEMORY;
}
/** Milliseconds of one look: the deadline counts looks, not time, for a loop that was held itself has only its answers to read. */
const LOOK = 500;

export interface ThreadEvents {
  readonly onAnswer: (answer: Answer) => void;
  /** The first request is not answered and nothing was heard of it for its time. A thread that parses can be ended; one that reads may hang in the kernel. */
  readonly onLate: (isParsing: boolean) => void;
  /** The thread is no more; `cause`: why, when nobody ended it. */
  readonly onEnd: (cause: unknown) => void;
}

/** Milliseconds without a word until a request is late: while a file is read, and while it is parsed. */
export interface Patience {
  readonly reading: number;
  readonly parsing: number;
}

export class Thread {
  readonly #worker: Worker;
  readonly #events: ThreadEvents;
  readonly #patience: Patience;
  #look: NodeJS.Timeout | undefined;
  #looks = 0;
  #isParsing = false;
  #cause: unknown;

  constructor(events: ThreadEvents, patience: Patience) {
    this.#events = events;
    this.#patience = patience;
    const resourceLimits = { maxOldGenerationSizeMb: mostMemory(), maxYoungGenerationSizeMb: 16 };
    this.#worker =
      typeof DOCUMENT_THREAD === 'string'
        ? new Worker(DOCUMENT_THREAD, { eval: true, resourceLimits })
        : new Worker(new URL('./worker.ts', import.meta.url), { resourceLimits });
    this.#worker.on('message', (answer: Answer) => {
      this.#looks = 0;
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

  ask(request: Request): void {
    if (this.#look === undefined) {
      this.#looks = 0;
      this.#isParsing = false;
      this.#look = setInterval(() => this.#heard(), LOOK);
      this.#worker.ref();
    }
    this.#worker.postMessage(request);
  }

  /** Nothing is asked for any more: the process may end. */
  rest(): void {
    clearInterval(this.#look);
    this.#look = undefined;
    this.#worker.unref();
  }

  /** A thread that hangs in the kernel ends when that lets it go. */
  end(): void {
    this.rest();
    void this.#worker.terminate();
  }

  #heard(): void {
    const { reading, parsing } = this.#patience;
    if (++this.#looks * LOOK >= (this.#isParsing ? parsing : reading)) this.#events.onLate(this.#isParsing);
  }
}
