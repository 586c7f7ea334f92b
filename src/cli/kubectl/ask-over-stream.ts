/** A question to an agent over a stream that leads to its metrics server. */
import { type IncomingMessage, request } from 'node:http';
import type { Duplex } from 'node:stream';
import { causeOf } from '../../base/cause.ts';
import { answerText, queryOf } from '../../inspect/wire/http-query.ts';
import { NoAnswer, WrongQuestion } from '../../inspect/wire/problem.ts';
import { problemIn } from '../../inspect/wire/problem-schema.ts';
import { type AnswerSchema, readAnswer } from '../../inspect/wire/read.ts';

/** Bytes of an answer. */
const MAX_ANSWER_BYTES = 64 << 20;
/** Bytes of a refusal that are read. */
const MAX_REFUSAL = 100_000;

export interface ProxiedQuestion {
  readonly path: string;
  /** Those with the value undefined are left out. */
  readonly parameters: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** The agent's answer; the stream is of no use afterwards. Throws WrongQuestion, NoAnswer, and the reason of the signal. */
export async function askOver<T>(stream: Duplex, question: ProxiedQuestion, schema: AnswerSchema<T>): Promise<T> {
  const { signal, path } = question;
  // Node.js reports a stream that failed as a hang-up; the stream has the cause.
  let failure: Error | undefined;
  stream.once('error', (error) => (failure = error));
  try {
    const response = await send(stream, question);
    const { statusCode = 0 } = response;
    const text = await textOf(response, statusCode === 200 ? MAX_ANSWER_BYTES : MAX_REFUSAL);
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
  const query = queryOf(parameters);
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

async function textOf(response: IncomingMessage, most: number): Promise<string> {
  const text = await answerText(response, most);
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
