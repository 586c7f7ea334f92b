/** Questions to the agent of one node, or to those of all. */
import { type IncomingMessage, request } from 'node:http';
import type { Duplex } from 'node:stream';
import { causeOf } from '../../base/cause.ts';
import { durationText } from '../../base/duration.ts';
import type { Credentials } from '../../cluster/api/client.ts';
import { NoAnswer, WrongQuestion } from '../../inspect/wire/envelope.ts';
import type { NodeOutcome } from '../../inspect/wire/nodes.ts';
import { type AnswerSchema, answerText, problemIn, readAnswer, searchParams } from '../../inspect/wire/read.ts';
import { type AgentPod, nodeTitle } from './agents.ts';
import { openForward } from './port-forward.ts';

/** Agents that are asked at the same time. */
const AT_ONCE = 20;

export interface Reach {
  readonly credentials: Credentials;
  readonly userAgent: string;
  /** The port of the agents' metrics server. */
  readonly port: number;
  /** Milliseconds for one agent. */
  readonly timeout: number;
  readonly signal: AbortSignal;
}

/** A question to the agents of many nodes, in the form of `serve/query-handler.ts`. */
export interface NodesRequest<A> {
  readonly path: string;
  readonly parameters: Readonly<Record<string, string | undefined>>;
  readonly schema: AnswerSchema<A>;
}

/** The answer of one agent. Throws WrongQuestion, NoAnswer that names the node, and the reason of the signal. */
export async function askNode<A>(reach: Reach, pod: AgentPod, question: NodesRequest<A>): Promise<A> {
  try {
    return await answerOf(reach, pod, question);
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    throw new NoAnswer(`node ${nodeTitle(pod)} (Pod ${pod.namespace}/${pod.name}) gives no answer: ${error.message}`);
  }
}

/**
 * The outcome of each agent, in their order. Throws the reason of the signal, and WrongQuestion when every agent that could be asked
 * refuses the question.
 */
export async function askNodes<A>(
  reach: Reach,
  pods: readonly AgentPod[],
  question: NodesRequest<A>,
): Promise<NodeOutcome<A>[]> {
  const wrong: WrongQuestion[] = [];
  const outcomes = await eachOf(pods, async (pod): Promise<NodeOutcome<A>> => {
    const head = { node: nodeTitle(pod), pod: `${pod.namespace}/${pod.name}`, behind: '', isRefusal: false };
    try {
      return { ...head, answer: await answerOf(reach, pod, question), failure: '' };
    } catch (error) {
      reach.signal.throwIfAborted();
      if (error instanceof WrongQuestion) wrong.push(error);
      else if (!(error instanceof NoAnswer)) throw error;
      return { ...head, answer: null, failure: error.message, isRefusal: error instanceof WrongQuestion };
    }
  });
  const [first] = wrong;
  if (first !== undefined && outcomes.every(({ answer }) => answer === null)) throw first;
  return outcomes;
}

async function answerOf<A>(reach: Reach, pod: AgentPod, { path, parameters, schema }: NodesRequest<A>): Promise<A> {
  if (pod.problem !== undefined) throw new NoAnswer(pod.problem);
  const late = AbortSignal.timeout(reach.timeout);
  const signal = AbortSignal.any([reach.signal, late]);
  let problem = 'the API server did not open a connection to the Pod';
  try {
    const stream = await openForward({ ...reach, namespace: pod.namespace, pod: pod.name, signal });
    problem = 'the agent did not answer';
    return await askOver(stream, { path, parameters, signal }, schema);
  } catch (error) {
    reach.signal.throwIfAborted();
    if (error instanceof NoAnswer || error instanceof WrongQuestion) throw error;
    if (late.aborted) throw new NoAnswer(`${problem} within ${durationText(reach.timeout)}; --timeout gives it longer`);
    throw new NoAnswer(`the connection to the agent failed: ${causeOf(error)}`);
  }
}

/** The results in the order of the items. Only some items are worked on at the same time. */
async function eachOf<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const waiting = items.entries();
  const worker = async () => {
    for (const [i, item] of waiting) results[i] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker));
  return results;
}

const MAX_ANSWER_BYTES = 64 << 20;
const MAX_REFUSAL_BYTES = 100_000;

/** A question over a stream to the metrics server of an agent. */
interface ProxiedQuestion {
  readonly path: string;
  /** Parameters without a value are left out. */
  readonly parameters: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** The agent's answer; the stream is of no use afterwards. Throws WrongQuestion, NoAnswer, and the reason of the signal. */
async function askOver<T>(stream: Duplex, question: ProxiedQuestion, schema: AnswerSchema<T>): Promise<T> {
  const { signal, path } = question;
  // Node.js reports a stream that failed as a hang-up; the stream has the cause.
  let failure: Error | undefined;
  stream.once('error', (error) => (failure = error));
  try {
    const response = await send(stream, question);
    const { statusCode = 0 } = response;
    const text = await textOf(response, statusCode === 200 ? MAX_ANSWER_BYTES : MAX_REFUSAL_BYTES);
    if (statusCode === 200) return readAnswer(text, schema);
    throw refusal(path, statusCode, text);
  } catch (error) {
    if (error instanceof NoAnswer || error instanceof WrongQuestion) throw error;
    signal.throwIfAborted();
    if (failure instanceof NoAnswer) throw failure;
    throw new NoAnswer(`the connection to the agent ended before its answer: ${causeOf(failure ?? error)}`);
  } finally {
    stream.destroy();
  }
}

function send(stream: Duplex, { path, parameters, signal }: ProxiedQuestion): Promise<IncomingMessage> {
  const query = searchParams(parameters);
  return new Promise((resolve, reject) => {
    // The agent answers to its own address and to localhost alone (serve/query-handler.ts).
    const headers = { host: 'localhost', connection: 'close' };
    const search = query.size === 0 ? '' : `?${query}`;
    const sent = request({ createConnection: () => stream, path: `${path}${search}`, headers, signal });
    sent.on('response', resolve);
    sent.on('error', reject);
    sent.end();
  });
}

async function textOf(response: IncomingMessage, limit: number): Promise<string> {
  const text = await answerText(response, limit);
  if (!response.complete) throw new Error('it was cut off');
  return text;
}

function refusal(path: string, status: number, body: string): Error {
  const message = problemIn(body);
  if (message === undefined)
    return new NoAnswer(
      `it does not know the question ${path} (HTTP status ${status}): it is an older slicewire, or another program`,
    );
  return status === 400 ? new WrongQuestion(message) : new NoAnswer(message);
}
