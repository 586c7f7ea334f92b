/**
 * A text → its Kubernetes objects. The text has documents in YAML (several, between lines of ---) or JSON, and a list is split into its
 * items. A broken document does not affect the others.
 */
import { createHash } from 'node:crypto';
import { BadDocument, parseYaml, type Repeated, type YamlValue } from './yaml.ts';

export type DocumentPart =
  | {
      readonly kind: 'value';
      readonly value: unknown;
      /** Line of the file, from 1. */
      readonly line: number;
      readonly repeated: readonly Repeated[];
    }
  | { readonly kind: 'problem'; readonly reason: string; readonly line: number; readonly column: number };

export type Value = Extract<DocumentPart, { kind: 'value' }>;
export type Problem = Omit<Extract<DocumentPart, { kind: 'problem' }>, 'kind'>;

export interface ParsedFile {
  readonly kind: 'read';
  readonly stamp: string;
  /** SHA-256 of the text. */
  readonly digest: string;
  /** The first problems; `problemCount` is the number of all. */
  readonly problems: readonly Problem[];
  readonly problemCount: number;
}

/** Values of one message. Their number bounds how long the agent's event loop is blocked. */
const BATCH = 100;
/** Limit of reported problems of one file; further ones are counted. */
const MAX_PROBLEMS = 20;

interface TextInput {
  readonly text: string;
  readonly stamp: string;
  /** Whether keys may be repeated; then the last value counts. */
  readonly mayRepeat: boolean;
}

/** Parses a text; `send` gets batches of its objects, in the order of the text. Never throws. */
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

/** Limit of values in one object: an EndpointSlice of the largest size, 1,000 endpoints, has 20,000. */
export const MAX_VALUES = 100_000;

/** Objects and problems of a text. A repeated key is a problem, unless `mayRepeat`; then its last value counts, and the part lists the key. Never throws. */
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

function holdsMore(value: unknown, limit: number): boolean {
  const left: unknown[] = [value];
  let count = 0;
  for (let one = left.pop(); one !== undefined; one = left.pop()) {
    if (++count > limit) return true;
    if (typeof one !== 'object' || one === null) continue;
    const inner = Object.values(one);
    if (count + inner.length > limit) return true;
    left.push(...inner);
  }
  return false;
}

/** Items of a ServiceList carry no kind of their own. */
function withKind(item: unknown, kind: string, list: unknown): unknown {
  if (kind === '' || typeof item !== 'object' || item === null || 'kind' in item) return item;
  return { kind, apiVersion: (list as { apiVersion?: unknown }).apiVersion, ...item };
}

/** Limit of documents of one text. */
export const MAX_DOCUMENTS = 100_000;
/** Limit of levels of JSON. The engine's parser has none of its own, and code that walks through values is recursive. */
export const MAX_JSON_DEPTH = 100;

/** Documents in the order of the text; documents with only comments are skipped. Never throws. */
export function* readParts(text: string): Generator<DocumentPart> {
  let count = 0;
  for (const { body, firstLine } of splitDocuments(text)) {
    if (++count > MAX_DOCUMENTS) {
      const reason = `the file has more than ${MAX_DOCUMENTS} documents; the rest is not read`;
      yield { kind: 'problem', reason, line: firstLine, column: 1 };
      return;
    }
    yield* readDocument(body, firstLine);
  }
}

function* readDocument(body: string, firstLine: number): Generator<DocumentPart> {
  const start = body.trimStart();
  if (start === '') return;
  try {
    const json = start.startsWith('{') || start.startsWith('[') ? readJson(body) : undefined;
    if (json === undefined) yield* readYaml(body, firstLine);
    else yield { kind: 'value', ...json, line: firstLine, repeated: [] };
  } catch (error) {
    yield problemOf(error, firstLine);
  }
}

/** JSON.parse is many times faster than a YAML parser; a text that it refuses may still be YAML in flow style. */
function readJson(body: string): { readonly value: unknown } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return undefined;
  }
  mustBeShallow(body);
  return { value };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/** Throws BadDocument when the JSON has too many levels. */
function mustBeShallow(body: string): void {
  let depth = 0;
  let isText = false;
  for (let i = 0; i < body.length; i++) {
    const code = body.charCodeAt(i);
    if (code === QUOTE) isText = !isText;
    else if (isText && code === BACKSLASH) i++;
    else if (!isText && OPENING.has(code)) depth++;
    else if (!isText && CLOSING.has(code)) depth--;
    if (depth <= MAX_JSON_DEPTH) continue;
    const before = body.slice(0, i).split('\n');
    throw new BadDocument(`more than ${MAX_JSON_DEPTH} levels deep`, before.length, (before.at(-1)?.length ?? 0) + 1);
  }
}

function* readYaml(body: string, firstLine: number): Generator<DocumentPart> {
  const { value, repeated } = readList(body) ?? parseYaml(body);
  if (value === undefined) return;
  yield { kind: 'value', value, line: firstLine, repeated: repeated.map((one) => below(one, firstLine - 1)) };
}

interface ListText {
  /** The text around the items. */
  readonly frame: string;
  readonly items: readonly { readonly text: string; readonly lines: number }[];
}

/**
 * Splits a list as `kubectl get -o yaml` writes it into its items. The syntax tree of the whole list would need a gigabyte for 10,000
 * Services, whose text has 12 MB. A line that begins with `- ` at the column of the items begins an item: everything that spans several
 * lines within an item (texts, block scalars) is indented further (YAML 1.2.2, 6.1 and 8.2.1).
 */
function splitList(body: string): ListText | undefined {
  const items = /^items:[ \t]*\r?\n( *)(?=- )/m.exec(body);
  if (items === null || /^(?:%|---|\.\.\.)/m.test(body)) return undefined;
  const indent = items[1] ?? '';
  const first = items.index + items[0].length - indent.length;
  const lines = body.slice(first).split('\n');
  const isItem = (line: string) => line.startsWith(`${indent}- `);
  const isOutside = (line: string) => !isItem(line) && !line.startsWith(`${indent} `) && !/^\s*(?:#|$)/.test(line);
  const found = lines.findIndex(isOutside);
  const end = found < 0 ? lines.length : found;
  const starts = lines.flatMap((line, i) => (i < end && isItem(line) ? [i] : []));
  const firstLine = body.slice(0, first).split('\n').length - 1;
  return {
    frame: body.slice(0, items.index) + lines.slice(end).join('\n'),
    items: starts.map((start, i) => ({
      text: lines.slice(start, starts[i + 1] ?? end).join('\n'),
      lines: firstLine + start,
    })),
  };
}

/** undefined when the text is no such list, or when its items may depend on each other by an anchor and its alias. */
function readList(body: string): YamlValue | undefined {
  const list = splitList(body);
  if (list === undefined || /[&*]\w/.test(body)) return undefined;
  const frame = parseFrame(list.frame);
  if (frame === undefined) return undefined;
  const values: unknown[] = [];
  const repeated: Repeated[] = [];
  for (const { text, lines } of list.items) {
    const read = parseItem(text, lines);
    if (!Array.isArray(read.value)) return undefined;
    values.push(...read.value);
    repeated.push(...read.repeated.map((one) => below(one, lines)));
  }
  return { value: { ...frame, items: values }, repeated };
}

function parseFrame(text: string): object | undefined {
  try {
    const { value, repeated } = parseYaml(text);
    return typeof value === 'object' && value !== null && repeated.length === 0 ? value : undefined;
  } catch (error) {
    // The error is reported with its line when the whole text is parsed.
    if (error instanceof BadDocument) return undefined;
    throw error;
  }
}

function parseItem(text: string, lines: number): YamlValue {
  try {
    return parseYaml(text);
  } catch (error) {
    if (error instanceof BadDocument) throw new BadDocument(error.message, lines + error.line, error.column);
    throw error;
  }
}

function below({ key, line, column }: Repeated, lines: number): Repeated {
  return { key, line: lines + line, column };
}

function problemOf(error: unknown, firstLine: number): DocumentPart {
  if (error instanceof BadDocument)
    return { kind: 'problem', reason: error.message, line: firstLine + error.line - 1, column: error.column };
  throw error;
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
