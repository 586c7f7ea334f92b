/** The program of the thread that reads and parses files: a malicious file, or a dead mount, blocks only this thread. */
import { createHash } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import { type FileText, placeAt, Refused, readBounded } from './bounded-file.ts';
import { fileProblem } from './file-problem.ts';
import { readObjects } from './objects.ts';
import type { Answer, Outcome, ParseRequest, Problem, ReadRequest, Request, Value } from './protocol.ts';

/** Values of one message: the agent's event loop is blocked only for so many at a time. */
const BATCH = 100;
/** Problems of one file that are reported; the others are counted. */
const MOST_PROBLEMS = 20;

const port = parentPort;
if (port === null) throw new Error('this file must run as a worker thread');
port.on('message', (request: Request) => {
  const answer = (outcome: Outcome) => port.postMessage({ id: request.id, kind: 'outcome', outcome } satisfies Answer);
  try {
    answer(outcomeOf(request));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    answer({ kind: 'unreadable', cause: error instanceof Refused ? message : fileProblem(error), code });
  }
});

function outcomeOf(request: Request): Outcome {
  if (request.kind === 'list') return placeAt(request.path);
  if (request.kind === 'parse') return parse(request, { text: request.text, stamp: '' });
  const file = readBounded(request);
  return file === undefined ? { kind: 'same' } : parse(request, file);
}

function parse({ id, mayRepeat }: ReadRequest | ParseRequest, { text, stamp }: FileText): Outcome {
  port?.postMessage({ id, kind: 'parsing', stamp } satisfies Answer);
  const problems: Problem[] = [];
  let problemCount = 0;
  let values: Value[] = [];
  const send = () => {
    if (values.length > 0) port?.postMessage({ id, kind: 'values', values } satisfies Answer);
    values = [];
  };
  for (const part of readObjects(text, mayRepeat)) {
    if (part.kind === 'problem') {
      if (++problemCount <= MOST_PROBLEMS) problems.push(part);
    } else {
      values.push(part);
      if (values.length === BATCH) send();
    }
  }
  send();
  const digest = createHash('sha256').update(text).digest('base64');
  return { kind: 'read', stamp, digest, problems, problemCount };
}
