/** Cases of lists in short. */
import type { UpstreamCase } from './cases.ts';

/** Held by these stories. */
export const told = (title: string, ...stories: string[]): UpstreamCase => ({ title, stories });

/** Held by these tests of one file. */
export const tested = (title: string, file: string, ...titles: string[]): UpstreamCase => ({
  title,
  tests: { [file]: titles },
});

/** Held by nothing here, for this reason. */
export const notHere = (title: string, not: string): UpstreamCase => ({ title, not });

/** Rows of one function that one thing holds, or nothing: `TestName/row`. */
export function rows(
  name: string,
  titles: readonly string[],
  of: (title: string, row: string) => UpstreamCase,
): UpstreamCase[] {
  return titles.map((row) => of(`${name}/${row}`, row));
}

/** Rows that tests of the same name hold, in a file and below a suite. */
export function sameRows(name: string, file: string, titles: readonly string[], suite?: string): UpstreamCase[] {
  return rows(name, titles, (title, row) => tested(title, file, suite === undefined ? row : `${suite} > ${row}`));
}
