/** A text → its Kubernetes objects; lists are split into their items. */
import { type DocumentPart, readParts } from './documents.ts';
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
