/** Reads and parses files in a thread of their own, so that neither the content of a file nor a mount that hangs blocks the agent's event loop. */
import { Worker } from 'node:worker_threads';
import type { ParsedFile, Problem, Value } from './documents.ts';
import type { FileOutcome, ThreadAnswer, ThreadReady, ThreadRequest, UnreadableFile } from './protocol.ts';

/** Limit of threads that hang in system calls at a time; each holds a few megabytes. */
export const MAX_STUCK = 4;
/** Milliseconds until an idle thread of manifests ends. It is kept between two reads of a folder. */
const FOLDER_IDLE_MS = 30_000;
/** The same for single files, which change rarely: the 5 MB of a thread are worth more than the 50 ms of its start. */
const SINGLE_IDLE_MS = 500;
export const THREAD_TIMEOUTS_MS: ThreadTimeouts = { starting: 30_000, reading: 5000, parsing: 30_000 };

/** A path on which a system call hangs. */
export interface Stuck {
  readonly path: string;
  /** Milliseconds that never run backwards (performance.now). */
  readonly since: number;
}

export interface ReadOptions {
  readonly path: string;
  /** Links must stay in this folder; undefined when they may lead anywhere. */
  readonly within?: string | undefined;
  /** Stamp of the last read; a file with the same stamp is not read again. */
  readonly stamp?: string | undefined;
  readonly maxBytes: number;
  readonly mayRepeat?: boolean;
  /** Called with objects in the order of the file; a file may fail after its first objects. */
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
  readonly #timeouts: ThreadTimeouts;
  readonly #idleMs: number;
  /** Requests in the order in which the thread answers. */
  #jobs: Job[] = [];
  #thread: Thread | undefined;
  /** By path; the thread of each hangs and is no longer `#thread`. */
  readonly #stuck = new Map<string, Stuck>();
  #idle: NodeJS.Timeout | undefined;
  #count = 0;
  /** Stamp of the file that is being parsed. */
  #stamp: string | undefined;

  /** `idleMs`: milliseconds until an idle thread ends. */
  constructor(timeouts: ThreadTimeouts = THREAD_TIMEOUTS_MS, idleMs = FOLDER_IDLE_MS) {
    this.#timeouts = timeouts;
    this.#idleMs = idleMs;
  }

  /** Paths on which a system call hangs now. */
  get stuck(): readonly Stuck[] {
    return [...this.#stuck.values()];
  }

  /** Starts the thread before the first request: its start takes 50 ms, in parallel with other work. */
  start(): void {
    this.#threadNow();
    this.#scheduleEnd();
  }

  async read({ onValues, ...options }: ReadOptions): Promise<FileRead> {
    const { path, within, stamp, maxBytes, mayRepeat = false } = options;
    const input = { kind: 'read', path, within, stamp, maxBytes, mayRepeat } as const;
    return (await this.#request(input, path, onValues)) as FileRead;
  }

  /** Parses a text from another source; `name` is for messages. */
  async parse(text: string, name: string, onValues: ReadOptions['onValues']): Promise<ParsedFile | UnreadableFile> {
    const outcome = await this.#request({ kind: 'parse', text, mayRepeat: false }, name, onValues);
    return outcome as ParsedFile | UnreadableFile;
  }

  /** Whether a path is a file or a folder, with the names in the folder. */
  async list(path: string): Promise<ListedPath> {
    return (await this.#request({ kind: 'list', path }, path)) as ListedPath;
  }

  #request(
    input: RequestWithoutId,
    path: string,
    onValues: ReadOptions['onValues'] = () => undefined,
  ): Promise<FileOutcome> {
    const stuck = this.#stuck.get(path);
    if (stuck !== undefined) return Promise.resolve(unanswered(this.#timeouts));
    if (this.#stuck.size >= MAX_STUCK) return Promise.resolve(tooManyStuck(this.#stuck.keys()));
    return new Promise((settle) => {
      const request = { ...input, id: ++this.#count } as ThreadRequest;
      this.#jobs.push({ request, path, onValues, settle });
      this.#threadNow().send(request);
    });
  }

  #threadNow(): Thread {
    clearTimeout(this.#idle);
    this.#thread ??= this.#startThread();
    return this.#thread;
  }

  #startThread(): Thread {
    let stuckAt: string | undefined;
    const thread: Thread = new Thread(
      {
        onAnswer: (answer) => {
          if (thread === this.#thread) this.#receive(answer);
        },
        onTimeout: (doing) => {
          const [job] = this.#jobs;
          if (job === undefined || thread !== this.#thread) return;
          thread.end();
          if (doing === 'reading') {
            stuckAt = job.path;
            this.#stuck.set(job.path, { path: job.path, since: performance.now() - this.#timeouts.reading });
          }
          this.#replace(late(doing, this.#timeouts));
        },
        onEnd: (cause) => {
          if (stuckAt !== undefined) this.#stuck.delete(stuckAt);
          if (thread === this.#thread) this.#replace({ kind: 'unreadable', cause: endText(cause) });
        },
      },
      this.#timeouts,
    );
    return thread;
  }

  #receive(answer: ThreadAnswer): void {
    const [job] = this.#jobs;
    if (job?.request.id !== answer.id) return;
    if (answer.kind === 'parsing') this.#stamp = answer.stamp;
    if (answer.kind === 'values') job.onValues(answer.values);
    if (answer.kind !== 'outcome') return;
    this.#jobs.shift();
    this.#stamp = undefined;
    if (this.#jobs.length === 0) this.#scheduleEnd();
    job.settle(answer.outcome);
  }

  #scheduleEnd(): void {
    const thread = this.#thread;
    thread?.unref();
    this.#idle = setTimeout(() => {
      this.#thread = undefined;
      thread?.end();
    }, this.#idleMs).unref();
  }

  /** The first job ended the thread, or hangs in it. A new thread gets the other jobs. */
  #replace(outcome: FileOutcome): void {
    this.#thread = undefined;
    const [first, ...others] = this.#jobs;
    const stamp = this.#stamp;
    this.#stamp = undefined;
    first?.settle(outcome.kind === 'unreadable' ? { ...outcome, stamp } : outcome);
    this.#jobs = this.#stuck.size < MAX_STUCK ? others : [];
    for (const { request } of this.#jobs) this.#threadNow().send(request);
    if (this.#jobs.length === 0) for (const { settle } of others) settle(tooManyStuck(this.#stuck.keys()));
  }
}

export type DocumentReader = Pick<DocumentFiles, 'read' | 'parse' | 'list' | 'stuck'>;

/** The reader of manifests. */
export const documentFiles = new DocumentFiles();
/** The reader of the configuration and the kubeconfig: a dead mount of manifests must not block them. */
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

function late(doing: ThreadPhase, timeouts: ThreadTimeouts): UnreadableFile {
  if (doing === 'reading') return unanswered(timeouts);
  const seconds = timeouts[doing] / 1000;
  const cause =
    doing === 'starting'
      ? `the thread that reads it did not start within ${seconds} s`
      : `part of it takes longer than ${seconds} s to parse`;
  return { kind: 'unreadable', cause };
}

/** Limit for a single file: a configuration or a kubeconfig. */
export const MAX_BYTES = 4 << 20;

export interface OneFile {
  readonly values: readonly Value[];
  readonly problems: readonly Problem[];
  /** SHA-256 of the text. */
  readonly digest: string;
}

export class FileUnreadable extends Error {
  readonly code = 'FILE_UNREADABLE';
}

/** Reads a single file, which may be a link to anywhere. Throws FileUnreadable. */
export async function readOneFile(path: string, files: Pick<DocumentReader, 'read'> = singleFiles): Promise<OneFile> {
  const values: Value[] = [];
  const onValues = (some: readonly Value[]) => void values.push(...some);
  const read = await files.read({ path, maxBytes: MAX_BYTES, mayRepeat: true, onValues });
  if (read.kind === 'read') return { values, problems: read.problems, digest: read.digest };
  throw new FileUnreadable(read.kind === 'unreadable' ? read.cause : 'it was not read');
}

/** The thread's program inside the single-file executable (set by `scripts/bundle.ts`); from source it is a file of its own. */
declare const DOCUMENT_THREAD: string | undefined;

/** Memory limit of the thread, in megabytes: about six times the text of the largest file. A file that needs more ends only the thread. */
export const MAX_MEMORY_MB = 640;
/** The thread gets at most this fraction of the cgroup's memory limit. */
const MAX_MEMORY_SHARE = 1 / 4;

function memoryLimit(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(MAX_MEMORY_MB, Math.floor((limit * MAX_MEMORY_SHARE) / 2 ** 20)) : MAX_MEMORY_MB;
}

/** Milliseconds between checks. The timeout counts checks, not time, because answers may wait unread after the event loop was blocked. */
const CHECK_MS = 500;

interface ThreadEvents {
  readonly onAnswer: (answer: ThreadAnswer) => void;
  /** The first request has timed out. A thread that starts or parses can be terminated; one that reads may hang in the kernel. */
  readonly onTimeout: (doing: ThreadPhase) => void;
  /** The thread ended; `cause`: the error, unless `end` was called. */
  readonly onEnd: (cause: unknown) => void;
}

type ThreadPhase = 'starting' | 'reading' | 'parsing';

/** Milliseconds without an answer until a request times out: while the thread starts, while a file is read, and while it is parsed. */
export type ThreadTimeouts = Readonly<Record<ThreadPhase, number>>;

/** One thread that reads files, and the timeout of its first pending request. */
class Thread {
  readonly #worker: Worker;
  readonly #events: ThreadEvents;
  readonly #timeouts: ThreadTimeouts;
  #timer: NodeJS.Timeout | undefined;
  #checks = 0;
  #doing: ThreadPhase = 'starting';
  #cause: unknown;

  constructor(events: ThreadEvents, timeouts: ThreadTimeouts) {
    this.#events = events;
    this.#timeouts = timeouts;
    const resourceLimits = { maxOldGenerationSizeMb: memoryLimit(), maxYoungGenerationSizeMb: 16 };
    this.#worker =
      typeof DOCUMENT_THREAD === 'string'
        ? new Worker(DOCUMENT_THREAD, { eval: true, resourceLimits })
        : new Worker(new URL('./worker.ts', import.meta.url), { resourceLimits });
    this.#worker.on('message', (answer: ThreadAnswer | ThreadReady) => {
      this.#checks = 0;
      this.#doing = answer.kind === 'ready' || answer.kind === 'outcome' ? 'reading' : 'parsing';
      if (answer.kind !== 'ready') events.onAnswer(answer);
    });
    this.#worker.on('error', (error) => {
      this.#cause = error;
    });
    this.#worker.on('exit', () => {
      this.unref();
      events.onEnd(this.#cause);
    });
  }

  send(request: ThreadRequest): void {
    if (this.#timer === undefined) {
      this.#checks = 0;
      this.#timer = setInterval(() => this.#check(), CHECK_MS);
      this.#worker.ref();
    }
    this.#worker.postMessage(request);
  }

  /** No request is pending, so the process may exit. */
  unref(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#worker.unref();
  }

  /** Terminates the thread; one that hangs in the kernel ends when its call returns. */
  end(): void {
    this.unref();
    void this.#worker.terminate();
  }

  #check(): void {
    if (++this.#checks * CHECK_MS >= this.#timeouts[this.#doing]) this.#events.onTimeout(this.#doing);
  }
}
