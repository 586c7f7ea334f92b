/** Reads and parses files in a thread of their own: neither the content of a file nor a mount that hangs stops the agent's event loop. */

import { Worker } from 'node:worker_threads';
import type { ParsedFile, Problem, Value } from './documents.ts';
import type { FileOutcome, ThreadAnswer, ThreadRequest, UnreadableFile } from './protocol.ts';

/** Most threads that may hang in system calls at a time; each holds a few megabytes. */
export const MAX_STUCK = 4;
/** Milliseconds until an idle thread of manifests ends: between two readings of a folder it is to stay. */
const FOLDER_IDLE_MS = 30_000;
/** Of single files, which change rarely: the 5 MB of a thread are worth more than the 50 ms of its start. */
const SINGLE_IDLE_MS = 500;
export const THREAD_TIMEOUTS_MS: ThreadTimeouts = { reading: 5000, parsing: 30_000 };

/** A path that does not answer. */
export interface Stuck {
  readonly path: string;
  /** Milliseconds that never run backwards (performance.now). */
  readonly since: number;
}

export interface ReadOptions {
  readonly path: string;
  /** The folder that was named, in which links must stay. */
  readonly within?: string | undefined;
  /** Stamp of the last read; a file with the same stamp is not read again. */
  readonly stamp?: string | undefined;
  /** Bytes. */
  readonly most: number;
  readonly mayRepeat?: boolean;
  /** Called with objects in the order of the file; a file that fails later may yield some before. */
  readonly onValues: (values: readonly Value[]) => void;
}

export type FileRead = ParsedFile | UnreadableFile | { readonly kind: 'same' };
export type ListedPath =
  | UnreadableFile
  | { readonly kind: 'file' }
  | { readonly kind: 'folder'; readonly names: readonly string[] };

type RequestWithoutId = ThreadRequest extends infer R ? (R extends ThreadRequest ? Omit<R, 'id'> : never) : never;

interface Job {
  readonly request: ThreadRequest;
  /** The path, or the name of the text, for messages. */
  readonly path: string;
  readonly onValues: (values: readonly Value[]) => void;
  readonly settle: (outcome: FileOutcome) => void;
}

export class DocumentFiles {
  readonly #patience: ThreadTimeouts;
  readonly #keep: number;
  /** Requests in the order in which the thread answers. */
  #jobs: Job[] = [];
  #thread: Thread | undefined;
  /** By path; the thread of each hangs and is no longer `#thread`. */
  readonly #stuck = new Map<string, Stuck>();
  #idle: NodeJS.Timeout | undefined;
  #count = 0;
  /** Stamp of the file that is being parsed. */
  #stamp: string | undefined;

  /** `keep`: milliseconds until an idle thread ends. */
  constructor(patience: ThreadTimeouts = THREAD_TIMEOUTS_MS, keep = FOLDER_IDLE_MS) {
    this.#patience = patience;
    this.#keep = keep;
  }

  /** Paths that do not answer now. */
  get stuck(): readonly Stuck[] {
    return [...this.#stuck.values()];
  }

  /** Starts the thread before somebody asks: its start takes 50 ms, beside other work. */
  begin(): void {
    this.#threadNow();
    this.#rest();
  }

  async read({ onValues, ...options }: ReadOptions): Promise<FileRead> {
    const { path, within, stamp, most, mayRepeat = false } = options;
    return (await this.#ask({ kind: 'read', path, within, stamp, most, mayRepeat }, path, onValues)) as FileRead;
  }

  /** Parse a text from another source; `name` is for messages. */
  async parse(text: string, name: string, onValues: ReadOptions['onValues']): Promise<ParsedFile | UnreadableFile> {
    return (await this.#ask({ kind: 'parse', text, mayRepeat: false }, name, onValues)) as ParsedFile | UnreadableFile;
  }

  /** Whether a path is a file or a folder, with the names in the folder. */
  async list(path: string): Promise<ListedPath> {
    return (await this.#ask({ kind: 'list', path }, path)) as ListedPath;
  }

  #ask(
    wanted: RequestWithoutId,
    path: string,
    onValues: ReadOptions['onValues'] = () => undefined,
  ): Promise<FileOutcome> {
    const stuck = this.#stuck.get(path);
    if (stuck !== undefined) return Promise.resolve(unanswered(this.#patience));
    if (this.#stuck.size >= MAX_STUCK) return Promise.resolve(tooManyStuck(this.#stuck.keys()));
    return new Promise((settle) => {
      const request = { ...wanted, id: ++this.#count } as ThreadRequest;
      this.#jobs.push({ request, path, onValues, settle });
      this.#threadNow().ask(request);
    });
  }

  #threadNow(): Thread {
    clearTimeout(this.#idle);
    this.#thread ??= this.#begin();
    return this.#thread;
  }

  #begin(): Thread {
    let stuckAt: string | undefined;
    const thread: Thread = new Thread(
      {
        onAnswer: (answer) => {
          if (thread === this.#thread) this.#take(answer);
        },
        onLate: (isParsing) => {
          const [job] = this.#jobs;
          if (job === undefined || thread !== this.#thread) return;
          thread.end();
          if (!isParsing) {
            stuckAt = job.path;
            this.#stuck.set(job.path, { path: job.path, since: performance.now() - this.#patience.reading });
          }
          this.#replace(isParsing ? slow(this.#patience) : unanswered(this.#patience));
        },
        onEnd: (cause) => {
          if (stuckAt !== undefined) this.#stuck.delete(stuckAt);
          if (thread === this.#thread) this.#replace({ kind: 'unreadable', cause: endText(cause) });
        },
      },
      this.#patience,
    );
    return thread;
  }

  #take(answer: ThreadAnswer): void {
    const [job] = this.#jobs;
    if (job?.request.id !== answer.id) return;
    if (answer.kind === 'parsing') this.#stamp = answer.stamp;
    if (answer.kind === 'values') job.onValues(answer.values);
    if (answer.kind !== 'outcome') return;
    this.#jobs.shift();
    this.#stamp = undefined;
    if (this.#jobs.length === 0) this.#rest();
    job.settle(answer.outcome);
  }

  #rest(): void {
    const thread = this.#thread;
    thread?.rest();
    this.#idle = setTimeout(() => {
      this.#thread = undefined;
      thread?.end();
    }, this.#keep).unref();
  }

  /** The first job ended the thread, or hangs in it; a new thread gets the others. */
  #replace(outcome: FileOutcome): void {
    this.#thread = undefined;
    const [first, ...others] = this.#jobs;
    const stamp = this.#stamp;
    this.#stamp = undefined;
    first?.settle(outcome.kind === 'unreadable' ? { ...outcome, stamp } : outcome);
    this.#jobs = this.#stuck.size < MAX_STUCK ? others : [];
    for (const { request } of this.#jobs) this.#threadNow().ask(request);
    if (this.#jobs.length === 0) for (const { settle } of others) settle(tooManyStuck(this.#stuck.keys()));
  }
}

/** Reads files and texts; see DocumentFiles. */
export type DocumentReader = Pick<DocumentFiles, 'read' | 'parse' | 'list' | 'stuck'>;

/** For manifests. */
export const documentFiles = new DocumentFiles();
/** For the configuration and the kubeconfig: a dead mount of manifests must not block them. */
export const singleFiles = new DocumentFiles(THREAD_TIMEOUTS_MS, SINGLE_IDLE_MS);

function endText(cause: unknown): string {
  const { code, message } = (cause ?? {}) as NodeJS.ErrnoException;
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return 'its content needs more memory than the reader may use';
  return `the thread that read it ended: ${message ?? 'unknown reason'}`;
}

function tooManyStuck(paths: Iterable<string>): UnreadableFile {
  return { kind: 'unreadable', cause: `no file is read until these answer: ${[...paths].join(', ')}` };
}

function unanswered({ reading }: ThreadTimeouts): UnreadableFile {
  const cause = `no answer within ${reading / 1000} s; it may be on a mount whose server is gone`;
  return { kind: 'unreadable', cause, code: 'ETIMEDOUT' };
}

function slow({ parsing }: ThreadTimeouts): UnreadableFile {
  return { kind: 'unreadable', cause: `part of it takes longer than ${parsing / 1000} s to parse` };
}

// Reads a single file: a configuration, a kubeconfig.

/** Bytes. */
export const MAX_BYTES = 4 << 20;

export interface OneFile {
  readonly values: readonly Value[];
  readonly problems: readonly Problem[];
  /** The same of the same text. */
  readonly digest: string;
}

/** The file cannot be read. */
export class FileUnreadable extends Error {
  readonly code = 'FILE_UNREADABLE';
}

/** Read a file; it may be a link to anywhere. Throws FileUnreadable. */
export async function readOneFile(path: string, files: Pick<DocumentReader, 'read'> = singleFiles): Promise<OneFile> {
  const values: Value[] = [];
  const onValues = (some: readonly Value[]) => void values.push(...some);
  const read = await files.read({ path, most: MAX_BYTES, mayRepeat: true, onValues });
  if (read.kind === 'read') return { values, problems: read.problems, digest: read.digest };
  throw new FileUnreadable(read.kind === 'unreadable' ? read.cause : 'it was not read');
}

// One thread that reads files, and the deadline of its first unanswered request.

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
