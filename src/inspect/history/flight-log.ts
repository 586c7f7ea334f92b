/** The lines of the flight recorder in bounded memory, and since when nothing is missing from them. */
import { BlockLog, type Marked } from './bounded-log.ts';
import type { LogRecord } from './records.ts';

/** Facts of a block. */
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

  /** `most`: bytes. `startedAt`: milliseconds since 1970. */
  constructor(most: number, startedAt: number) {
    this.#log = new BlockLog<Mark>(most, () => ({ last: this.#last, wholeSince: undefined }));
    this.#startedAt = startedAt;
  }

  /** Bytes that are held. */
  get bytes(): number {
    return this.#log.bytes;
  }

  /** Milliseconds since 1970: from then on it is known what was in the kernel. */
  get reachesBackTo(): number {
    return this.#log.marks.find(({ wholeSince }) => wholeSince !== undefined)?.wholeSince ?? this.#startedAt;
  }

  /** The same, of so many blocks at the end. */
  reachWithin(blocks: number): number {
    const known = this.#log.marks.slice(-blocks).find(({ wholeSince }) => wholeSince !== undefined);
    return known?.wholeSince ?? this.reachesBackTo;
  }

  /** Blocks of lines (`LogRecord`), the newest first. */
  get blocks(): readonly Marked<object>[] {
    return this.#log.blocks();
  }

  /** From this moment on nothing is missing, although no sync says so: milliseconds since 1970. */
  begin(at: number): void {
    const mark = this.#log.marks.at(-1);
    if (mark !== undefined) mark.wholeSince = at;
  }

  append(record: LogRecord): void {
    if (record.type !== 'sync') this.#last = record.number;
    // What another source listed cannot be undone.
    if (record.type === 'lists') for (const mark of this.#log.marks) mark.wholeSince = undefined;
    const mark = this.#log.append(JSON.stringify(record));
    if (record.type === 'sync' && record.hasWritten && record.oldest > mark.last) mark.wholeSince ??= record.endedAt;
  }
}
