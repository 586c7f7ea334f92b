/** The program of the thread that reads and parses files. A malicious file, or a dead mount, blocks only this thread. */
import { parentPort } from 'node:worker_threads';
import { type FileText, listPath, RefusedPath, readBounded } from './bounded-file.ts';
import { parsedText } from './documents.ts';
import {
  type FileOutcome,
  fileProblem,
  type ParseRequest,
  type ReadRequest,
  type ThreadAnswer,
  type ThreadReady,
  type ThreadRequest,
} from './protocol.ts';

const port = parentPort;
if (port === null) throw new Error('this file must run as a worker thread');
port.on('message', (request: ThreadRequest) => {
  const reply = (outcome: FileOutcome) =>
    port.postMessage({ id: request.id, kind: 'outcome', outcome } satisfies ThreadAnswer);
  try {
    reply(outcomeOf(request));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isRefused = error instanceof RefusedPath;
    reply({ kind: 'unreadable', cause: isRefused ? message : fileProblem(error), code, isRefused });
  }
});
port.postMessage({ kind: 'ready' } satisfies ThreadReady);

function outcomeOf(request: ThreadRequest): FileOutcome {
  if (request.kind === 'list') return listPath(request.path);
  if (request.kind === 'parse') return parse(request, { text: request.text, stamp: '' });
  const file = readBounded(request);
  return file === undefined ? { kind: 'same' } : parse(request, file);
}

function parse({ id, mayRepeat }: ReadRequest | ParseRequest, { text, stamp }: FileText): FileOutcome {
  port?.postMessage({ id, kind: 'parsing', stamp } satisfies ThreadAnswer);
  return parsedText({ text, stamp, mayRepeat }, (values) => {
    port?.postMessage({ id, kind: 'values', values } satisfies ThreadAnswer);
  });
}
