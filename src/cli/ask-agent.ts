/** Asks the agent of this node over HTTP. */
import { get, type IncomingMessage } from 'node:http';
import type { ListenAddress } from '../config/listen.ts';
import { NoAnswer, WrongQuestion } from '../inspect/wire/envelope.ts';
import { type AnswerSchema, answerText, problemIn, readAnswer, searchParams } from '../inspect/wire/read.ts';

/** Limit of silence. A request may wait for another one, and reads the kernel. */
const SILENCE_TIMEOUT_MS = 120_000;
/** Limit of bytes of an answer. */
export const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

export interface AgentQuestion {
  readonly listen: ListenAddress;
  readonly path: string;
  /** Parameters with the value undefined are left out. */
  readonly parameters?: Readonly<Record<string, string | undefined>>;
  /** Only the agent can answer, so the error text names no other way. */
  readonly mustBeAgent?: boolean;
  /** The program that answers; the agent by default. */
  readonly program?: 'agent' | 'shadow';
  readonly signal: AbortSignal;
}

/** The agent's answer. Throws WrongQuestion when it refuses the question, and NoAnswer when there is no answer. */
export async function askAgent<T>(question: AgentQuestion, schema: AnswerSchema<T>): Promise<T> {
  return readAnswer(await answerText(await send(question), MAX_ANSWER_BYTES), schema);
}

/** The agent's answer as the pieces of a file. */
export async function askForFile(question: AgentQuestion): Promise<AsyncIterable<Uint8Array>> {
  return await send(question);
}

/** Resolves with the answer of status 200; its body follows. */
async function send({
  listen,
  path,
  parameters = {},
  mustBeAgent = false,
  program = 'agent',
  signal,
}: AgentQuestion): Promise<IncomingMessage> {
  const query = searchParams(parameters);
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const host = reachable(listen.address);
    const request = get(
      { host, port: listen.port, path: `${path}?${query}`, signal, timeout: SILENCE_TIMEOUT_MS },
      resolve,
    );
    request.on('timeout', () => request.destroy(new Error(`no byte for ${SILENCE_TIMEOUT_MS / 1000} s`)));
    request.on('error', reject);
  }).catch((error: NodeJS.ErrnoException) => {
    if (signal.aborted) throw error;
    throw new NoAnswer(unansweredText(listen, mustBeAgent || program === 'shadow' ? '' : path, error, program));
  });
  if (response.statusCode !== 200) await refuse(listen, response);
  return response;
}

/** An agent at the unspecified address listens everywhere, so it is asked on loopback. */
function reachable(address: string): string {
  return address === '0.0.0.0' || address === '::' ? '127.0.0.1' : address;
}

/** The flags with which a command answers without an agent, by path. */
const WITHOUT_AGENT: Readonly<Record<string, string>> = {
  '/explain': '--kubeconfig FILE, --manifests PATH or --recording FILE',
  '/status': '--kubeconfig FILE, --manifests PATH or --recording FILE',
  '/exposure': '--kubeconfig FILE or --manifests PATH',
  '/verify': '--kubeconfig FILE or --manifests PATH',
  '/history': '--recording FILE',
};

function unansweredText(
  { text }: ListenAddress,
  path: string,
  { code, message }: NodeJS.ErrnoException,
  program: string,
): string {
  const why = code === 'ECONNREFUSED' ? 'nothing listens there' : message;
  const flags = WITHOUT_AGENT[path];
  const otherwise = flags === undefined ? '' : `; without an agent, use ${flags}`;
  return `no ${program} answers at ${text} (${why}): start it, or name its address with --metrics-bind-address${otherwise}`;
}

async function refuse({ text }: ListenAddress, response: IncomingMessage): Promise<never> {
  let body = '';
  for await (const piece of response as AsyncIterable<Buffer>) if (body.length < 100_000) body += piece.toString();
  const message = problemIn(body);
  if (message === undefined) {
    throw new NoAnswer(
      `the program at ${text} does not know this question (HTTP status ${response.statusCode}): it is another program, or an older slicewire`,
    );
  }
  if (response.statusCode === 400) throw new WrongQuestion(message);
  throw new NoAnswer(`the agent at ${text}: ${message}`);
}
