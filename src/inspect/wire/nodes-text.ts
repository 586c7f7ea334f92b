/** The answers of several nodes put together, as text for people. Pure. */

import { firstLine } from '../../base/cause.ts';
import type { Explanation } from './explanation.ts';
import type { Exposed, Exposure } from './exposure.ts';
import { clockTime, countText, firstOf, millisecondsText, numberText, timeBetween } from './format.ts';
import type { History, RecordedChange } from './history.ts';
import type { NodeOutcome } from './nodes.ts';
import type { Status } from './status.ts';
import { columns, wrapped } from './text-width.ts';
import type { Verification } from './verification.ts';

/** Names of nodes that a line has; the others are counted. `-o json` has all. */
const MAX_NAMES = 5;
const MAX_CANDIDATES = 20;

interface TogetherText {
  /** One sentence. */
  readonly summary: string;
  readonly text: string;
}

/** How the answer of one node is told. */
interface Told {
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

type AnsweredNode<A> = NodeOutcome<A> & { readonly answer: A };

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

function answeredOf<A>(outcomes: readonly NodeOutcome<A>[]): AnsweredNode<A>[] {
  return outcomes.flatMap((outcome) => (outcome.answer === null ? [] : [{ ...outcome, answer: outcome.answer }]));
}

/** `node-1, node-2 and 9 more` */
function nodeNames(of: readonly { readonly node: string }[]): string {
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

// What each question tells of all nodes. Pure.

export const STATUS_TELLING: Telling<Status> = {
  counted: ['is healthy', 'are healthy'],
  tell({ answer }) {
    const behind = behindText(answer);
    return { isCounted: answer.health.healthy && behind === '', says: behind };
  },
  details: (answered) =>
    answered.length === 0
      ? []
      : columns([STATUS_TITLES, ...answered.map(({ node, answer }) => statusRow(node, answer))]),
};

const STATUS_TITLES = [
  'node',
  'mode',
  'version',
  'health',
  'up for',
  'Services',
  'EndpointSlices',
  '99 % within',
  'faults',
];

function statusRow(node: string, { by, health, startedAt, objects, latency, faults, refused }: Status): string[] {
  const is = health.healthy ? 'healthy' : health.ready ? 'not healthy' : 'not ready';
  return [
    node,
    by.mode,
    by.version,
    is,
    startedAt === null ? '-' : timeBetween(startedAt, by.at),
    numberText(objects.services),
    numberText(objects.slices),
    latency === null ? '-' : millisecondsText(latency.p99),
    numberText(faults.length + refused.length),
  ];
}

export const VERIFY_TELLING: Telling<Verification> = {
  counted: ['has a kernel that is as desired', 'have kernels that are as desired'],
  tell({ answer: { equal, count, differences } }) {
    const [first] = differences;
    const named = first === undefined ? '' : `, such as ${first.object}`;
    const verb = count === 1 ? 'kernel object differs' : 'kernel objects differ';
    return { isCounted: equal, says: `${numberText(count)} ${verb}${named}` };
  },
};

/** The answer that most nodes give is counted; every other one is told. */
export function explainTelling(outcomes: readonly NodeOutcome<Explanation>[]): Telling<Explanation> {
  const common = commonAnswer(outcomes);
  const isFound = common?.verdict.kind === 'balanced';
  return {
    counted: isFound ? ['has it', 'have it'] : ['gives the same answer', 'give the same answer'],
    tell: ({ answer, behind }) => ({
      isCounted: common !== undefined && sameAnswer(common) === sameAnswer(answer),
      says: [behind, ...answer.differs, answer.verdict.sentence].filter((part) => part !== '').join('; '),
    }),
    details: () =>
      common === undefined ? [] : ['The answer of most nodes:', ...wrapped(common.verdict.sentence, '  ', '  ')],
  };
}

/** The answer that most nodes give; of several as frequent the first. */
function commonAnswer(outcomes: readonly NodeOutcome<Explanation>[]): Explanation | undefined {
  const groups = [...Map.groupBy(answeredOf(outcomes), ({ answer }) => sameAnswer(answer)).values()];
  return groups.toSorted((a, b) => b.length - a.length)[0]?.[0]?.answer;
}

/** Equal for answers that say the same of the connection. */
function sameAnswer({ verdict: { kind, service, endpoints }, differs }: Explanation): string {
  const shares = endpoints.map(({ endpoint, share }) => `${endpoint} ${share.toFixed(3)}`).sort();
  return JSON.stringify([kind, service, shares, differs.length > 0]);
}

/** Of one Service: which nodes have its newest change in the kernel. Of all: the last change and sync of each node. */
export function historyTelling(outcomes: readonly NodeOutcome<History>[]): Telling<History> {
  const answered = answeredOf(outcomes);
  const newest = newestChange(answered);
  const counted = ['has it', 'have it'] as const;
  if (newest === undefined) {
    const none = ['knows of no change', 'know of no change'] as const;
    return { counted: answered.length === 0 ? counted : none, tell: () => ({ isCounted: true, says: '' }) };
  }
  return {
    counted,
    tell: (outcome) => toldOfChange(outcome, newest),
    details: (of) => [
      `The newest change: ${newest.object}${newest.resourceVersion === '' ? '' : ` (resourceVersion ${newest.resourceVersion})`}`,
      ...newest.what.map((phrase) => `  ${phrase}`),
      '',
      ...columns([['node', 'received', 'in the kernel after'], ...of.map((outcome) => changeRow(outcome, newest))]),
    ],
  };
}

/** Agents receive one change at almost the same time, and a restarted one lists what is old: the greater resourceVersion is newer. */
function newestChange(answered: readonly AnsweredNode<History>[]): RecordedChange | undefined {
  const all = answered.flatMap(({ answer }) => answer.changes);
  const version = ({ resourceVersion }: RecordedChange) =>
    /^\d{1,20}$/.test(resourceVersion) ? BigInt(resourceVersion) : 0n;
  return all.toSorted((a, b) => {
    const [va, vb] = [version(a), version(b)];
    if (va !== vb) return va < vb ? 1 : -1;
    return a.at < b.at ? 1 : -1;
  })[0];
}

function sameChange({ answer }: AnsweredNode<History>, { object, resourceVersion, at }: RecordedChange) {
  return answer.changes.findLast(
    (change) =>
      change.object === object &&
      (resourceVersion === '' ? change.at === at : change.resourceVersion === resourceVersion),
  );
}

function toldOfChange(outcome: AnsweredNode<History>, newest: RecordedChange) {
  const { answer, behind } = outcome;
  const own = sameChange(outcome, newest);
  if (own !== undefined && own.inKernelAt !== null) return { isCounted: true, says: '' };
  const why = behind === '' ? '' : `; ${behind}`;
  if (own !== undefined)
    return { isCounted: false, says: `not in the kernel yet, received ${timeBetween(own.at, answer.by.at)} ago${why}` };
  const began = answer.reachesBackTo > newest.at;
  const says = began ? `its history begins later, at ${clockTime(answer.reachesBackTo, answer.by.at)}` : 'not received';
  return { isCounted: false, says: `${says}${why}` };
}

function changeRow(outcome: AnsweredNode<History>, newest: RecordedChange): string[] {
  const own = sameChange(outcome, newest);
  if (own === undefined) return [outcome.node, '-', '-'];
  const after = own.milliseconds === null ? '-' : millisecondsText(own.milliseconds);
  return [outcome.node, clockTime(own.at, outcome.answer.by.at), own.inKernelAt === null ? 'not yet' : after];
}

export const EXPOSURE_TELLING: Telling<Exposure> = {
  counted: ['exposes nothing that looks wrong', 'expose nothing that looks wrong'],
  tell({ answer }) {
    const wrong = problemsOf(answer);
    return { isCounted: wrong.length === 0, says: `${countText(wrong.length, 'problem')}, see below` };
  },
  details(answered) {
    const found = answered.flatMap(({ node, answer }) => problemsOf(answer).map((problem) => ({ node, problem })));
    const problems = [...Map.groupBy(found, ({ problem }) => problem)].flatMap(([problem, of]) =>
      wrapped(`${nodeNames(of)}: ${problem}`, '- ', '  '),
    );
    const rows = answered.map(({ node, answer }) => exposureRow(node, answer));
    const table = rows.length === 0 ? [] : columns([EXPOSURE_TITLES, ...rows]);
    return [...problems, ...(problems.length > 0 && table.length > 0 ? [''] : []), ...table];
  },
};

const KINDS: readonly Exposed['kind'][] = ['node port', 'external IP', 'load balancer', 'health check port'];
const EXPOSURE_TITLES = ['node', 'node ports', 'external IPs', 'load balancers', 'health check ports', 'omitted'];

function exposureRow(node: string, { exposed, omitted }: Exposure): string[] {
  const counts = KINDS.map((kind) => exposed.filter((one) => one.kind === kind).length);
  return [node, ...[...counts, omitted].map(numberText)];
}

function problemsOf({ exposed, problems }: Exposure): string[] {
  const of = exposed.flatMap(({ kind, address, port, protocol, service, problems: own }) =>
    own.map(
      (problem) =>
        `${kind} ${address === '' ? port : `${address} ${port}`}/${protocol} of Service ${service}: ${firstLine(problem)}`,
    ),
  );
  return [...problems, ...of];
}
