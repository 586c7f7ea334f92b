/** Reads and parses files in a thread of their own: neither the content of a file nor a mount that hangs stops the agent's event loop. */
import type {
  FileOutcome,
  ParsedFile,
  Problem,
  ThreadAnswer,
  ThreadRequest,
  UnreadableFile,
  Value,
} from './protocol.ts';
import { Thread, type ThreadTimeouts } from './thread.ts';

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
