/** A question that cannot be answered: the sentence that says why. */
import { z } from 'zod';
import { API_VERSION, answer } from './form.ts';

export const problemSchema = z.object({
  ...answer('Problem'),
  message: z.string().describe('what is wrong with the question, or why there is no answer now'),
});

export type Problem = z.infer<typeof problemSchema>;

export function problemOf(message: string): Problem {
  return { apiVersion: API_VERSION, kind: 'Problem', message };
}

/** The message of a Problem in JSON; undefined when the text is something else. */
export function problemIn(text: string): string | undefined {
  try {
    return problemSchema.parse(JSON.parse(text)).message;
  } catch {
    return undefined;
  }
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
