/** The text of a manifest → its objects. One broken document does not spoil its neighbours. */
import { loadAll } from 'js-yaml';
import type { Fault } from '../../model/objects.ts';
import { FaultList } from '../faults.ts';

/** A document that was read, with `List` kinds taken apart. */
export interface Documents {
  readonly objects: readonly unknown[];
  readonly faults: readonly Fault[];
}

/** Parse YAML (several documents) or JSON. `file` names it in faults. Never throws. */
export function readDocuments(text: string, file: string): Documents {
  const faults = new FaultList('file', file);
  const objects: unknown[] = [];
  for (const { body, firstLine } of splitDocuments(text)) {
    try {
      const document = parseDocument(body);
      if (document !== undefined && document !== null) addObjects(document, objects, { faults, firstLine });
    } catch (error) {
      faults.setAside(`line ${firstLine + errorLine(error)}`, '', errorReason(error));
    }
  }
  return { objects, faults: faults.list };
}

function parseDocument(body: string): unknown {
  const start = body.trimStart();
  // JSON.parse is many times faster than a YAML parser; what it refuses may still be YAML in flow style.
  if (start.startsWith('{') || start.startsWith('[')) {
    try {
      return JSON.parse(body);
    } catch {
      return loadAll(body)[0];
    }
  }
  // Nothing but comments is no document, where load() would see an error.
  return start === '' ? undefined : loadAll(body)[0];
}

function* splitDocuments(text: string): Generator<{ body: string; firstLine: number }> {
  const marker = /^---(?:[ \t].*)?$/gm;
  let start = 0;
  let firstLine = 1;
  for (const match of text.matchAll(marker)) {
    const body = text.slice(start, match.index);
    yield { body, firstLine };
    firstLine += body.split('\n').length - 1;
    start = match.index + 3;
  }
  yield { body: text.slice(start), firstLine };
}

function addObjects(document: unknown, objects: unknown[], at: { faults: FaultList; firstLine: number }): void {
  if (Array.isArray(document) || typeof document !== 'object' || document === null) {
    at.faults.setAside(`line ${at.firstLine}`, '', 'a document must be a Kubernetes object');
    return;
  }
  const { kind, items } = document as { kind?: unknown; items?: unknown };
  if (typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items)) {
    const itemKind = kind.slice(0, -'List'.length);
    for (const item of items) objects.push(withKind(item, itemKind, document));
  } else objects.push(document);
}

/** Items of a ServiceList carry no kind of their own. */
function withKind(item: unknown, kind: string, list: unknown): unknown {
  if (kind === '' || typeof item !== 'object' || item === null || 'kind' in item) return item;
  return { kind, apiVersion: (list as { apiVersion?: unknown }).apiVersion, ...item };
}

/** Lines before the error in its document; js-yaml counts from 0. */
function errorLine(error: unknown): number {
  const { mark } = (error ?? {}) as { mark?: { line?: number } };
  return mark?.line ?? 0;
}

function errorReason(error: unknown): string {
  const { reason, message } = (error ?? {}) as { reason?: string; message?: string };
  return `not valid YAML or JSON: ${reason ?? message?.split('\n')[0] ?? String(error)}`;
}
