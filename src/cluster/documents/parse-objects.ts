/** A text → its Kubernetes objects; lists are split into their items. */

import { createHash } from 'node:crypto';
import { type DocumentPart, readParts } from './documents.ts';
import type { ParsedFile, Problem, Value } from './protocol.ts';
import type { Repeated } from './yaml.ts';

/** Most values in one object: an EndpointSlice of the largest size, 1,000 endpoints, has 20,000. */
export const MAX_VALUES = 100_000;

/** Objects and problems of a text. A repeated key is a problem, unless `mayRepeat`: then its last value counts, and the object lists the key. Never throws. */
export function* readObjects(text: string, mayRepeat = false): Generator<DocumentPart> {
  for (const part of readParts(text)) {
    if (part.kind === 'problem') yield part;
    else if (part.repeated[0] !== undefined && !mayRepeat) yield repeatedProblem(part.repeated[0]);
    else if (part.value !== null) yield* objectsOf(part);
  }
}

function repeatedProblem({ key, line, column }: Repeated): DocumentPart {
  return { kind: 'problem', reason: `not valid YAML or JSON: ${repeatedText(key)}`, line, column };
}

export function repeatedText(key: string): string {
  return `the key ${JSON.stringify(key)} appears twice in one mapping`;
}

function* objectsOf(part: DocumentPart & { readonly kind: 'value' }): Generator<DocumentPart> {
  const { value: document, line } = part;
  if (Array.isArray(document) || typeof document !== 'object' || document === null) {
    yield { kind: 'problem', reason: 'a document must be a Kubernetes object', line, column: 1 };
    return;
  }
  const { kind, items } = document as { kind?: unknown; items?: unknown };
  if (typeof kind !== 'string' || !kind.endsWith('List') || !Array.isArray(items)) {
    yield bounded(part);
    return;
  }
  const itemKind = kind.slice(0, -'List'.length);
  for (const item of items) yield bounded({ ...part, value: withKind(item, itemKind, document) });
}

/** Refuses an object with so many values that walking through them would take seconds. */
function bounded(part: DocumentPart & { readonly kind: 'value' }): DocumentPart {
  if (!holdsMore(part.value, MAX_VALUES)) return part;
  const reason = `an object holds more than ${MAX_VALUES} values`;
  return { kind: 'problem', reason, line: part.line, column: 1 };
}

function holdsMore(value: unknown, most: number): boolean {
  const left: unknown[] = [value];
  let count = 0;
  for (let one = left.pop(); one !== undefined; one = left.pop()) {
    if (++count > most) return true;
    if (typeof one !== 'object' || one === null) continue;
    const inner = Object.values(one);
    if (count + inner.length > most) return true;
    left.push(...inner);
  }
  return false;
}

/** Items of a ServiceList carry no kind of their own. */
function withKind(item: unknown, kind: string, list: unknown): unknown {
  if (kind === '' || typeof item !== 'object' || item === null || 'kind' in item) return item;
  return { kind, apiVersion: (list as { apiVersion?: unknown }).apiVersion, ...item };
}

// What is told of a text once it is parsed: its objects in batches, then its problems.

/** Values of one message: the agent's event loop is blocked only for so many at a time. */
const BATCH = 100;
/** Problems of one file that are reported; the others are counted. */
const MAX_PROBLEMS = 20;

interface TextInput {
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
