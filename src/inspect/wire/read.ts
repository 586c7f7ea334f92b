/** Reads answers that came over HTTP. */

import type { ZodType } from 'zod';
import * as z from 'zod';
import { API_VERSION, NoAnswer } from './envelope.ts';
import { answer } from './schema-common.ts';

/** The form of an answer, from its file here. */
export type AnswerSchema<T> = ZodType<T>;

/** Throws NoAnswer when the text has another form, or is of another version. */
export function readAnswer<T>(text: string, schema: AnswerSchema<T>): T {
  const object = jsonOf(text);
  const { apiVersion } = (object ?? {}) as { readonly apiVersion?: unknown };
  if (typeof apiVersion === 'string' && apiVersion !== API_VERSION) {
    throw new NoAnswer(
      `the agent answers in ${apiVersion}, and this command reads ${API_VERSION}: use the slicewire of the agent's version`,
    );
  }
  const read = schema.safeParse(object);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const at =
    issue === undefined || issue.path.length === 0
      ? 'it is no answer to this query'
      : `${issue.path.join('.')} is not as expected`;
  throw new NoAnswer(`the answer of the agent cannot be read: ${at}; use the slicewire of the agent's version`);
}

/** undefined when the text is not JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Parameters of a query over HTTP; those without a value are left out. */
export function searchParams(parameters: Readonly<Record<string, string | undefined>>): URLSearchParams {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) params.set(name, value);
  return params;
}

/** The text of an answer. Throws NoAnswer when it is larger than `maxBytes`, and the errors of the pieces. */
export async function answerText(pieces: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
  const read: Buffer[] = [];
  let size = 0;
  for await (const piece of pieces) {
    size += piece.length;
    if (size > maxBytes) throw new NoAnswer(`the answer is larger than ${maxBytes} bytes`);
    read.push(piece);
  }
  return Buffer.concat(read).toString();
}

/** Why a query has no answer. */
export const problemSchema = z.object({
  ...answer('Problem'),
  message: z.string().describe('the mistake in the query, or why there is no answer now'),
});

/** The message of a Problem in JSON; undefined when the text is something else. */
export function problemIn(text: string): string | undefined {
  try {
    return problemSchema.parse(JSON.parse(text)).message;
  } catch {
    return undefined;
  }
}
