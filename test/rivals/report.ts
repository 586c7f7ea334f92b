/** The report of `npm run test:rivals`: which stories a real kube-proxy ends as slicewire does, and where it differs with or without a reason. */
import type { ModeName } from '../../src/proxy/model/modes.ts';
import { STORIES } from '../conformance/stories/index.ts';
import { type OtherEnd, otherEnd } from '../conformance/story.ts';
import type { Mark } from '../vm/run-there.ts';
import type { StoryResult } from './kube-proxy-stories.ts';

/** What a line of results begins with. */
export const MARK: Mark = '@rival ';

interface Judged {
  readonly lines: readonly string[];
  /** Results, and of them those that end alike, otherwise for a reason, and otherwise without one. */
  readonly counts: { readonly told: number; readonly alike: number; readonly named: number; readonly unnamed: number };
  /** Differences without a reason, and reasons without a difference in either family. */
  readonly wrong: number;
}

/** The line of a result, as it comes. */
export function lineOf(mode: ModeName, { id, family, differs }: StoryResult): string {
  const story = `${mode}, ${family}, ${id}`;
  if (differs === undefined) return `${story}: as in slicewire`;
  const reason = reasonOf(mode, id);
  return reason === undefined
    ? `${story}: OTHERWISE, AND NO REASON IS NAMED: ${differs}`
    : `${story}: otherwise (${differs}), for a reason: kube-proxy ${reason.does}`;
}

function reasonOf(mode: ModeName, id: string): OtherEnd | undefined {
  const story = STORIES.find((one) => one.id === id);
  return story === undefined ? undefined : otherEnd(story, mode);
}

/** A story that must end otherwise. */
function isExpected(mode: ModeName, id: string): boolean {
  const reason = reasonOf(mode, id);
  return reason !== undefined && reason.isByChance !== true;
}

/** What all results of a mode say. */
export function judged(mode: ModeName, results: readonly StoryResult[]): Judged {
  const differing = results.filter(({ differs }) => differs !== undefined);
  const unnamed = differing.filter(({ id }) => reasonOf(mode, id) === undefined);
  const told = new Set(results.map(({ id }) => id));
  const differ = new Set(differing.map(({ id }) => id));
  const idle = [...told].filter((id) => !differ.has(id) && isExpected(mode, id));
  const counts = {
    told: results.length,
    alike: results.length - differing.length,
    named: differing.length - unnamed.length,
    unnamed: unnamed.length,
  };
  const lines = [
    `${mode}: ${counts.told} stories told, ${counts.alike} as in slicewire, ${counts.named} otherwise for a reason, ${counts.unnamed} otherwise without one`,
    ...unnamed.map((result) => lineOf(mode, result)),
    ...idle.map((id) => `${mode}, ${id}: A REASON IS NAMED, AND NOTHING DIFFERS (kubeProxy of the story)`),
  ];
  return { lines, counts, wrong: unnamed.length + idle.length };
}
