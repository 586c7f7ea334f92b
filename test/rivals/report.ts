/** The report of `npm run test:rivals`: which stories a real kube-proxy ends as slicewire does, and where it differs with or without a reason. */
import type { ModeName } from '../../src/proxy/model/modes.ts';
import type { Mark } from '../vm/run-there.ts';
import { BY_CHANCE, DIFFERENCES } from './differences.ts';
import type { StoryResult } from './kube-proxy-stories.ts';

/** What a line of results begins with. */
export const MARK: Mark = '@rival ';

interface Judged {
  readonly lines: readonly string[];
  /** Differences without a reason, and reasons without a difference in either family. */
  readonly wrong: number;
}

/** The line of a result, as it comes. */
export function lineOf(mode: ModeName, { id, family, differs }: StoryResult): string {
  const story = `${mode}, ${family}, ${id}`;
  if (differs === undefined) return `${story}: as in slicewire`;
  const reason = DIFFERENCES[mode][id];
  return reason === undefined
    ? `${story}: OTHERWISE, AND NO REASON IS NAMED: ${differs}`
    : `${story}: otherwise (${differs}), for a reason: ${reason}`;
}

/** What all results of a mode say. */
export function judged(mode: ModeName, results: readonly StoryResult[]): Judged {
  const reasons = DIFFERENCES[mode];
  const differing = results.filter(({ differs }) => differs !== undefined);
  const unnamed = differing.filter(({ id }) => reasons[id] === undefined);
  const told = new Set(results.map(({ id }) => id));
  const differ = new Set(differing.map(({ id }) => id));
  const idle = Object.keys(reasons).filter((id) => told.has(id) && !differ.has(id) && !BY_CHANCE.has(id));
  const counts = [
    `${results.length} stories told`,
    `${results.length - differing.length} as in slicewire`,
    `${differing.length - unnamed.length} otherwise for a reason`,
    `${unnamed.length} otherwise without one`,
  ];
  const lines = [
    `${mode}: ${counts.join(', ')}`,
    ...unnamed.map((result) => lineOf(mode, result)),
    ...idle.map((id) => `${mode}, ${id}: A REASON IS NAMED, AND NOTHING DIFFERS (test/rivals/differences.ts)`),
  ];
  return { lines, wrong: unnamed.length + idle.length };
}
