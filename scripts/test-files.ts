/** Runs the test files of one part with node:test, and collects their results. */
import { relative } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';

export interface Failure {
  readonly file: string;
  /** The names of the suites and of the test. */
  readonly name: string;
  readonly error: string;
}

export interface FileResult {
  readonly file: string;
  seconds: number;
  tests: number;
  passed: number;
  suites: number;
  /** Reasons, one for each test that was skipped. */
  readonly skipped: string[];
  readonly failures: Failure[];
}

export interface RunOptions {
  /** The folder that names of files begin at. */
  readonly root: string;
  /** Processes at the same time. */
  readonly concurrency: number;
  /** Test files that one process runs, one after another. */
  readonly filesOfProcess: number;
  /** Ends what still runs; a file that did not end is a failure. */
  readonly signal: AbortSignal;
  /** Called when a file has ended, with its seconds. */
  readonly onFile: (file: string, seconds: number, hasFailed: boolean) => void;
}

/** The last lines that a process printed are shown with the failures. */
const MAX_LINES = 40;

/** Diagnostics that only repeat what is counted here. */
const TOTAL = /^(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /;

/** The program of each process. */
const PROGRAM = fileURLToPath(new URL('test-process.ts', import.meta.url));

/** An event of node:test about a test. */
interface Event {
  readonly name: string;
  readonly nesting: number;
  readonly skip?: string | boolean | undefined;
  readonly details: { readonly duration_ms: number; readonly type?: string; readonly error?: TestError };
}

type TestError = Error & {
  readonly failureType?: string;
  readonly exitCode?: number | null;
  readonly signal?: string | null;
};

/** A file without tests fails, and so does one that cannot be loaded. */
export async function runFiles(files: readonly string[], options: RunOptions): Promise<FileResult[]> {
  const { concurrency, filesOfProcess } = options;
  const waiting = [...files];
  const results: FileResult[] = [];
  const onResult = (result: FileResult) => {
    results.push(result);
    options.onFile(result.file, result.seconds, result.failures.length > 0);
  };
  const work = async () => {
    while (waiting.length > 0) {
      // The processes share the last files.
      const count = Math.min(filesOfProcess, Math.ceil(waiting.length / concurrency));
      await runProcess(waiting.splice(0, count), options, onResult);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  return results;
}

/**
 * One run of node:test for each process, which runs the agent's code as root: its WebAssembly is not compiled anew (src/kernel/process.ts).
 * A process that ends badly, or leaves something behind, fails each file that has not ended, and the last one in any case.
 */
async function runProcess(
  files: readonly string[],
  { root, signal }: RunOptions,
  onResult: (result: FileResult) => void,
): Promise<void> {
  const output: string[] = [];
  const rest = files.map((file) => new Collector(relative(root, file), output));
  let begun = performance.now();
  const close = () => {
    const collector = rest.shift();
    const now = performance.now();
    if (collector !== undefined) onResult(collector.close((now - begun) / 1000));
    begun = now;
  };
  const ended = (hasFailed: boolean, event: Event) => {
    if (event.nesting > 0) {
      rest[0]?.ended(hasFailed, { ...event, nesting: event.nesting - 1 });
      return;
    }
    const isFile = files.includes(event.name);
    if (hasFailed) for (const one of isFile ? rest.slice(0, 1) : rest) one.fileFailed(event.details.error);
    // The last one may leave something behind.
    if (isFile && rest.length > 1) close();
  };
  const stream = run({
    files: [PROGRAM],
    argv: [...files],
    execArgv: ['--liftoff-only'],
    signal: AbortSignal.any([signal]),
  });
  for await (const { type, data } of stream) {
    if (type === 'test:stdout' || type === 'test:stderr') output.push(data.message);
    else if (type === 'test:diagnostic' && !TOTAL.test(data.message)) output.push(`${data.message}\n`);
    else if (type === 'test:pass' || type === 'test:fail') ended(type === 'test:fail', data as Event);
    if (output.length > MAX_LINES) output.shift();
  }
  while (rest.length > 0) close();
}

class Collector {
  readonly result: FileResult;
  /** The last lines of its process. They cannot be told apart by file: the event of a test may come after lines of later files. */
  readonly #output: readonly string[];
  /** Failures whose suites have not ended; a suite ends after its tests. */
  #waiting: { readonly nesting: number; readonly failure: Failure }[] = [];

  constructor(file: string, output: readonly string[]) {
    this.#output = output;
    this.result = { file, seconds: 0, tests: 0, passed: 0, suites: 0, skipped: [], failures: [] };
  }

  /** The file, or its process, ended badly, not only a test in it. */
  fileFailed(error: TestError | undefined): void {
    if (error?.failureType !== 'subtestsFailed') this.#fail('(the file)', error);
  }

  ended(hasFailed: boolean, { name, nesting, skip, details }: Event): void {
    this.#nameParents(name, nesting);
    if (details.type === 'suite') this.result.suites++;
    else this.#count(hasFailed, skip);
    if (!hasFailed || details.error?.failureType === 'subtestsFailed') return;
    const failure = { file: this.result.file, name, error: errorText(details.error) };
    if (nesting === 0) this.result.failures.push(failure);
    else this.#waiting.push({ nesting, failure });
  }

  close(seconds: number): FileResult {
    this.result.seconds = seconds;
    this.result.failures.push(...this.#waiting.map(({ failure }) => failure));
    const { failures, tests } = this.result;
    if (tests === 0 && failures.length === 0) this.#fail('(the file)', new Error('it has no tests'));
    const [first] = failures;
    const output = this.#output.join('').trim();
    if (first !== undefined && output !== '') {
      failures[0] = { ...first, error: `${first.error}\noutput of its process:\n${output}` };
    }
    return this.result;
  }

  #count(hasFailed: boolean, skip: string | boolean | undefined): void {
    this.result.tests++;
    if (hasFailed) return;
    if (skip === undefined || skip === false) this.result.passed++;
    else this.result.skipped.push(typeof skip === 'string' && skip !== '' ? skip : 'no reason given');
  }

  #fail(name: string, error: TestError | undefined): void {
    this.result.tests++;
    this.result.failures.push({ file: this.result.file, name, error: errorText(error) });
  }

  /** What ended one level deeper belongs to this suite or test. */
  #nameParents(parent: string, nesting: number): void {
    const named = this.#waiting.map((one) => {
      if (one.nesting <= nesting) return one;
      return { nesting, failure: { ...one.failure, name: `${parent} > ${one.failure.name}` } };
    });
    this.#waiting = named.filter((one) => one.nesting > 0);
    this.result.failures.push(...named.filter((one) => one.nesting === 0).map(({ failure }) => failure));
  }
}

function errorText(error: TestError | undefined): string {
  const { cause, exitCode, signal } = error ?? {};
  if (exitCode !== undefined) return `it ended with exit status ${exitCode ?? 'none'}, signal ${signal ?? 'none'}`;
  if (cause instanceof Error) {
    const deeper = cause.cause === undefined ? '' : `\ncaused by ${inspect(cause.cause)}`;
    return `${cause.stack ?? cause.message}${deeper}`;
  }
  return error?.message ?? 'it failed';
}
