/** What is told of a text once it is parsed: its objects in batches, then its problems. */
import { createHash } from 'node:crypto';
import { readObjects } from './parse-objects.ts';
import type { ParsedFile, Problem, Value } from './protocol.ts';

/** Values of one message: the agent's event loop is blocked only for so many at a time. */
const BATCH = 100;
/** Problems of one file that are reported; the others are counted. */
const MAX_PROBLEMS = 20;

export interface TextInput {
  readonly text: string;
  readonly stamp: string;
  /** Repeated keys are no problem. */
  readonly mayRepeat: boolean;
}

/** `send` gets the objects in the order of the text. Never throws. */
export function parsedText(
  { text, stamp, mayRepeat }: TextInput,
  send: (values: readonly Value[]) => void,
): ParsedFile {
  const problems: Problem[] = [];
  let problemCount = 0;
  let values: Value[] = [];
  const sendAll = () => {
    if (values.length > 0) send(values);
    values = [];
  };
  for (const part of readObjects(text, mayRepeat)) {
    if (part.kind === 'problem') {
      if (++problemCount <= MAX_PROBLEMS) problems.push(part);
    } else {
      values.push(part);
      if (values.length === BATCH) sendAll();
    }
  }
  sendAll();
  const digest = createHash('sha256').update(text).digest('base64');
  return { kind: 'read', stamp, digest, problems, problemCount };
}
