/**
 * Compares the lists with Kubernetes' sources: which cases a list lacks, and which it has too many.
 *
 *   node test/upstream/compare.ts PATH            every file that has a list; PATH: a checkout of kubernetes/kubernetes
 *   node test/upstream/compare.ts PATH FOLDER…    and the other Go tests in these folders of it, such as pkg/proxy
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { casesOf } from './go-tests.ts';
import { UPSTREAM } from './index.ts';

/** Cases that a list lacks, and that only the list has. A listed case stands for all its rows. */
export function difference(listed: readonly string[], found: readonly string[]): { lacks: string[]; has: string[] } {
  const isWithin = (title: string, whole: string) => title === whole || title.startsWith(`${whole}/`);
  return {
    lacks: found.filter((title) => !listed.some((whole) => isWithin(title, whole))),
    has: listed.filter((whole) => !found.some((title) => isWithin(title, whole))),
  };
}

if (import.meta.main) {
  const [root, ...folders] = process.argv.slice(2);
  if (root === undefined) throw new Error('the path of a checkout of kubernetes/kubernetes is missing');
  const listed = new Map(UPSTREAM.map(({ path, cases }) => [path, cases.map(({ title }) => title)]));
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
    const { lacks, has } = difference(listed.get(path) ?? [], found);
    for (const title of lacks) process.stdout.write(`${path}: the list lacks ${title}\n`);
    if (found.length > 0) for (const title of has) process.stdout.write(`${path}: only the list has ${title}\n`);
  }
}
