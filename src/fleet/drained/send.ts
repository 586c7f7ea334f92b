/** One question to the fleet over HTTP. */
import { readFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { drainedSchema } from '../../inspect/wire/drained.ts';
import { answerText, problemIn, searchParams } from '../../inspect/wire/read.ts';
import type { FleetAnswer, Send } from './ask-fleet.ts';
import type { DrainQuestion } from './drain-question.ts';

/** Bytes of an answer. */
const MAX_ANSWER_BYTES = 1 << 20;
/** Milliseconds of silence until TCP asks whether the other machine is still there (tcp(7), TCP_KEEPIDLE). */
const KEEP_ALIVE = 5000;
const CUT_OFF = 'the connection ended within the answer';
const NOT_HTTP = 'the answer is not HTTP/1.1';

/** On a connection of its own. Rejects where it fails, where the answer is cut off, and with the reason of the signal. */
export const sendToFleet: Send = async (question, wait, signal) => {
  const response = await responseTo(question, wait, signal);
  const text = await answerText(response, MAX_ANSWER_BYTES).catch((error: unknown) => {
    signal.throwIfAborted();
    throw codeOf(error) === 'ECONNRESET' ? new Error(CUT_OFF) : understood(error);
  });
  if (!response.complete) throw new Error(CUT_OFF);
  return said(response.statusCode ?? 0, text);
};

async function responseTo(question: DrainQuestion, wait: number, signal: AbortSignal): Promise<IncomingMessage> {
  const { of, fleet, tokenFile } = question;
  // Read anew each time: the kubelet writes another token before this one expires.
  const token = tokenFile === undefined ? undefined : (await readFile(tokenFile, 'utf8')).trim();
  const url = new URL(`/drained?${searchParams({ ...of, timeout: `${Math.ceil(wait)}ms` })}`, fleet);
  const headers = { connection: 'close', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
  return await new Promise((resolve, reject) => {
    request(url, { agent: false, headers, signal })
      .on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE))
      .on('response', resolve)
      // A change of the protocol, which nobody asked for.
      .on('upgrade', (_response, socket) => {
        socket.destroy();
        reject(new Error(NOT_HTTP));
      })
      .on('error', (error) => reject(understood(error)))
      .end();
  });
}

/** The error with a text for people; `native/drained/` has the same texts. */
function understood(error: unknown): unknown {
  // Of a host with several addresses: one error for each. It has no text of its own.
  if (error instanceof AggregateError) return error.errors.at(-1) ?? error;
  // Of Node.js' parser (llhttp).
  return codeOf(error)?.startsWith('HPE_') === true ? new Error(NOT_HTTP) : error;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** What a status and a body mean. */
function said(status: number, text: string): FleetAnswer {
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
