/**
 * Protobuf on the wire: the types that the answers of an API server have, which are numbers, and fields with a length (protobuf.dev,
 * «Encoding»). Unread fields are skipped by their length.
 */
import { PbfReader } from 'pbf';

/** The answer is not of its content type, or is cut off. */
export class ProtobufUnreadable extends Error {}

/** Wraps the library's errors, which are plain ones: a number that does not end, an unknown wire type. Others stay as they are. */
export function asUnreadable(error: unknown): unknown {
  const isPlain = error instanceof Error && error.constructor === Error;
  return isPlain ? new ProtobufUnreadable(error.message) : error;
}

/** Throws ProtobufUnreadable for an error of the library. */
export function orUnreadable<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw asUnreadable(error);
  }
}

/** Wire types. */
const VARINT = 0;
const WITH_LENGTH = 2;

export class WireReader extends PbfReader {
  readonly #bytes: Buffer;
  constructor(bytes: Buffer) {
    super(bytes);
    this.#bytes = bytes;
  }

  #mustBe(type: number): void {
    if (this.type !== type) throw new ProtobufUnreadable('a field has the wrong wire type');
  }

  /** Reads the length of the next value; returns its end. */
  end(): number {
    this.#mustBe(WITH_LENGTH);
    const end = this.readVarint() + this.pos;
    if (end <= this.length) return end;
    throw new ProtobufUnreadable('it is cut off');
  }

  text(): string {
    const end = this.end();
    const text = this.#bytes.toString('utf8', this.pos, end);
    this.pos = end;
    return text;
  }

  /** The next text, as one shared string for equal texts. */
  common(): string {
    const end = this.end();
    const text = sharedText(this.#bytes, this.pos, end);
    this.pos = end;
    return text;
  }

  /** The next text, shared; undefined for an empty text, which JSON leaves out. */
  commonOrNone(): string | undefined {
    return this.common() || undefined;
  }

  /** The key that equals the next text; undefined for another text, for which no string is made. */
  oneOf(keys: readonly Key[]): string | undefined {
    const end = this.end();
    const start = this.pos;
    this.pos = end;
    for (const { bytes, text } of keys)
      if (bytes.length === end - start && this.#bytes.compare(bytes, 0, bytes.length, start, end) === 0) return text;
    return undefined;
  }

  /** Whether the next bytes, up to `end`, begin with these; if so, they are read. */
  startsWith(beginning: Buffer, end: number): boolean {
    const until = this.pos + beginning.length;
    if (until > end || this.#bytes.compare(beginning, 0, beginning.length, this.pos, until) !== 0) return false;
    this.pos = until;
    return true;
  }

  int(): number {
    this.#mustBe(VARINT);
    return this.readVarint(true);
  }

  bool(): boolean {
    return this.int() !== 0;
  }

  /** Reads a message into an object, field by field; unread fields are skipped. */
  into<T>(object: T, field: (tag: number, object: T, from: WireReader) => void, end = this.end()): T {
    while (this.pos < end) {
      const tag = this.nextField(end);
      if (tag === 0) throw new ProtobufUnreadable('a field has no number');
      const start = this.pos;
      field(tag, object, this);
      if (this.pos === start) this.skip(this.type);
    }
    if (this.pos !== end) throw new ProtobufUnreadable('a field is longer than its message');
    return object;
  }
}

/** A key of a map, compared as bytes, so that no string is made for other keys. */
interface Key {
  readonly text: string;
  readonly bytes: Buffer;
}

export function asKey(text: string): Key {
  return { text, bytes: Buffer.from(text) };
}

/** An entry of a map, while it is read. Entries do not nest, so one is enough. */
const entry = { keys: [] as readonly Key[], key: undefined as string | undefined, value: '', hasKey: false };

function entryField(tag: number, it: typeof entry, from: WireReader): void {
  if (tag === 1) {
    it.key = from.oneOf(it.keys);
    it.hasKey = true;
  } else if (tag === 2) {
    if (!it.hasKey) throw new ProtobufUnreadable('a value comes before its key');
    if (it.key !== undefined) it.value = from.text();
  }
}

/** Adds an entry of a map if its key is one of these. Returns the map; the first entry creates it. */
export function addEntry(
  map: Record<string, string> | undefined,
  keys: readonly Key[],
  from: WireReader,
): Record<string, string> | undefined {
  entry.keys = keys;
  entry.key = undefined;
  entry.value = '';
  entry.hasKey = false;
  from.into(entry, entryField);
  if (entry.key === undefined) return map;
  const all = map ?? {};
  all[entry.key] = entry.value;
  return all;
}

const label = { key: '', value: '' };

function labelField(tag: number, it: typeof label, from: WireReader): void {
  if (tag === 1) it.key = from.common();
  else if (tag === 2) it.value = from.common();
}

/** Adds an entry of a map with any key. Returns the map; the first entry creates it. */
export function addLabel(map: Record<string, string> | undefined, from: WireReader): Record<string, string> {
  label.key = '';
  label.value = '';
  const { key, value } = from.into(label, labelField);
  const all = map ?? {};
  all[key] = value;
  return all;
}

const time = { seconds: undefined as number | undefined };

function timeField(tag: number, it: typeof time, from: WireReader): void {
  if (tag === 1) it.seconds = from.int();
}

/** Seconds since 1970; undefined for an unset time. */
export function seconds(from: WireReader): number | undefined {
  time.seconds = undefined;
  return from.into(time, timeField).seconds;
}

/** The latest time of a Date (ECMA-262, «Time Values and Time Range»). */
const MAX_TIME_MS = 8.64e15;

/** Milliseconds since 1970 of a time in seconds; 0 for an unset or invalid time. */
export function milliseconds(value: number | undefined): number {
  const time = (value ?? 0) * 1000;
  return Math.abs(time) <= MAX_TIME_MS ? time : 0;
}

/** RFC 3339; undefined for an unset or invalid time. */
export function isoTime(from: WireReader): string | undefined {
  const time = milliseconds(seconds(from));
  return time === 0 ? undefined : new Date(time).toISOString();
}

/** The empty list of all messages; `append` makes another one. */
export const NOTHING: never[] = [];

/** Adds a value to a list; use the result. A list of one, the usual case, has no spare room; `[]` with `push` would reserve 17 slots. */
export function append<T>(list: T[], value: T): T[] {
  if (list.length === 0) return [value];
  list.push(value);
  return list;
}

// Shared texts. The names of nodes, namespaces, zones and ports are in very many objects. Each becomes a string once, and is found again
// by its bytes, so that a repeated text costs no memory.

/** Limit of bytes of a shared text: names of the API have at most 63, or 253. */
const MAX_SHARED_BYTES = 253;
/** Size of the table of shared texts; a further text replaces one of them. */
const SHARED_TEXTS = 4096;

const shared: string[] = [];

/** The text of some bytes of UTF-8; equal texts are one string as long as it is in the table. */
function sharedText(from: Buffer, start: number, end: number): string {
  const length = end - start;
  if (length === 0) return '';
  if (length > MAX_SHARED_BYTES) return from.toString('utf8', start, end);
  // The hash is FNV-1a. Of two texts with the same slot the newer one is kept.
  let hash = 0x811c9dc5;
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ (from[at] ?? 0), 0x01000193);
  const slot = (hash ^ (hash >>> 15)) & (SHARED_TEXTS - 1);
  if (shared.length === 0) shared.length = SHARED_TEXTS;
  const found = shared[slot];
  if (found !== undefined && isAscii(found, from, start, length)) return found;
  const text = from.toString('utf8', start, end);
  shared[slot] = text;
  return text;
}

/** Whether the bytes are this text, in ASCII. A text with other characters becomes a new string each time. */
function isAscii(text: string, from: Buffer, start: number, length: number): boolean {
  if (text.length !== length) return false;
  for (let at = 0; at < length; at++) {
    const byte = from[start + at] ?? 0;
    if (byte > 0x7f || byte !== text.charCodeAt(at)) return false;
  }
  return true;
}
