/**
 * The questions that the metrics server answers: /explain, /verify, /status, /history, /recording, and those of the live page, with
 * the stream of its events (docs/reference/ports.md).
 *
 * The answers say more than metrics do, so not every client may ask: where the server listens at loopback, both ends must be of this machine.
 * A page in a browser must not ask either. DNS rebinding would let it, with a name of its own in `Host`, so only the address at which the
 * request arrived, or `localhost`, is accepted there. No CORS header is ever set.
 */

import { isLoopback, parseAddress, socketAddress } from '../base/address.ts';
import { causeOf } from '../base/cause.ts';
import { isWrongQuestion, NoAnswer, problemOf, WrongQuestion } from '../inspect/wire/envelope.ts';
import { type Answer, type HttpRequest, jsonAnswer } from './http.ts';

/** Resolves with an object, which is sent as JSON, or with the pieces of a file. Rejects with WrongQuestion and NoAnswer. */
export type AnswerFunction = (
  parameters: URLSearchParams,
  signal: AbortSignal,
) => Promise<object | AsyncIterable<Uint8Array>>;

export interface QueryRoute {
  /** The names of its parameters. */
  readonly parameters: readonly string[];
  readonly answer: AnswerFunction;
  /** Milliseconds after which it is given up; by default before the server ends a silent connection (`http.ts`). */
  readonly timeout?: number;
}

const ANSWER_TIMEOUT_MS = 25_000;

export interface QueryRoutes {
  /** By their paths. */
  readonly byPath: ReadonlyMap<string, QueryRoute>;
  /** The server listens at loopback. */
  readonly isLocal: () => boolean;
  /** Opens the stream of `/live` (`event-stream.ts`). Throws NoAnswer. */
  readonly live?: (request: HttpRequest) => Answer;
}

/** Path of the stream of events. */
export const LIVE = '/live';

/** A question that is answered with a stream. */
export interface StreamRoute {
  readonly parameters: readonly string[];
  /** Throws WrongQuestion and NoAnswer. */
  readonly open: (request: HttpRequest) => Answer;
}

/** undefined where the path is no question. The method must be GET or HEAD. */
export async function questionAnswer(
  { byPath, isLocal, live }: QueryRoutes,
  request: HttpRequest,
): Promise<Answer | undefined> {
  const stream = request.path === LIVE && live !== undefined ? { parameters: [], open: live } : undefined;
  const question = byPath.get(request.path) ?? stream;
  if (question === undefined) return undefined;
  const refusal = refusalOf(request, isLocal());
  if (refusal !== undefined) return problemAnswer(403, refusal);
  return await checkedAnswer(question, request);
}

/** The answer for a client that may ask. */
export async function checkedAnswer(question: QueryRoute | StreamRoute, request: HttpRequest): Promise<Answer> {
  try {
    checkParameters(request, question);
    if ('open' in question) return question.open(request);
    if ((question.timeout ?? ANSWER_TIMEOUT_MS) > ANSWER_TIMEOUT_MS) request.mayWait?.();
    const answer = await inTime(question, request);
    if (!(Symbol.asyncIterator in answer)) return jsonAnswer(200, `${JSON.stringify(answer)}\n`);
    return { status: 200, headers: FILE_HEADERS, body: answer, isLong: true };
  } catch (error) {
    return errorAnswer(error);
  }
}

/** Seconds, for clients that obey the header. */
export const RETRY_AFTER = { 'retry-after': '1' };

/** The answer to a question that failed: 400 for WrongQuestion, 503 for NoAnswer, 500 for a fault of the program. */
export function errorAnswer(error: unknown): Answer {
  if (isWrongQuestion(error)) return problemAnswer(400, error.message);
  if (error instanceof NoAnswer) return problemAnswer(503, error.message, RETRY_AFTER);
  return problemAnswer(500, causeOf(error));
}

/** Rejects with NoAnswer when it takes too long: the kernel starts its list of rules again whenever they change. */
async function inTime({ answer, timeout = ANSWER_TIMEOUT_MS }: QueryRoute, { query, signal, path }: HttpRequest) {
  const late = AbortSignal.timeout(timeout);
  try {
    return await answer(query, AbortSignal.any([signal, late]));
  } catch (error) {
    if (!late.aborted || signal.aborted) throw error;
    const why = 'reading the rules takes longer while they change, and on a machine that is short of CPU';
    throw new NoAnswer(`${path}: no answer within ${timeout / 1000} s; ${why}: ask again`);
  }
}

const FILE_HEADERS = { 'content-type': 'application/octet-stream', 'x-content-type-options': 'nosniff' };

export function problemAnswer(status: number, message: string, headers: Answer['headers'] = {}): Answer {
  return jsonAnswer(status, `${JSON.stringify(problemOf(message))}\n`, headers);
}

/** The reason why this client is not answered. `flag`: the flag with the address of this server. */
export function refusalOf(
  { host, local, remote, site, path }: HttpRequest,
  isLocal: boolean,
  flag = '--metrics-bind-address',
): string | undefined {
  if (isLocal && !(isOfLoopback(local) && isOfLoopback(remote))) {
    return `questions are answered on this machine alone: the request came from ${remote} to ${local}; ${flag} opens them to others`;
  }
  // A link of another site may lead to the page. But a page of another site may not make the agent work, although it could not read the answer.
  if (path !== '/' && (site === 'cross-site' || site === 'same-site')) {
    return `a page of another site asks (Sec-Fetch-Site: ${site}): open http://localhost at this port instead`;
  }
  if (host !== undefined && isOwnHost(host, local)) return undefined;
  const given = host === undefined ? 'is missing' : `is ${JSON.stringify(host.slice(0, 100))}`;
  return `the header Host ${given}, and must be localhost or ${local.replace(/%.*$/, '')}: ask by address, not by a name`;
}

/**
 * The same for paths that other machines, such as Prometheus, may request by a host name. Only requests that arrive at loopback are checked,
 * where a page in a browser could ask by DNS rebinding.
 */
export function refusalOnLoopback(request: HttpRequest, flag?: string): string | undefined {
  return isOfLoopback(request.local) ? refusalOf(request, true, flag) : undefined;
}

/** `localhost` or the literal address at which the request arrived, with any port or none. */
export function isOwnHost(host: string, local: string): boolean {
  const [, v6, name] = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::\d{1,5})?$/.exec(host) ?? [];
  if (name?.toLowerCase() === 'localhost') return true;
  const address = parseAddress(v6 ?? name ?? '');
  return address !== undefined && address === socketAddress(local);
}

/** Whether this is a loopback address, as Node.js writes addresses of sockets. */
export function isOfLoopback(text: string): boolean {
  const address = socketAddress(text);
  return address !== undefined && isLoopback(address);
}

/** Throws WrongQuestion for a parameter that the question does not take, or that is given twice. */
export function checkParameters({ query, path }: HttpRequest, { parameters }: Pick<QueryRoute, 'parameters'>): void {
  const takes = parameters.length === 0 ? 'no parameter' : parameters.join(', ');
  for (const name of new Set(query.keys())) {
    if (!parameters.includes(name)) throw new WrongQuestion(`${path} has no parameter ${name}: it takes ${takes}`);
    if (query.getAll(name).length > 1) throw new WrongQuestion(`${path}: ${name} is given twice; give it once`);
  }
}
