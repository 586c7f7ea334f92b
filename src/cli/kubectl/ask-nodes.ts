/** A question to the agent of one node, or to those of all. */

import { causeOf } from '../../base/cause.ts';
import { durationText } from '../../base/duration.ts';
import type { Credentials } from '../../cluster/api/client.ts';
import type { NodeOutcome } from '../../inspect/wire/nodes.ts';
import { NoAnswer, WrongQuestion } from '../../inspect/wire/problem.ts';
import type { AnswerSchema } from '../../inspect/wire/read.ts';
import { type AgentPod, nodeTitle } from './agents.ts';
import { askOver } from './ask-over-stream.ts';
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
export async function askNode<A>(reach: Reach, pod: AgentPod, asked: NodesRequest<A>): Promise<A> {
  try {
    return await answerOf(reach, pod, asked);
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    throw new NoAnswer(`node ${nodeTitle(pod)} (Pod ${pod.namespace}/${pod.name}) gives no answer: ${error.message}`);
  }
}

/**
 * What came from each of them, in their order. Throws the reason of the signal, and WrongQuestion where every agent that could be
 * asked refuses the question.
 */
export async function askNodes<A>(
  reach: Reach,
  pods: readonly AgentPod[],
  asked: NodesRequest<A>,
): Promise<NodeOutcome<A>[]> {
  const wrong: WrongQuestion[] = [];
  const outcomes = await eachOf(pods, async (pod): Promise<NodeOutcome<A>> => {
    const head = { node: nodeTitle(pod), pod: `${pod.namespace}/${pod.name}`, behind: '', isRefusal: false };
    try {
      return { ...head, answer: await answerOf(reach, pod, asked), failure: '' };
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
  let waitsFor = 'the API server did not open a connection to the Pod';
  try {
    const stream = await openForward({ ...reach, namespace: pod.namespace, pod: pod.name, signal });
    waitsFor = 'the agent did not answer';
    return await askOver(stream, { path, parameters, signal }, schema);
  } catch (error) {
    reach.signal.throwIfAborted();
    if (error instanceof NoAnswer || error instanceof WrongQuestion) throw error;
    if (late.aborted)
      throw new NoAnswer(`${waitsFor} within ${durationText(reach.timeout)}; --timeout gives it longer`);
    throw new NoAnswer(`the connection to the agent failed: ${causeOf(error)}`);
  }
}

/** The results in the order of the items; only some are worked on at the same time. */
async function eachOf<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const waiting = items.entries();
  const worker = async () => {
    for (const [i, item] of waiting) results[i] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker));
  return results;
}
