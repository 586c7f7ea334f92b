/** Every list of Kubernetes' test cases: the exports of the files in `unit/` and `e2e/` that are one. A new file needs no entry here. */
import { globSync } from 'node:fs';
import type { UpstreamCase, UpstreamFile } from './cases.ts';

const FOLDER = import.meta.dirname;
const FILES = globSync('{unit,e2e}/**/*.ts', { cwd: FOLDER })
  .filter((file) => !file.endsWith('.test.ts'))
  .sort();

async function listsIn(file: string): Promise<UpstreamFile[]> {
  const exported: Record<string, unknown> = await import(`./${file}`);
  return Object.values(exported).filter(isList);
}

function isList(value: unknown): value is UpstreamFile {
  return typeof value === 'object' && value !== null && 'path' in value && 'cases' in value;
}

/** Lists of one file of Kubernetes as one, in the order of their paths. */
function merged(lists: readonly UpstreamFile[]): UpstreamFile[] {
  const cases = new Map<string, UpstreamCase[]>();
  for (const list of lists) cases.set(list.path, [...(cases.get(list.path) ?? []), ...list.cases]);
  return [...cases].map(([path, all]) => ({ path, cases: all })).sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** All files of Kubernetes that a list here has cases of. */
export const UPSTREAM: readonly UpstreamFile[] = merged((await Promise.all(FILES.map(listsIn))).flat());

/** How a case is held here. `partly`: something holds it, but `not` says what is left. */
export type Held = 'story' | 'test' | 'partly' | 'not';

export function heldBy({ stories = [], tests = {}, not }: UpstreamCase): Held {
  if (stories.length === 0 && Object.keys(tests).length === 0) return 'not';
  if (not !== undefined) return 'partly';
  return stories.length > 0 ? 'story' : 'test';
}
