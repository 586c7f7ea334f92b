/** Runs test files where the kernel has IPVS, or in a machine with another kernel, tells each result as it comes, and says how all ended. */
import { fileURLToPath } from 'node:url';
import { MARK, type TestResult } from './reporter.ts';
import { type OtherKernel, runThere } from './run-there.ts';

const REPORTER = fileURLToPath(new URL('./reporter.ts', import.meta.url));

export interface Told {
  readonly results: readonly TestResult[];
  /** Why the run ended otherwise than with results. */
  readonly trouble: string | undefined;
}

interface ToldThere {
  readonly kernel?: OtherKernel;
  /** Called for each test, not for suites. */
  readonly onResult: (result: TestResult) => void;
}

/** `args`: of Node.js after `--test`. Two machines of one processor each do more than one of two. */
export async function toldThere(args: readonly string[], { kernel, onResult }: ToldThere): Promise<Told> {
  const results: TestResult[] = [];
  const { status, said } = await runThere<TestResult>({
    args: ['--test', '--test-concurrency=1', `--test-reporter=${REPORTER}`, ...args],
    ...(kernel === undefined ? {} : { kernel }),
    ...{ processors: 1, mark: MARK },
    onResult: (one) => {
      if (one.isSuite) return;
      results.push(one);
      onResult(one);
    },
  });
  const isExplained = results.length > 0 && (status === 0 || results.some(({ error }) => error !== undefined));
  return { results, trouble: isExplained ? undefined : `exit status ${status}: ${said.join('\n')}` };
}

/** A line of a result, with the error below it. */
export function printResult({ name, milliseconds, skip, error }: TestResult, prefix = ''): void {
  const how = error === undefined ? (skip === undefined ? 'ok' : 'skipped') : 'FAILED';
  process.stdout.write(`${prefix}${how} ${name} (${milliseconds} ms)${error === undefined ? '' : `\n${error}`}\n`);
}

/** For the columns tests, skipped and failed of a table. */
export function countsOf({ results, trouble }: Told): string[] {
  const skipped = results.filter(({ skip }) => skip !== undefined).length;
  return [`${results.length}`, `${skipped}`, trouble === undefined ? `${failedIn({ results })}` : '**did not end**'];
}

export function failedIn({ results }: Pick<Told, 'results'>): number {
  return results.filter(({ error }) => error !== undefined).length;
}

export function isRight(told: Told): boolean {
  return told.trouble === undefined && failedIn(told) === 0;
}
