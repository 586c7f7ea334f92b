/**
 * Asks the fleet until an endpoint is drained or the time is over. A fleet that is away, restarts or refuses is asked again: a Pod that
 * waits for nothing loses what a Pod that ends too early loses for its clients.
 */
import { randomInt } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { causeOf } from '../../base/cause.ts';
import { type Clock, sleep } from '../../base/clock.ts';
import { type Drained, drainedSchema } from '../../inspect/wire/drained.ts';
import { WrongQuestion } from '../../inspect/wire/envelope.ts';
import { answerText, problemIn, searchParams } from '../../inspect/wire/read.ts';
import type { DrainQuestion } from './drain-question.ts';

/** The outcome of one request to the fleet. */
export type FleetAnswer =
  | { readonly kind: 'answer'; readonly answer: Drained }
  /** The question is wrong, so asking again does not help. */
  | { readonly kind: 'wrong'; readonly why: string }
  /** There is no answer now. */
  | { readonly kind: 'none'; readonly why: string };

/** Asks once. `wait`: milliseconds after which the fleet answers that the endpoint is not drained. Rejects when no answer came. */
export type Send = (question: DrainQuestion, wait: number, signal: AbortSignal) => Promise<FleetAnswer>;

interface DrainOutcome {
  readonly drained: boolean;
  /** The last answer of the fleet, with the time since the first question; undefined without an answer. */
  readonly answer: Drained | undefined;
  /** The reason why the last question had no answer; "" when it had one. */
  readonly failure: string;
}

/** Time that an answer may take beyond its wait. It ends a question to a replica that accepts it and never answers. */
const GRACE_MS = 2000;
/** Pauses after questions that had no answer. */
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 1000;

/**
 * Gives each question all of the time that is left. A shorter question would be asked again, with the newest versions of a later moment,
 * and slow Nodes might never have these in time. Throws WrongQuestion when the fleet says so, and the reason of the signal.
 */
export async function askUntilDrained(
  question: DrainQuestion,
  { send, clock, signal }: { readonly send: Send; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<DrainOutcome> {
  const start = clock.now();
  const waited = () => clock.now() - start;
  let last: Pick<DrainOutcome, 'answer' | 'failure'> = { answer: undefined, failure: 'it was not asked' };
  let pause = FIRST_PAUSE_MS;
  for (let left = question.timeout; left > 0; left = question.timeout - waited()) {
    const outcome = await askOnce(question, left, { send, clock, signal });
    if (outcome.kind === 'wrong') throw new WrongQuestion(`the fleet says: ${outcome.why}`);
    if (outcome.kind === 'answer') {
      const answer = { ...outcome.answer, waited: Math.round(waited()) };
      if (answer.drained) return { drained: true, answer, failure: '' };
      last = { answer, failure: '' };
      pause = FIRST_PAUSE_MS;
    } else last = { answer: last.answer, failure: outcome.why };
    const rest = Math.max(0, question.timeout - waited());
    await sleep(clock, Math.min(rest, pause + randomInt(pause)), signal);
    if (outcome.kind === 'none') pause = Math.min(pause * 2, MAX_PAUSE_MS);
  }
  return { drained: false, ...last };
}

async function askOnce(
  question: DrainQuestion,
  wait: number,
  { send, clock, signal }: { readonly send: Send; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<FleetAnswer> {
  const late = new AbortController();
  const cancel = clock.after(wait + GRACE_MS, () => late.abort());
  try {
    return await send(question, wait, AbortSignal.any([signal, late.signal]));
  } catch (error) {
    signal.throwIfAborted();
    const why = late.signal.aborted ? `no answer within ${Math.round(wait + GRACE_MS) / 1000} s` : causeOf(error);
    return { kind: 'none', why };
  } finally {
    cancel();
  }
}

/** Limit for the answer. */
const MAX_ANSWER_BYTES = 1 << 20;
/** Silence after which TCP probes whether the other machine is still there (tcp(7), TCP_KEEPIDLE). */
const KEEP_ALIVE_MS = 5000;
const CUT_OFF = 'the connection ended within the answer';
const NOT_HTTP = 'the answer is not HTTP/1.1';

/** Asks once over HTTP. Rejects when the connection fails, when the answer is cut off, and with the reason of the signal. */
export const sendToFleet: Send = async (question, wait, signal) => {
  const response = await responseTo(question, wait, signal);
  const text = await answerText(response, MAX_ANSWER_BYTES).catch((error: unknown) => {
    signal.throwIfAborted();
    throw codeOf(error) === 'ECONNRESET' ? new Error(CUT_OFF) : readable(error);
  });
  if (!response.complete) throw new Error(CUT_OFF);
  return fleetAnswer(response.statusCode ?? 0, text);
};

async function responseTo(question: DrainQuestion, wait: number, signal: AbortSignal): Promise<IncomingMessage> {
  const { of, fleet, tokenFile } = question;
  // Read anew each time: the kubelet writes another token before this one expires.
  const token = tokenFile === undefined ? undefined : (await readFile(tokenFile, 'utf8')).trim();
  const url = new URL(`/drained?${searchParams({ ...of, timeout: `${Math.ceil(wait)}ms` })}`, fleet);
  const headers = { connection: 'close', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
  return await new Promise((resolve, reject) => {
    request(url, { agent: false, headers, signal })
      .on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE_MS))
      .on('response', resolve)
      // A change of the protocol without a request for one.
      .on('upgrade', (_response, socket) => {
        socket.destroy();
        reject(new Error(NOT_HTTP));
      })
      .on('error', (error) => reject(readable(error)))
      .end();
  });
}

/** The error with a readable text; `native/drained/` has the same texts. */
function readable(error: unknown): unknown {
  // A host with several addresses gives one error for each, and this one has no text of its own.
  if (error instanceof AggregateError) return error.errors.at(-1) ?? error;
  // Codes of Node.js' parser (llhttp) begin so.
  return codeOf(error)?.startsWith('HPE_') === true ? new Error(NOT_HTTP) : error;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

function fleetAnswer(status: number, text: string): FleetAnswer {
  if (status === 200 || status === 504) {
    const read = drainedSchema.safeParse(jsonOf(text));
    // A proxy in between has a status 504 of its own.
    if (read.success && read.data.drained === (status === 200)) return { kind: 'answer', answer: read.data };
    return {
      kind: 'none',
      why: `the answer cannot be read (HTTP status ${status}): it is another program, or version`,
    };
  }
  const why = problemIn(text) ?? `HTTP status ${status}`;
  return { kind: status === 400 ? 'wrong' : 'none', why };
}

/** undefined: the text is not JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
