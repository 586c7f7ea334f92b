/** The beginning of every answer, and the answer to a query that has none. Without schemas, which an agent loads with its first query. */

export const API_VERSION = 'slicewire/v1';

/** A moment of an answer, from milliseconds since 1970. */
export function momentOf(wall: number): string {
  return new Date(wall).toISOString();
}

/** The answer to a query that has none: why, in the form of `problemSchema`. */
export function problemOf(message: string) {
  return { apiVersion: API_VERSION, kind: 'Problem', message } as const;
}

/** The query is wrong, or asks for what is not known. The message is for people. */
export class WrongQuestion extends Error {
  readonly code = 'WRONG_QUESTION';
}

/** Codes of errors whose messages are answers: of wrong queries and unusable recordings, in parts that import nothing from here. */
const ANSWERED_CODES: readonly unknown[] = [
  'WRONG_QUESTION',
  'BEFORE_HISTORY',
  'RECORDING_UNREADABLE',
  'DELTA_MISMATCH',
  'TRACE_BUSY',
  'TRACE_UNUSABLE',
];

export function isWrongQuestion(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && ANSWERED_CODES.includes(error.code);
}

/** The query is right, and there is no answer now. The message is for people. */
export class NoAnswer extends Error {
  readonly code = 'NO_ANSWER';
}
