/**
 * One YAML document ↔ a plain value; no other file uses the YAML library. A text of 500 bytes can expand to
 * gigabytes (aliases of aliases), and a text of a megabyte can take hundreds of megabytes: every cost is bounded in advance.
 */
import { Composer, type Document, isAlias, isMap, isScalar, isSeq, Lexer, Parser, type Scalar, stringify } from 'yaml';

/** Limit of levels of nesting. */
export const MAX_YAML_DEPTH = 100;
/**
 * Limit of tokens of one document, as the lexer counts them. Each costs up to half a kilobyte while it is parsed. An API
 * object is at most 1.5 MB in etcd, which is about 700,000 tokens; an EndpointSlice with 1,000 endpoints has 100,000.
 */
export const MAX_TOKENS = 400_000;
/** Limit of characters and values that aliases and merge keys may add to the text. */
export const MAX_ADDED = 1_000_000;
const SYNTAX = 'not valid YAML or JSON';
/** Limit of reported repeated keys. */
const MAX_REPEATED = 20;

/** A problem of a text; line and column count from 1. */
export class BadDocument extends Error {
  readonly line: number;
  readonly column: number;

  constructor(reason: string, line: number, column: number) {
    super(reason);
    this.line = line;
    this.column = column;
  }
}

/** A key that appears twice in a mapping; its last value counts. */
export interface Repeated {
  readonly key: string;
  readonly line: number;
  readonly column: number;
}

export interface YamlValue {
  /** undefined when the text holds only comments. */
  readonly value: unknown;
  readonly repeated: readonly Repeated[];
}

/** Throws BadDocument. */
export function parseYaml(text: string): YamlValue {
  const document = compose(text);
  if (document === undefined) return { value: undefined, repeated: [] };
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined) throw at(text, problem.pos[0], `${SYNTAX}: ${firstLine(problem.message)}`);
  return new YamlConversion(text).whole(document);
}

/** A value as YAML, for people. */
export function yamlText(value: unknown): string {
  // Lines are not folded, so that a text in the file can be searched for.
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}

/** The syntax tree of the text's only document; undefined when the text has none. */
function compose(text: string): Document.Parsed | undefined {
  const parser = new Parser();
  // The library's own check for repeated keys takes quadratic time.
  const composer = new Composer({ uniqueKeys: false, prettyErrors: false, schema: 'core' });
  const documents: Document.Parsed[] = [];
  let tokens = 0;
  for (const token of new Lexer().lex(text)) {
    if (++tokens > MAX_TOKENS)
      throw at(text, parser.offset, `the document has more than ${MAX_TOKENS} tokens up to here`);
    for (const part of parser.next(token)) documents.push(...composer.next(part));
    // The document itself and a scalar are on the stack, too.
    if (parser.stack.length > MAX_YAML_DEPTH + 2)
      throw at(text, parser.offset, `more than ${MAX_YAML_DEPTH} levels deep`);
  }
  for (const part of parser.end()) documents.push(...composer.next(part));
  documents.push(...composer.end());
  const [first, second] = documents;
  if (second !== undefined)
    throw at(text, second.range[0], `${SYNTAX}: a second document begins here; separate documents with a line of ---`);
  return first;
}

/** A value with its size when all aliases are expanded. */
interface Sized {
  readonly value: unknown;
  readonly size: number;
}

/**
 * Converts the syntax tree to values. The library's own conversion does not count copies by merge keys (`<<`) towards its limit on aliases,
 * and walks through the whole document for each alias.
 */
class YamlConversion {
  readonly #text: string;
  readonly #anchors = new Map<string, Sized>();
  readonly #repeated: Repeated[] = [];
  #added = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(document: Document.Parsed): YamlValue {
    const { value } = this.#read(document.contents);
    return { value, repeated: this.#repeated };
  }

  #read(node: unknown): Sized {
    if (isAlias(node)) return this.#alias(node.source, node.range?.[0] ?? 0);
    if (!isScalar(node) && !isMap(node) && !isSeq(node)) return { value: null, size: 1 };
    const read = isScalar(node) ? scalar(node) : isSeq(node) ? this.#list(node.items) : this.#map(node.items);
    // The anchor is set after its content, so that no value contains itself.
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, read);
    return read;
  }

  #alias(name: string, offset: number): Sized {
    const target = this.#anchors.get(name);
    if (target === undefined)
      throw at(this.#text, offset, `${SYNTAX}: the alias *${name} has no anchor &${name} before it`);
    this.#add(target.size, offset);
    return target;
  }

  #add(size: number, offset: number): void {
    this.#added += size;
    if (this.#added <= MAX_ADDED) return;
    throw at(this.#text, offset, `aliases and merge keys up to here expand to more than ${MAX_ADDED} characters`);
  }

  #list(items: readonly unknown[]): Sized {
    let size = 1;
    const value = items.map((item) => {
      const read = this.#read(item);
      size += read.size;
      return read.value;
    });
    return { value, size };
  }

  #map(pairs: readonly { readonly key: unknown; readonly value: unknown }[]): Sized {
    const value: Record<string, unknown> = {};
    const merged: Record<string, unknown>[] = [];
    let size = 1;
    for (const pair of pairs) {
      const key = this.#key(pair.key);
      const read = this.#read(pair.value);
      size += read.size + key.length;
      const offset = offsetOf(pair.key);
      if (key === '<<' && isPlain(pair.key)) merged.push(...this.#mergeable(read.value, offset));
      else {
        if (Object.hasOwn(value, key)) this.#repeats(key, offset);
        define(value, key, read.value);
      }
    }
    for (const source of merged) {
      for (const key of Object.keys(source)) if (!Object.hasOwn(value, key)) define(value, key, source[key]);
    }
    return { value, size };
  }

  #repeats(key: string, offset: number): void {
    if (this.#repeated.length < MAX_REPEATED) this.#repeated.push({ key, ...placeOf(this.#text, offset) });
  }

  #key(node: unknown): string {
    const { value } = this.#read(node);
    if (typeof value === 'object' && value !== null)
      throw at(this.#text, offsetOf(node), `${SYNTAX}: a key must be a string, not a mapping or a list`);
    return String(value);
  }

  /** The mappings that a merge key names: one, or a list (yaml.org/type/merge.html). Their keys are copied, and count towards the limit. */
  #mergeable(value: unknown, offset: number): Record<string, unknown>[] {
    const sources = Array.isArray(value) ? value : [value];
    for (const source of sources) {
      if (typeof source !== 'object' || source === null || Array.isArray(source))
        throw at(this.#text, offset, `${SYNTAX}: a merge key (<<) must name a mapping, or a list of mappings`);
      this.#add(Object.keys(source).length, offset);
    }
    return sources as Record<string, unknown>[];
  }
}

function scalar({ value }: Scalar): Sized {
  return { value, size: typeof value === 'string' ? value.length + 1 : 1 };
}

function isPlain(key: unknown): boolean {
  return isScalar(key) && key.type === 'PLAIN';
}

/** `__proto__` is an ordinary key in a file. */
function define(into: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__')
    Object.defineProperty(into, key, { value, enumerable: true, writable: true, configurable: true });
  else into[key] = value;
}

function offsetOf(node: unknown): number {
  return (node as { range?: readonly number[] | null } | null)?.range?.[0] ?? 0;
}

function at(text: string, offset: number, reason: string): BadDocument {
  const { line, column } = placeOf(text, offset);
  return new BadDocument(reason, line, column);
}

function placeOf(text: string, offset: number): { line: number; column: number } {
  let line = 1;
  let start = 0;
  for (let end = text.indexOf('\n'); end >= 0 && end < offset; end = text.indexOf('\n', start)) {
    line++;
    start = end + 1;
  }
  return { line, column: offset - start + 1 };
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
