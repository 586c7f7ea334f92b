/** Reports each test as a line of JSON, for the run outside (repeat-results.ts). */
import type { TestEvent } from 'node:test/reporters';

/** How a test ended: a line. */
export interface TestResult {
  readonly name: string;
  readonly nesting: number;
  readonly isSuite: boolean;
  readonly milliseconds: number;
  readonly file: string;
  readonly skip: string | undefined;
  /** What went wrong; undefined when it passed. */
  readonly error: string | undefined;
}

export const MARK = '@result ';

// biome-ignore lint/style/noDefaultExport: the test runner takes a reporter's default export
export default async function* reporter(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const printed = new Map<string, string>();
  for await (const { type, data } of source) {
    if (type === 'test:stderr')
      printed.set(data.file, `${printed.get(data.file) ?? ''}${data.message}`.slice(-MAX_PRINTED));
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const { name, nesting, file = '', skip } = data;
    const details = data.details as { duration_ms: number; type?: string; error?: TestError };
    const result: TestResult = {
      name,
      nesting,
      file,
      isSuite: details.type === 'suite',
      milliseconds: Math.round(details.duration_ms),
      skip: skip === undefined || skip === false ? undefined : String(skip),
      error: type === 'test:pass' ? undefined : errorText(details.error, printed.get(file)),
    };
    yield `\n${MARK}${JSON.stringify(result)}\n`;
  }
}

/** Of a file that ended badly by itself, as what: `exitCode` and `signal` of the runner's own error. */
type TestError = Error & { cause?: unknown; exitCode?: number | null; signal?: string | null };

/** Characters at the end of what a file printed. */
const MAX_PRINTED = 2000;

function errorText(error: TestError | undefined, printed = ''): string {
  const { cause, exitCode, signal } = error ?? {};
  if (cause instanceof Error) return cause.stack ?? cause.message;
  if (exitCode === undefined) return error?.message ?? 'failed';
  // Such as a module that is missing: no test of the file says it.
  return `${error?.message ?? 'failed'} (exit status ${exitCode}, signal ${signal ?? 'none'})\n${printed}`.trimEnd();
}
