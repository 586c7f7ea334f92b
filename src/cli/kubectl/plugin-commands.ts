/** The commands of the plugin: each finds the agents, asks one or all of them, prints, and resolves with its exit status. */
import { isIPv6 } from 'node:net';
import { causeOf } from '../../base/cause.ts';
import { realClock } from '../../base/clock.ts';
import { parseDuration } from '../../base/duration.ts';
import { type ApiClient, apiClient, type Credentials } from '../../cluster/api/client.ts';
import { type UserFlags, userCredentials } from '../../cluster/api/user-kubeconfig.ts';
import { type Flags, textFlag } from '../../config/flags.ts';
import { userAgent } from '../../config/program-version.ts';
import { API_VERSION, momentOf, NoAnswer, WrongQuestion } from '../../inspect/wire/envelope.ts';
import { explanationSchema, explanationText } from '../../inspect/wire/explanation.ts';
import { exposureSchema, exposureText } from '../../inspect/wire/exposure.ts';
import { historySchema } from '../../inspect/wire/history.ts';
import type { NodeOutcome, NodeQuery, Nodes } from '../../inspect/wire/nodes.ts';
import {
  type AnswerSummary,
  behindText,
  EXPOSURE_SUMMARY,
  explainSummary,
  firstNodes,
  historySummary,
  SHADOW_SUMMARY,
  STATUS_SUMMARY,
  summaryText,
  VERIFY_SUMMARY,
} from '../../inspect/wire/nodes.ts';
import { readMoment, readSince, serviceKey } from '../../inspect/wire/parse.ts';
import { shadowSchema } from '../../inspect/wire/shadow.ts';
import { isRight, shadowText } from '../../inspect/wire/shadow-text.ts';
import { statusSchema } from '../../inspect/wire/status.ts';
import { historyText, statusText } from '../../inspect/wire/status-text.ts';
import { verificationSchema, verificationText } from '../../inspect/wire/verification.ts';
import { type AgentPod, agentPods, placeOfPod } from './agents.ts';
import { askNode, askNodes, type NodesRequest, type Reach } from './ask-nodes.ts';

export interface PluginInput {
  readonly words: readonly string[];
  readonly flags: Flags;
  readonly signal: AbortSignal;
  readonly print: (text: string) => void;
}

/** The agents of a cluster, and the way to them. */
interface Cluster {
  readonly client: ApiClient;
  readonly reach: Reach;
  readonly pods: readonly AgentPod[];
  readonly program: AskedProgram;
}

export async function statusCommand(input: PluginInput): Promise<number> {
  return await withCluster(input, (cluster) =>
    cluster.program.rules === undefined
      ? answer(input, cluster, { question: STATUS, asksAll: true })
      : answer(input, cluster, { question: FINDINGS, asksAll: true }),
  );
}

export async function verifyCommand(input: PluginInput): Promise<number> {
  return await withCluster(input, (cluster) => answer(input, cluster, { question: VERIFY }));
}

export async function historyCommand(input: PluginInput): Promise<number> {
  const question = historyQuestion(input.words[0], input.flags, realClock.wall());
  return await withCluster(input, (cluster) => answer(input, cluster, { question }));
}

export async function exposureCommand(input: PluginInput): Promise<number> {
  return await withCluster(input, (cluster) => answer(input, cluster, { question: EXPOSURE }));
}

/** The question about a Pod as sender names its address, and goes to its node: an agent that follows an API server does not know Pods. */
export async function explainCommand(input: PluginInput): Promise<number> {
  const { flags, signal } = input;
  const [from = '', to = ''] = input.words;
  const question = (sender: string) => explainQuestion({ from: sender, to }, flags, realClock.wall());
  const pod = podIn(from);
  // A wrong time is refused before the cluster is asked.
  question(from);
  return await withCluster(input, async (cluster) => {
    if (pod === undefined) return await answer(input, cluster, { question: question(from) });
    const { node, addresses } = await placeOfPod(cluster.client, pod, signal);
    const sender = addresses.find((address) => isIPv6(address) === to.startsWith('[')) ?? addresses[0] ?? 'node';
    return await answer(input, cluster, { question: question(sender), node });
  });
}

/** A question with the text of its answers, and their exit status. */
interface PluginQuestion<A> {
  readonly question: NodeQuery;
  readonly request: NodesRequest<A>;
  /** The text of one node's answer. */
  text(answer: A): string;
  /** The words in which the answers of several nodes are put together. */
  summary(outcomes: readonly NodeOutcome<A>[]): AnswerSummary<A>;
  /** The exit status: 0, or 2 for an answer other than the hoped-for one. */
  status(answer: A): 0 | 2;
  /** Nodes whose answers differ from the others are also asked for their status. */
  readonly asksWhy: boolean;
}

const STATUS = questionOf({
  question: 'status',
  request: { path: '/status', parameters: {}, schema: statusSchema },
  text: statusText,
  summary: () => STATUS_SUMMARY,
  status: ({ health }) => (health.healthy ? 0 : 2),
  asksWhy: false,
});

/** `status` of shadows. */
const FINDINGS = questionOf({
  question: 'status',
  request: { path: '/status', parameters: {}, schema: shadowSchema },
  text: shadowText,
  summary: () => SHADOW_SUMMARY,
  status: (found) => (isRight(found) ? 0 : 2),
  asksWhy: false,
});

const VERIFY = questionOf({
  question: 'verify',
  request: { path: '/verify', parameters: {}, schema: verificationSchema },
  text: verificationText,
  summary: () => VERIFY_SUMMARY,
  status: ({ equal }) => (equal ? 0 : 2),
  asksWhy: true,
});

const EXPOSURE = questionOf({
  question: 'exposure',
  request: { path: '/exposure', parameters: {}, schema: exposureSchema },
  text: exposureText,
  summary: () => EXPOSURE_SUMMARY,
  status: () => 0,
  asksWhy: false,
});

/** Throws WrongQuestion. */
function explainQuestion({ from, to }: { readonly from: string; readonly to: string }, flags: Flags, now: number) {
  const at = textFlag(flags, 'at');
  const parameters = { from, to, rules: String(flags.rules === true), at: momentText('--at', at, now) };
  return questionOf({
    question: 'explain',
    request: { path: '/explain', parameters, schema: explanationSchema },
    text: explanationText,
    summary: explainSummary,
    status: ({ verdict }) => (verdict.kind === 'balanced' ? 0 : 2),
    asksWhy: true,
  });
}

/** Throws WrongQuestion. */
function historyQuestion(word: string | undefined, flags: Flags, now: number) {
  const at = textFlag(flags, 'at');
  const since = textFlag(flags, 'since');
  const end = at === undefined ? now : readMoment('--at', at, now);
  const parameters = {
    service: word === undefined ? undefined : serviceKey(word),
    since: since === undefined ? undefined : momentOf(readSince('--since', since, end)),
    at: momentText('--at', at, now),
  };
  return questionOf({
    question: 'history',
    request: { path: '/history', parameters, schema: historySchema },
    text: historyText,
    summary: historySummary,
    status: () => 0,
    asksWhy: true,
  });
}

/** Lets TypeScript infer the form of the answer. */
function questionOf<A>(question: PluginQuestion<A>): PluginQuestion<A> {
  return question;
}

function momentText(flag: string, text: string | undefined, now: number): string | undefined {
  return text === undefined ? undefined : momentOf(readMoment(flag, text, now));
}

async function withCluster(input: PluginInput, use: (cluster: Cluster) => Promise<number>): Promise<number> {
  const { flags, signal } = input;
  const where = whereOf(flags);
  const credentials = plainFailures(await userCredentials(userFlags(flags), process.env));
  const agent = userAgent('kubectl');
  const client = apiClient(credentials, { userAgent: agent });
  try {
    const pods = await agentPods(client, where, signal);
    if (pods.length === 0) throw new NoAnswer(noAgents(where));
    const { port, timeout } = where;
    return await use({
      client,
      pods,
      program: where.program,
      reach: { credentials, userAgent: agent, port, timeout, signal },
    });
  } finally {
    client.close();
  }
}

interface ServiceSelection {
  readonly program: AskedProgram;
  readonly namespace: string;
  readonly selector: string;
  readonly port: number;
  /** Milliseconds. */
  readonly timeout: number;
}

/** The program of a node that answers. */
interface AskedProgram {
  readonly name: 'agent' | 'shadow';
  /** The proxy whose rules it answers about, where they are not its own. */
  readonly rules?: 'kube-proxy';
  readonly port: string;
  /** Label selector. */
  readonly selector: string;
  /** The remedy where there is none. */
  readonly install: string;
}

const AGENTS: AskedProgram = {
  name: 'agent',
  port: '10249',
  selector: 'k8s-app=slicewire',
  install: 'install slicewire',
};
/** About the rules of kube-proxy. */
const SHADOWS: AskedProgram = {
  name: 'shadow',
  rules: 'kube-proxy',
  port: '10269',
  selector: 'k8s-app=slicewire-shadow',
  install: 'questions about kube-proxy need a shadow on the node: apply deploy/shadow',
};

/** Throws WrongQuestion. */
function programOf(flags: Flags): AskedProgram {
  const of = textFlag(flags, 'of');
  if (of === undefined) return AGENTS;
  if (of !== 'kube-proxy')
    throw new WrongQuestion(`--of ${of}: only the rules of kube-proxy can be read; write kube-proxy`);
  if (flags.at !== undefined)
    throw new WrongQuestion(
      `--of ${of}: cannot be combined with --at: the answer is about the rules in the kernel now`,
    );
  return SHADOWS;
}

/** Throws WrongQuestion. */
function whereOf(flags: Flags): ServiceSelection {
  const program = programOf(flags);
  const port = textFlag(flags, 'port') ?? program.port;
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65_535)
    throw new WrongQuestion(`--port ${port}: must be a number from 1 to 65535`);
  const text = textFlag(flags, 'timeout') ?? '30s';
  const timeout = parseDuration(text) ?? 0;
  if (timeout < 1 || timeout > HOUR)
    throw new WrongQuestion(`--timeout ${text}: must be a duration up to 1h, such as 30s`);
  if (flags.allNodes === true && flags.node !== undefined)
    throw new WrongQuestion(`--node ${textFlag(flags, 'node')}: cannot be combined with --all-nodes`);
  const namespace = textFlag(flags, 'namespace') || 'kube-system';
  if (!NAMESPACE.test(namespace))
    throw new WrongQuestion(`--namespace ${namespace}: must be the name of a namespace, such as kube-system`);
  const selector = textFlag(flags, 'selector') || program.selector;
  return { namespace, selector, port: Number(port), timeout, program };
}

const HOUR = 60 * 60 * 1000;
/** Names of Namespaces are DNS labels (RFC 1123), and those of Pods DNS subdomains. Others could lead to another path of the API. */
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const POD = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;

/** undefined for a sender that is no Pod. Throws WrongQuestion. */
function podIn(from: string): { readonly namespace: string; readonly name: string } | undefined {
  if (!from.startsWith('pod/')) return undefined;
  const [, namespace = '', name = '', ...more] = from.split('/');
  if (more.length === 0 && NAMESPACE.test(namespace) && POD.test(name)) return { namespace, name };
  throw new WrongQuestion(`FROM ${from}: a Pod is written pod/NAMESPACE/NAME`);
}

/** An empty flag counts as none, as in kubectl. */
function userFlags(flags: Flags): UserFlags {
  const text = (flag: string) => textFlag(flags, flag) || undefined;
  return {
    kubeconfig: text('kubeconfig'),
    context: text('context'),
    cluster: text('cluster'),
    user: text('user'),
    as: text('as'),
  };
}

/** A missing credential, such as that of a program in the kubeconfig, is no bug. */
function plainFailures({ server, apply }: Credentials): Credentials {
  return {
    server,
    async apply(options) {
      try {
        await apply(options);
      } catch (error) {
        throw new NoAnswer(`the credentials for ${server} cannot be had: ${causeOf(error) || SILENT}`);
      }
    },
  };
}

const SILENT = 'the program that the kubeconfig names for the user failed, and said nothing';

function noAgents({ namespace, selector, program }: ServiceSelection): string {
  return `no Pod with the label ${selector} is in the namespace ${namespace}: ${program.install}, or name its Pods with --namespace and --selector`;
}

interface AskNodes<A> {
  readonly question: PluginQuestion<A>;
  /** The node to ask when no flag names one. */
  readonly node?: string;
  /** All nodes are asked when no flag names one. */
  readonly asksAll?: boolean;
}

async function answer<A extends object>(input: PluginInput, cluster: Cluster, ask: AskNodes<A>): Promise<number> {
  const { flags, print } = input;
  const { program } = cluster;
  // A shadow has no status of the form that the others have.
  const question = program.rules === undefined ? ask.question : { ...ask.question, asksWhy: false };
  const pod = flags.allNodes === true ? undefined : chosenPod(cluster, textFlag(flags, 'node') || undefined, ask);
  const isJson = flags.output === 'json';
  const show = (text: string) => print(printable(text).trimEnd());
  if (pod !== undefined) {
    const one = await askNode(cluster.reach, pod, question.request);
    mustBeAbout(program, [one]);
    show(isJson ? JSON.stringify(one, undefined, 2) : question.text(one));
    return question.status(one);
  }
  const at = momentOf(realClock.wall());
  const outcomes = await allAnswers(cluster, question);
  mustBeAbout(
    program,
    outcomes.map((outcome) => outcome.answer),
  );
  const { summary, text } = summaryText(outcomes, question.summary(outcomes));
  show(isJson ? JSON.stringify(nodesAnswer({ question, outcomes, summary, at }), undefined, 2) : text);
  if (outcomes.some((outcome) => outcome.answer === null)) return 1;
  return outcomes.some((outcome) => outcome.answer !== null && question.status(outcome.answer) === 2) ? 2 : 0;
}

/** An agent that --selector and --port name answers about its own rules. Throws WrongQuestion. */
function mustBeAbout({ rules }: AskedProgram, answers: readonly (object | null)[]): void {
  if (rules === undefined) return;
  const isOther = (answer: object | null) =>
    answer !== null && (answer as { readonly by?: { readonly rules?: string } }).by?.rules !== rules;
  if (answers.some(isOther))
    throw new WrongQuestion(
      `--of ${rules}: the answer is not about its rules: --selector and --port must name shadows`,
    );
}

/** undefined when all are to be asked. Throws WrongQuestion and NoAnswer. */
function chosenPod<A>({ pods, program }: Cluster, flag: string | undefined, ask: AskNodes<A>): AgentPod | undefined {
  const name = flag ?? ask.node;
  if (name !== undefined) {
    const pod = pods.find(({ node }) => node === name);
    if (pod !== undefined) return pod;
    const need = program.rules === undefined ? '' : `; ${program.install}`;
    throw new NoAnswer(`no ${program.name} runs on node ${name}; ${program.name}s run on ${firstNodes(pods)}${need}`);
  }
  if (ask.asksAll === true) return undefined;
  if (pods.length === 1) return pods[0];
  throw new WrongQuestion(
    `${ask.question.question}: name the node to ask with --node, or ask all with --all-nodes; ${program.name}s run on ${firstNodes(pods)}`,
  );
}

/** The answers. For a node whose answer differs from the others, its status gives the reason if it can. */
async function allAnswers<A>({ reach, pods }: Cluster, question: PluginQuestion<A>): Promise<NodeOutcome<A>[]> {
  const outcomes = await askNodes(reach, pods, question.request);
  if (!question.asksWhy) return outcomes;
  const { summarize } = question.summary(outcomes);
  const isOdd = ({ answer, ...rest }: NodeOutcome<A>) =>
    answer === null ? rest.isRefusal : !summarize({ ...rest, answer }).isCounted;
  const odd = outcomes.flatMap((outcome, i) => (isOdd(outcome) ? (pods[i] ?? []) : []));
  const statuses = await askNodes(reach, odd, STATUS.request);
  const behind = new Map(statuses.map(({ node, answer }) => [node, answer === null ? '' : behindText(answer)]));
  return outcomes.map((outcome) => ({ ...outcome, behind: behind.get(outcome.node) ?? '' }));
}

interface Together<A> {
  readonly question: PluginQuestion<A>;
  readonly outcomes: readonly NodeOutcome<A>[];
  readonly summary: string;
  readonly at: string;
}

function nodesAnswer<A>({ question, outcomes, summary, at }: Together<A>) {
  const nodes = Object.fromEntries(outcomes.map(({ node, isRefusal: _, ...rest }) => [node, rest]));
  const head = { apiVersion: API_VERSION, kind: 'Nodes', question: question.question } as const;
  return { ...head, at, summary, nodes } satisfies Omit<Nodes, 'nodes'> & { nodes: object };
}

/**
 * Writes control and format characters, except line ends and tabs, as escapes such as `\u001b`, which JSON reads as the character. Answers
 * have names and messages of others, and a terminal must not obey these.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    character === '\n' || character === '\t' ? character : escaped(character),
  );
}

function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}
