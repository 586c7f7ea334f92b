/**
 * The bytes of a recording: the line `slicewire-recording 1`, then frames. A frame has the length of its content and the CRC-32 of it,
 * each in four bytes, little-endian; the content is lines of JSON, compressed (RFC 1951).
 */
import { crc32, deflateRawSync, inflateRawSync } from 'node:zlib';

export const FORMAT = 1;
const MAGIC = 'slicewire-recording ';
const HEAD = 8;
const MIN_CHUNK = 256;
const MAX_CHUNK = 16 * 1024;
/** The limits of a frame in bytes, compressed and unpacked: a recording may come from anywhere. */
export const MAX_FRAME_BYTES = 16 * 1024 * 1024;
export const MAX_UNPACKED = 64 * 1024 * 1024;
/** The limit of lines in a frame. A line of a recording has at least 64 bytes. */
export const MAX_LINES = 1_000_000;

/** The bytes are not a recording, or one of another version. */
export class RecordingUnreadable extends Error {
  readonly code = 'RECORDING_UNREADABLE';
}

/** The file ends within its header: its writer was killed at its first write, or the disk was full. */
export class RecordingTorn extends RecordingUnreadable {}

export function headerBytes(): Uint8Array {
  return Buffer.from(`${MAGIC}${FORMAT}\n`);
}

/**
 * Bytes of the buffer that a text is compressed into. Node.js' own size is 16 KiB, which is garbage outside the heap until the next
 * collection: with a frame for each sync it adds up to tens of megabytes that malloc does not return.
 */
function chunkSizeFor(length: number): number {
  return Math.max(MIN_CHUNK, Math.min(MAX_CHUNK, length >> 1));
}

/** A frame with these lines. */
export function frameBytes(lines: readonly string[]): Uint8Array {
  const text = lines.map((line) => `${line}\n`).join('');
  const content = deflateRawSync(text, { chunkSize: chunkSizeFor(text.length) });
  const head = Buffer.alloc(HEAD);
  head.writeUInt32LE(content.length, 0);
  head.writeUInt32LE(crc32(content), 4);
  return Buffer.concat([head, content]);
}

/** Objects in a frame of a recording that is written anew. */
const OBJECTS_AT_ONCE = 200;

/** The bytes of a recording with these lines. Each sync ends a frame. */
export async function* recordingBytes(lines: AsyncIterable<{ readonly type: string }>): AsyncGenerator<Uint8Array> {
  yield headerBytes();
  let frame: string[] = [];
  for await (const line of lines) {
    frame.push(JSON.stringify(line));
    if (frame.length < OBJECTS_AT_ONCE && line.type !== 'sync') continue;
    yield frameBytes(frame);
    frame = [];
  }
  if (frame.length > 0) yield frameBytes(frame);
}

/**
 * The lines of each frame. A frame that is torn or damaged ends the recording, because later changes build upon it; `onProblem` gets
 * a sentence about it. Throws RecordingUnreadable.
 */
export async function* readFrames(
  chunks: AsyncIterable<Uint8Array>,
  onProblem: (text: string) => void,
): AsyncGenerator<readonly string[]> {
  const source = new ByteSource(chunks);
  try {
    yield* framesOf(source, onProblem);
  } finally {
    await source.close();
  }
}

async function* framesOf(source: ByteSource, onProblem: (text: string) => void): AsyncGenerator<readonly string[]> {
  await readHeader(source);
  for (let number = 1; ; number++) {
    const head = await source.take(HEAD);
    if (head.length === 0) return;
    const wanted = head.length < HEAD ? 0 : head.readUInt32LE(0);
    const content = head.length < HEAD || wanted > MAX_FRAME_BYTES ? undefined : await source.take(wanted);
    const lines = content?.length === wanted && crc32(content) === head.readUInt32LE(4) ? unpack(content) : undefined;
    if (lines === undefined) {
      const isTorn = head.length < HEAD || (content !== undefined && content.length < wanted);
      onProblem(
        `frame ${number} of the recording is ${isTorn ? 'incomplete' : 'damaged'}: it and all after it are dropped`,
      );
      return;
    }
    yield lines;
  }
}

async function readHeader(source: ByteSource): Promise<void> {
  const start = (await source.take(MAGIC.length)).toString('latin1');
  if (start.length < MAGIC.length && MAGIC.startsWith(start))
    throw new RecordingTorn('this recording is torn: it ends within its header');
  if (start !== MAGIC)
    throw new RecordingUnreadable(`this is not a recording: it does not begin with "${MAGIC.trim()}"`);
  let version = '';
  let byte = await source.take(1);
  for (; byte.length > 0 && byte[0] !== 10; byte = await source.take(1)) {
    version += byte.toString('latin1');
    if (version.length > 10) break;
  }
  if (byte.length === 0) throw new RecordingTorn('this recording is torn: it ends within its header');
  if (version === String(FORMAT)) return;
  throw new RecordingUnreadable(
    `this recording has version ${JSON.stringify(version)}, and this slicewire reads version ${FORMAT}: use the slicewire that made it`,
  );
}

/** Returns undefined when the content cannot be unpacked, or has too many lines: empty lines would take many times their bytes. */
function unpack(content: Buffer): readonly string[] | undefined {
  try {
    const lines = inflateRawSync(content, { maxOutputLength: MAX_UNPACKED })
      .toString()
      .split('\n', MAX_LINES + 1);
    return lines.length > MAX_LINES ? undefined : lines.slice(0, -1);
  } catch {
    return undefined;
  }
}

/** Bytes that come in chunks of any size. */
class ByteSource {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Nothing more is read. */
  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  /** The next bytes; fewer than `count` at the end. */
  async take(count: number): Promise<Buffer> {
    const parts = [this.#rest];
    let length = this.#rest.length;
    while (length < count) {
      const next = await this.#chunks.next();
      if (next.done === true) break;
      const part = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
      parts.push(part);
      length += part.length;
    }
    const all = parts.length === 1 ? this.#rest : Buffer.concat(parts);
    this.#rest = all.subarray(count);
    return all.subarray(0, count);
  }
}
