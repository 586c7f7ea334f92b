/** A request to the API server and its answer, whatever version of HTTP carries them. */
import type { IncomingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';
import type { Readable } from 'node:stream';

export interface Outgoing {
  readonly method: string;
  readonly url: URL;
  /** By their names in small letters. */
  readonly headers: Readonly<Record<string, string | number>>;
  /** JSON. */
  readonly body: string | undefined;
  /** What authenticates the request and verifies the server; an agent in it leads through a proxy. */
  readonly auth: RequestOptions;
  /** The answer goes on for minutes. */
  readonly isWatch: boolean;
  readonly signal: AbortSignal;
}

export interface Incoming {
  readonly status: number;
  /** What HTTP/1.1 says of the status; HTTP/2 has no such text. */
  readonly statusText: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readable;
  /** Once the body has ended: it was not broken off. */
  readonly isWhole: () => boolean;
}

/** The server closed a connection that was used before, just as it was used again: nothing came of the request. */
export class LostWhileIdle extends Error {}

/** Milliseconds until the kernel begins to probe a quiet connection (TCP keep-alive). */
export const KEEP_ALIVE = 20_000;

/** Milliseconds for an answer's headers, and between two pieces of an answer to a get. */
export const ANSWER_TIMEOUT = 30_000;

/** Rejects when `answer` does not settle in time; `onLate` ends what is under way. */
export async function withinTimeout<T>(answer: Promise<T>, onLate: (error: Error) => void): Promise<T> {
  const late = setTimeout(() => onLate(new Error(`no answer within ${ANSWER_TIMEOUT / 1000} s`)), ANSWER_TIMEOUT);
  try {
    return await answer;
  } finally {
    clearTimeout(late);
  }
}
