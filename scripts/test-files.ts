/** Runs the test files of one part with node:test, a process for each, and collects their results. */
import { relative } from 'node:path';
import { run } from 'node:test';
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
  readonly concurrency: number;
  /** Ends what still runs; a file that did not end is a failure. */
  readonly signal: AbortSignal;
  /** Called when a file has ended, with its seconds. */
  readonly onFile: (file: string, seconds: number, hasFailed: boolean) => void;
}

/** The last lines of a file's output are shown with its failures. */
const MAX_LINES = 40;

/** Diagnostics that only repeat what is counted here. */
const TOTAL = /^(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /;

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
  const waiting = [...files];
  const results: FileResult[] = [];
  const work = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const result = await runFile(file, options);
      results.push(result);
      options.onFile(result.file, result.seconds, result.failures.length > 0);
    }
  };
  await Promise.all(Array.from({ length: options.concurrency }, work));
  return results;
}

/**
 * One run of node:test for each file, which runs the agent's code as root: its WebAssembly is not compiled anew (src/kernel/process.ts).
 * A run for each: of many files in one run, an event says where a test is declared, which may be a
 * helper, and not which file runs it.
 */
async function runFile(file: string, { root, signal }: RunOptions): Promise<FileResult> {
  const collector = new Collector(file, relative(root, file));
  const begun = performance.now();
  for await (const { type, data } of run({
    files: [file],
    execArgv: ['--liftoff-only'],
    signal: AbortSignal.any([signal]),
  })) {
    if (type === 'test:stdout' || type === 'test:stderr') collector.output(data.message);
    else if (type === 'test:diagnostic' && !TOTAL.test(data.message)) collector.output(`${data.message}\n`);
    else if (type === 'test:pass' || type === 'test:fail') collector.ended(type === 'test:fail', data as Event);
  }
  return collector.close((performance.now() - begun) / 1000);
}

class Collector {
  readonly result: FileResult;
  readonly #path: string;
  readonly #output: string[] = [];
  /** Failures whose suites have not ended; a suite ends after its tests. */
  #waiting: { readonly nesting: number; readonly failure: Failure }[] = [];

  constructor(path: string, file: string) {
    this.#path = path;
    this.result = { file, seconds: 0, tests: 0, passed: 0, suites: 0, skipped: [], failures: [] };
  }

  output(text: string): void {
    this.#output.push(text);
    if (this.#output.length > MAX_LINES) this.#output.shift();
  }

  ended(hasFailed: boolean, { name, nesting, skip, details }: Event): void {
    if (name === this.#path) {
      // The runner itself reports on a file: it ended badly, or it has no tests.
      if (hasFailed) this.#fail('(the file)', details.error);
      return;
    }
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
      failures[0] = { ...first, error: `${first.error}\noutput of the file:\n${output}` };
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
