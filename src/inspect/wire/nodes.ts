/** The answer of `kubectl slicewire COMMAND --all-nodes`: the answers of all nodes' agents, and their summary. */

import * as z from 'zod';
import { firstLine } from '../../base/cause.ts';
import { type Explanation, explanationSchema } from './explanation.ts';
import { type Exposed, type Exposure, exposureSchema } from './exposure.ts';
import {
  clockTime,
  columns,
  countText,
  firstOf,
  millisecondsText,
  numberText,
  timeBetween,
  wrapped,
} from './format.ts';
import { type History, historySchema, type RecordedChange } from './history.ts';
import { answer, moment } from './schema-common.ts';
import { type Shadow, shadowSchema } from './shadow.ts';
import { isRight, verdictOf } from './shadow-text.ts';
import { type Status, statusSchema } from './status.ts';
import { type Verification, verificationSchema } from './verification.ts';

const NODE_QUERIES = ['status', 'explain', 'verify', 'history', 'exposure'] as const;

const anyAnswer = z.union([
  statusSchema,
  shadowSchema,
  explanationSchema,
  verificationSchema,
  historySchema,
  exposureSchema,
]);

export const nodesSchema = z.object({
  ...answer('Nodes'),
  question: z.enum(NODE_QUERIES),
  at: moment.describe('when the command asked'),
  summary: z.string().describe('one sentence: how many nodes agree, and the others with the reason'),
  nodes: z
    .record(
      z.string(),
      z.object({
        pod: z.string().describe('namespace/name of the agent'),
        answer: anyAnswer.nullable().describe('in the form of the query; null when there is none'),
        failure: z.string().describe('why there is no answer; "" when there is one'),
        behind: z.string().describe('why the node may be behind the others, such as "stale for 40 s because …"; or ""'),
      }),
    )
    .describe('by the name of the node'),
});

export type Nodes = z.infer<typeof nodesSchema>;
export type NodeQuery = Nodes['question'];

/** The answer of one node. */
export interface NodeOutcome<A> {
  /** The node's name; of a Pod without a node "Pod NAME". */
  readonly node: string;
  readonly pod: string;
  /** null when there is none, for the reason in `failure`. */
  readonly answer: A | null;
  readonly failure: string;
  /** The agent refuses the query: it may not know the Service yet. */
  readonly isRefusal: boolean;
  /** Why the node may be behind the others; "" when nothing is known of that. */
  readonly behind: string;
}

/** Names of nodes that a line has; the others are counted. `-o json` has all. */
const MAX_NAMES = 5;
const MAX_CANDIDATES = 20;

interface SummaryText {
  /** One sentence. */
  readonly summary: string;
  readonly text: string;
}

/** One node in the summary. */
interface NodeSummary {
  /** Whether the node is one of those that the summary counts. */
  readonly isCounted: boolean;
  /** Why it is not counted; "" when it is. */
  readonly text: string;
}

export interface AnswerSummary<A> {
  /** "is healthy" and "are healthy". */
  readonly counted: readonly [one: string, several: string];
  summarize(outcome: AnsweredNode<A>): NodeSummary;
  /** Lines after the summary, about the nodes that answered. */
  details?(answered: readonly AnsweredNode<A>[]): readonly string[];
}

type AnsweredNode<A> = NodeOutcome<A> & { readonly answer: A };

/** `12 of 14 nodes are healthy; node-7: stale for 40 s because …; node-9: no answer: …` */
export function summaryText<A>(outcomes: readonly NodeOutcome<A>[], summary: AnswerSummary<A>): SummaryText {
  const answered = answeredOf(outcomes);
  const summaries = new Map(answered.map((outcome) => [outcome.node, summary.summarize(outcome)]));
  const count = [...summaries.values()].filter(({ isCounted }) => isCounted).length;
  const [one, several] = summary.counted;
  const head = `${numberText(count)} of ${numberText(outcomes.length)} nodes ${count === 1 ? one : several}`;
  const others = Map.groupBy(
    outcomes.filter(({ node }) => summaries.get(node)?.isCounted !== true),
    ({ node, failure, behind }) =>
      summaries.get(node)?.text ?? `no answer: ${failure}${behind === '' ? '' : `; ${behind}`}`,
  );
  const exceptions = [...others].map(([text, of]) => `${nodeNames(of)}: ${text}`);
  const listed = count === 0 ? ':' : '; the others:';
  const lines = [
    ...wrapped(`${head}${exceptions.length === 0 ? '.' : listed}`),
    ...exceptions.flatMap((line) => wrapped(line, '  ', '    ')),
  ];
  const details = summary.details?.(answered) ?? [];
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

export const STATUS_SUMMARY: AnswerSummary<Status> = {
  counted: ['is healthy', 'are healthy'],
  summarize({ answer }) {
    const behind = behindText(answer);
    return { isCounted: answer.health.healthy && behind === '', text: behind };
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

/** The findings of shadows. */
export const SHADOW_SUMMARY: AnswerSummary<Shadow> = {
  counted: ['has a kube-proxy whose rules are right', 'have a kube-proxy whose rules are right'],
  summarize: ({ answer }) => ({ isCounted: isRight(answer), text: verdictOf(answer).replace(/\.$/, '') }),
  details: (answered) =>
    answered.length === 0
      ? []
      : columns([SHADOW_TITLES, ...answered.map(({ node, answer }) => shadowRow(node, answer))]),
};

const SHADOW_TITLES = ['node', 'mode', 'differences', 'kube-proxy: 99 % within', 'slicewire: 99 % within'];

function shadowRow(node: string, { by, compared, count, latency: { theirs, plan } }: Shadow): string[] {
  const time = (of: Shadow['latency']['plan']) => (of === null ? '-' : millisecondsText(of.p99));
  return [node, compared === null ? '-' : by.mode, numberText(count), time(theirs), time(plan)];
}

export const VERIFY_SUMMARY: AnswerSummary<Verification> = {
  counted: ['has a kernel that is as desired', 'have kernels that are as desired'],
  summarize({ answer: { equal, count, differences } }) {
    const [first] = differences;
    const named = first === undefined ? '' : `, such as ${first.object}`;
    const verb = count === 1 ? 'kernel object differs' : 'kernel objects differ';
    return { isCounted: equal, text: `${numberText(count)} ${verb}${named}` };
  },
};

/** The answer that most nodes give is counted; every other one is written out. */
export function explainSummary(outcomes: readonly NodeOutcome<Explanation>[]): AnswerSummary<Explanation> {
  const common = commonAnswer(outcomes);
  const isFound = common?.verdict.kind === 'balanced';
  return {
    counted: isFound ? ['has it', 'have it'] : ['gives the same answer', 'give the same answer'],
    summarize: ({ answer, behind }) => ({
      isCounted: common !== undefined && sameAnswer(common) === sameAnswer(answer),
      text: [behind, ...answer.differs, answer.verdict.sentence].filter((part) => part !== '').join('; '),
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

/** Equal for answers with the same verdict and the same shares. */
function sameAnswer({ verdict: { kind, service, endpoints }, differs }: Explanation): string {
  const shares = endpoints.map(({ endpoint, share }) => `${endpoint} ${share.toFixed(3)}`).sort();
  return JSON.stringify([kind, service, shares, differs.length > 0]);
}

/** Of one Service: which nodes have its newest change in the kernel. Of all: the last change and sync of each node. */
export function historySummary(outcomes: readonly NodeOutcome<History>[]): AnswerSummary<History> {
  const answered = answeredOf(outcomes);
  const newest = newestChange(answered);
  const counted = ['has it', 'have it'] as const;
  if (newest === undefined) {
    const none = ['knows of no change', 'know of no change'] as const;
    return { counted: answered.length === 0 ? counted : none, summarize: () => ({ isCounted: true, text: '' }) };
  }
  return {
    counted,
    summarize: (outcome) => changeSummary(outcome, newest),
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

function changeSummary(outcome: AnsweredNode<History>, newest: RecordedChange) {
  const { answer, behind } = outcome;
  const own = sameChange(outcome, newest);
  if (own !== undefined && own.inKernelAt !== null) return { isCounted: true, text: '' };
  const why = behind === '' ? '' : `; ${behind}`;
  if (own !== undefined)
    return { isCounted: false, text: `not in the kernel yet, received ${timeBetween(own.at, answer.by.at)} ago${why}` };
  const began = answer.reachesBackTo > newest.at;
  const text = began ? `its history begins later, at ${clockTime(answer.reachesBackTo, answer.by.at)}` : 'not received';
  return { isCounted: false, text: `${text}${why}` };
}

function changeRow(outcome: AnsweredNode<History>, newest: RecordedChange): string[] {
  const own = sameChange(outcome, newest);
  if (own === undefined) return [outcome.node, '-', '-'];
  const after = own.milliseconds === null ? '-' : millisecondsText(own.milliseconds);
  return [outcome.node, clockTime(own.at, outcome.answer.by.at), own.inKernelAt === null ? 'not yet' : after];
}

export const EXPOSURE_SUMMARY: AnswerSummary<Exposure> = {
  counted: ['exposes nothing that looks wrong', 'expose nothing that looks wrong'],
  summarize({ answer }) {
    const wrong = problemsOf(answer);
    return { isCounted: wrong.length === 0, text: `${countText(wrong.length, 'problem')}, see below` };
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
