/** The answers of several nodes put together, as text for people. Pure. */

import { firstOf, numberText, timeBetween } from './format.ts';
import type { NodeOutcome } from './nodes.ts';
import type { Status } from './status.ts';
import { wrapped } from './text-width.ts';

/** Names of nodes that a line has; the others are counted. `-o json` has all. */
const MAX_NAMES = 5;
const MAX_CANDIDATES = 20;

export interface TogetherText {
  /** One sentence. */
  readonly summary: string;
  readonly text: string;
}

/** How the answer of one node is told. */
export interface Told {
  /** The node is one of those that the summary counts. */
  readonly isCounted: boolean;
  /** What is said of a node that is not counted. */
  readonly says: string;
}

export interface Telling<A> {
  /** "is healthy" and "are healthy". */
  readonly counted: readonly [one: string, several: string];
  tell(outcome: AnsweredNode<A>): Told;
  /** What follows the summary, of the nodes that answered. */
  details?(answered: readonly AnsweredNode<A>[]): readonly string[];
}

export type AnsweredNode<A> = NodeOutcome<A> & { readonly answer: A };

/** `12 of 14 nodes are healthy; node-7: stale for 40 s because …; node-9: no answer: …` */
export function togetherText<A>(outcomes: readonly NodeOutcome<A>[], telling: Telling<A>): TogetherText {
  const answered = answeredOf(outcomes);
  const told = new Map(answered.map((outcome) => [outcome.node, telling.tell(outcome)]));
  const count = [...told.values()].filter(({ isCounted }) => isCounted).length;
  const [one, several] = telling.counted;
  const head = `${numberText(count)} of ${numberText(outcomes.length)} nodes ${count === 1 ? one : several}`;
  const others = Map.groupBy(
    outcomes.filter(({ node }) => told.get(node)?.isCounted !== true),
    ({ node, failure, behind }) => told.get(node)?.says ?? `no answer: ${failure}${behind === '' ? '' : `; ${behind}`}`,
  );
  const exceptions = [...others].map(([says, of]) => `${nodeNames(of)}: ${says}`);
  const listed = count === 0 ? ':' : '; the others:';
  const lines = [
    ...wrapped(`${head}${exceptions.length === 0 ? '.' : listed}`),
    ...exceptions.flatMap((line) => wrapped(line, '  ', '    ')),
  ];
  const details = telling.details?.(answered) ?? [];
  return {
    summary: [head, ...exceptions].join('; '),
    text: `${[...lines, ...(details.length === 0 ? [] : ['', ...details])].join('\n')}\n`,
  };
}

export function answeredOf<A>(outcomes: readonly NodeOutcome<A>[]): AnsweredNode<A>[] {
  return outcomes.flatMap((outcome) => (outcome.answer === null ? [] : [{ ...outcome, answer: outcome.answer }]));
}

/** `node-1, node-2 and 9 more` */
export function nodeNames(of: readonly { readonly node: string }[]): string {
  return firstOf(
    of.map(({ node }) => node),
    MAX_NAMES,
  );
}

/** The same, with more names: candidates for a flag. */
export function firstNodes(of: readonly { readonly node: string }[]): string {
  const names = of.map(({ node }) => node).filter((node) => node !== '');
  return names.length === 0 ? 'no node' : firstOf(names, MAX_CANDIDATES);
}

/** Why an agent may be behind the others: `stale for 40 s because …`; "" when it follows everything and is healthy. */
export function behindText({ heard, health, by }: Status): string {
  const [first] = heard.flatMap(({ lost }) => lost ?? []).toSorted((a, b) => (a.since < b.since ? -1 : 1));
  if (first !== undefined) return `stale for ${timeBetween(first.since, by.at)} because ${first.cause}`;
  if (health.healthy) return '';
  return health.reasons.length === 0 ? 'not healthy' : health.reasons.join('; ');
}
