/** The form of a Problem: the sentence that says why a question has no answer. */
import * as z from 'zod';
import { answer } from './schema-common.ts';

export const problemSchema = z.object({
  ...answer('Problem'),
  message: z.string().describe('what is wrong with the question, or why there is no answer now'),
});

/** The message of a Problem in JSON; undefined when the text is something else. */
export function problemIn(text: string): string | undefined {
  try {
    return problemSchema.parse(JSON.parse(text)).message;
  } catch {
    return undefined;
  }
}
