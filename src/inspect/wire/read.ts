/** Reads an answer that came as text. */
import type { ZodType } from 'zod';
import { API_VERSION } from './envelope.ts';
import { NoAnswer } from './problem.ts';

/** The form of an answer, from its file here. */
export type AnswerSchema<T> = ZodType<T>;

/** Throws NoAnswer when it is no answer of this form, or of another version. */
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
      ? 'it is no answer to this question'
      : `${issue.path.join('.')} is not as expected`;
  throw new NoAnswer(`the answer of the agent cannot be read: ${at}; use the slicewire of the agent's version`);
}

/** undefined: the text is not JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
