/**
 * Compares the lists with Kubernetes' sources: which cases a list lacks, and which it has too many.
 *
 *   node test/upstream/compare.ts PATH            every file that has a list; PATH: a checkout of kubernetes/kubernetes
 *   node test/upstream/compare.ts PATH FOLDER…    and the other Go tests in these folders of it, such as pkg/proxy
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isWithin, type UpstreamCase } from './cases.ts';
import { casesOf } from './go-tests.ts';
import { UPSTREAM } from './index.ts';

export interface Difference {
  readonly lacks: readonly string[];
  readonly has: readonly string[];
  /** Functions whose line stands for another number of rows than there are. */
  readonly counts: readonly { readonly title: string; readonly listed: number; readonly found: number }[];
}

/** Cases that a list lacks, and that only the list has. A listed case stands for all its rows that are not listed themselves. */
export function difference(
  listed: readonly Pick<UpstreamCase, 'title' | 'rows'>[],
  found: readonly string[],
): Difference {
  const titles = listed.map(({ title }) => title);
  const own = (whole: string) => (title: string) =>
    isWithin(title, whole) && !titles.some((other) => other.length > whole.length && isWithin(title, other));
  const counts = listed.map(({ title, rows }) => ({ title, listed: rows, found: found.filter(own(title)).length }));
  return {
    lacks: found.filter((title) => !titles.some((whole) => isWithin(title, whole))),
    has: titles.filter((whole) => !found.some((title) => isWithin(title, whole))),
    counts: counts.filter((one) => one.listed > 1 && one.found > 0 && one.found !== one.listed),
  };
}

if (import.meta.main) {
  const [root, ...folders] = process.argv.slice(2);
  if (root === undefined) throw new Error('the path of a checkout of kubernetes/kubernetes is missing');
  const listed = new Map(UPSTREAM.map(({ path, cases }) => [path, cases]));
  const others = globSync(
    folders.map((folder) => join(folder, '**/*_test.go')),
    { cwd: root },
  );
  const paths = [...new Set([...listed.keys(), ...others])].filter((path) => path.endsWith('.go')).sort();
  for (const path of paths) {
    const file = join(root, path);
    if (!existsSync(file)) {
      process.stdout.write(`${path}: there is no such file\n`);
      continue;
    }
    // Tests of end to end name their cases by words of several calls.
    const found = path.endsWith('_test.go') ? casesOf(readFileSync(file, 'utf8')) : [];
    const { lacks, has, counts } = difference(listed.get(path) ?? [], found);
    for (const title of lacks) process.stdout.write(`${path}: the list lacks ${title}\n`);
    if (found.length > 0) for (const title of has) process.stdout.write(`${path}: only the list has ${title}\n`);
    for (const one of counts)
      process.stdout.write(`${path}: ${one.title} has ${one.found} rows, and the list ${one.listed}\n`);
  }
}
