/** A request to the API server and its answer, over either version of HTTP. */
import type { IncomingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';
import type { Readable } from 'node:stream';

export interface Outgoing {
  readonly method: string;
  readonly url: URL;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | number>>;
  /** JSON. */
  readonly body: string | undefined;
  /** Client certificate, token, and how the server is verified. Its `agent`, if set, connects through a proxy. */
  readonly auth: RequestOptions;
  /** Its answer is a stream that lasts for minutes. */
  readonly isWatch: boolean;
  readonly signal: AbortSignal;
}

export interface Incoming {
  readonly status: number;
  /** The reason phrase of HTTP/1.1; HTTP/2 has none. */
  readonly statusText: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
  /** Whether the body is complete; known after it has ended. */
  readonly isWhole: () => boolean;
}

/** The server closed an idle connection just as a request began on it; the request can be sent again. */
export class LostWhileIdle extends Error {}

/** Milliseconds until the kernel probes a quiet connection (TCP keep-alive). */
export const KEEP_ALIVE = 20_000;

/** Milliseconds until the headers of an answer, and between two pieces of the body of a get. */
export const ANSWER_TIMEOUT = 30_000;

/** Awaits `answer`; `onLate` ends the request when it does not settle in time. */
export async function withinTimeout<T>(answer: Promise<T>, onLate: (error: Error) => void): Promise<T> {
  const late = setTimeout(() => onLate(new Error(`no answer within ${ANSWER_TIMEOUT / 1000} s`)), ANSWER_TIMEOUT);
  try {
    return await answer;
  } finally {
    clearTimeout(late);
  }
}
