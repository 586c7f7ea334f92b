/** A question that cannot be answered: the sentence that says why. */
import { API_VERSION } from './envelope.ts';

/** In the form of `problemSchema`. */
export function problemOf(message: string) {
  return { apiVersion: API_VERSION, kind: 'Problem', message } as const;
}

/** The question is wrong, or asks for what is not known. The message is for people. */
export class WrongQuestion extends Error {
  readonly code = 'WRONG_QUESTION';
}

/** Codes of errors of parts that import nothing from here: their texts say what is wrong with the question, or with its recording. */
const WRONG: readonly unknown[] = [
  'WRONG_QUESTION',
  'BEFORE_HISTORY',
  'RECORDING_UNREADABLE',
  'DELTA_MISMATCH',
  'TRACE_BUSY',
  'TRACE_UNUSABLE',
];

export function isWrongQuestion(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && WRONG.includes(error.code);
}

/** The question is right, and there is no answer now. The message is for people. */
export class NoAnswer extends Error {
  readonly code = 'NO_ANSWER';
}
