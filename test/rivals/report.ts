/** The report of `npm run test:rivals`: which stories a real kube-proxy ends as slicewire does, and where it differs with or without a reason. */
import type { ModeName } from '../../src/proxy/model/modes.ts';
import { STORIES } from '../conformance/stories/index.ts';
import type { Mark } from '../vm/run-there.ts';
import { DIFFERENCES } from './differences.ts';
import type { StoryResult } from './kube-proxy-stories.ts';

/** What a line of results begins with. */
export const MARK: Mark = '@rival ';

interface Judged {
  readonly lines: readonly string[];
  /** Differences without a reason, and reasons without a difference in either family. */
  readonly wrong: number;
}

/** The lines of a mode, for people. */
export function judged(mode: ModeName, results: readonly StoryResult[]): Judged {
  const reasons = reasonsOf(mode);
  const differing = results.filter(({ differs }) => differs !== undefined);
  const unnamed = differing.filter(({ id }) => !reasons.has(id));
  const told = new Set(results.map(({ id }) => id));
  const differ = new Set(differing.map(({ id }) => id));
  const idle = [...Object.keys(DIFFERENCES[mode])].filter((id) => told.has(id) && !differ.has(id));
  const lines = [
    `${mode}: ${results.length} stories, ${results.length - differing.length} as in slicewire`,
    ...differing
      .filter(({ id }) => reasons.has(id))
      .map(({ id, family }) => `  otherwise, for a reason: ${id}, ${family}: ${reasons.get(id)}`),
    ...unnamed.map(({ id, family, differs }) => `  OTHERWISE, NO REASON IS NAMED: ${id}, ${family}: ${differs}`),
    ...idle.map((id) => `  A REASON IS NAMED, AND NOTHING DIFFERS: ${id} (test/rivals/differences.ts)`),
  ];
  return { lines, wrong: unnamed.length + idle.length };
}

/** By the id of the story. */
function reasonsOf(mode: ModeName): ReadonlyMap<string, string> {
  const own = STORIES.flatMap(({ id, kubeProxy }) =>
    kubeProxy === undefined ? [] : [[id, `kube-proxy ${kubeProxy}`] as const],
  );
  return new Map([...own, ...Object.entries(DIFFERENCES[mode])]);
}
