/** The lines of the flight recorder in bounded memory, and the time from which they are complete. */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { LogRecord } from './records.ts';

/** Bytes of a block: compressing one takes 1 to 2 ms, and the lines shrink to about a tenth. */
const BLOCK_BYTES = 128 * 1024;

/** A block, with the facts that its writer keeps of it. */
export interface Marked<M> {
  readonly mark: M;
  /** Its lines, the oldest first. */
  lines(): readonly string[];
}

interface Block<M> {
  bytes: Uint8Array;
  used: number;
  isPacked: boolean;
  readonly mark: M;
}

/**
 * Lines of JSON in blocks, bounded in bytes. A full block is compressed, and the oldest blocks are dropped. The counted bytes are those in
 * memory, because only these buffers hold the lines.
 */
class BlockLog<M> {
  readonly #maxBytes: number;
  readonly #mark: () => M;
  /** The bytes of the block in use: one buffer for all blocks, until each is compressed. */
  readonly #open = new Uint8Array(BLOCK_BYTES);
  #blocks: Block<M>[] = [];
  #held = 0;

  /** `mark` is called when a block begins; its result stays with the block. */
  constructor(maxBytes: number, mark: () => M) {
    this.#maxBytes = maxBytes;
    this.#mark = mark;
  }

  /** Bytes that are held. */
  get bytes(): number {
    return this.#held;
  }

  /** The blocks, the newest first. They stay readable when they are dropped later. */
  blocks(): readonly Marked<M>[] {
    return this.#blocks.map((block) => ({ mark: block.mark, lines: () => linesOf(block) })).reverse();
  }

  /** The marks of the blocks, the oldest first. */
  get marks(): readonly M[] {
    return this.#blocks.map(({ mark }) => mark);
  }

  /** Appends a line, which must not hold a line break. Returns the mark of its block. */
  append(line: string): M {
    const length = Buffer.byteLength(line) + 1;
    let block = this.#blocks.at(-1);
    if (block === undefined || block.isPacked || block.used + length > block.bytes.length) {
      if (block !== undefined) this.#pack(block);
      block = {
        bytes: length > BLOCK_BYTES ? new Uint8Array(length) : this.#open,
        used: 0,
        isPacked: false,
        mark: this.#mark(),
      };
      this.#held += block.bytes.length;
      this.#blocks.push(block);
    }
    Buffer.from(block.bytes.buffer, block.bytes.byteOffset).write(`${line}\n`, block.used);
    block.used += length;
    // At least the block in use stays.
    while (this.#held > this.#maxBytes && this.#blocks.length > 1)
      this.#held -= this.#blocks.shift()?.bytes.length ?? 0;
    return block.mark;
  }

  #pack(block: Block<M>): void {
    this.#held -= block.bytes.length;
    // A copy of its own: the result of zlib may be a view of a larger buffer.
    block.bytes = Uint8Array.from(deflateRawSync(block.bytes.subarray(0, block.used), { level: 3 }));
    block.isPacked = true;
    this.#held += block.bytes.length;
  }
}

function linesOf<M>({ bytes, used, isPacked }: Block<M>): readonly string[] {
  const text = isPacked ? inflateRawSync(bytes).toString() : Buffer.from(bytes.subarray(0, used)).toString();
  return text.split('\n').slice(0, -1);
}

/** Facts of a block of the flight recorder. */
interface Mark {
  /** The number of the last change when it began. */
  readonly last: number;
  /** The end of the first sync in it after which nothing depends on the blocks before. */
  wholeSince: number | undefined;
}

export class FlightLog {
  readonly #log: BlockLog<Mark>;
  readonly #startedAt: number;
  #last = 0;

  /** `startedAt`: milliseconds since 1970. */
  constructor(maxBytes: number, startedAt: number) {
    this.#log = new BlockLog<Mark>(maxBytes, () => ({ last: this.#last, wholeSince: undefined }));
    this.#startedAt = startedAt;
  }

  /** Bytes that are held. */
  get bytes(): number {
    return this.#log.bytes;
  }

  /** Milliseconds since 1970: the kernel's state is known from then on. */
  get reachesBackTo(): number {
    return this.#log.marks.find(({ wholeSince }) => wholeSince !== undefined)?.wholeSince ?? this.#startedAt;
  }

  /** The same for this number of blocks at the end. */
  reachWithin(blocks: number): number {
    const known = this.#log.marks.slice(-blocks).find(({ wholeSince }) => wholeSince !== undefined);
    return known?.wholeSince ?? this.reachesBackTo;
  }

  /** Blocks of lines (`LogRecord`), the newest first. */
  get blocks(): readonly Marked<object>[] {
    return this.#log.blocks();
  }

  /** The lines are complete from this moment on, although no sync shows it: milliseconds since 1970. */
  begin(at: number): void {
    const mark = this.#log.marks.at(-1);
    if (mark !== undefined) mark.wholeSince = at;
  }

  append(record: LogRecord): void {
    if (record.type !== 'sync') this.#last = record.number;
    // The change to the lists of another source cannot be undone.
    if (record.type === 'lists') for (const mark of this.#log.marks) mark.wholeSince = undefined;
    const mark = this.#log.append(JSON.stringify(record));
    if (record.type === 'sync' && record.hasWritten && record.oldest > mark.last) mark.wholeSince ??= record.endedAt;
  }
}
