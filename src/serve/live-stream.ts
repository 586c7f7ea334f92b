/**
 * A stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) for any number of readers. The first
 * event of a reader has the whole, each later one what changed since the last one. The cost does not follow the readers: a change is
 * computed and compressed once, and nothing at all while nobody reads.
 */
import { constants, crc32, deflateRawSync } from 'node:zlib';
import type { Clock } from '../base/clock.ts';
import { NoAnswer } from '../inspect/wire/problem.ts';
import { Deadline } from './deadline.ts';
import type { Answer, HttpRequest } from './http.ts';

/** Readers at the same time. */
export const MAX_READERS = 100;
/** Milliseconds between two events, at least. */
export const MIN_PAUSE_MS = 250;
/** Milliseconds from something that happened to its event: most changes are in the kernel then. */
const GATHER = 40;
/** Milliseconds without an event, at most: times in it grow old. Shorter than the silence after which the server ends a connection. */
export const MAX_PAUSE_MS = 5000;
/** Bytes that wait for a reader, at most, beside its first event. */
export const MAX_WAITING_BYTES = 256 * 1024;

export interface LiveSource<T extends object> {
  /** All that is shown, now. */
  whole(): T;
  /** What of it is not as it was. */
  delta(before: T, now: T): object;
  /** Blocks of deflate that end with a full flush; zlib's by default. */
  pack?(text: Buffer): Buffer;
  /** Nobody reads any more. */
  onRest?(): void;
  /** An event could not be made. All readers are ended; they ask again. */
  onThrown(error: unknown): void;
}

/** An event as bytes, in both encodings; it is compressed when the first reader needs it. */
interface LiveEvent {
  readonly plain: Buffer;
  readonly packed: () => Buffer;
}

export class LiveStream<T extends object> {
  readonly #source: LiveSource<T>;
  readonly #clock: Pick<Clock, 'now' | 'after'>;
  readonly #readers = new Set<LiveReader>();
  /** After 1 s a browser asks again. */
  readonly #opening: LiveEvent;
  /** What the readers know. */
  #known: { readonly value: T; event: LiveEvent | undefined } | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  readonly #due: Deadline;

  constructor(source: LiveSource<T>, clock: Pick<Clock, 'now' | 'after'>) {
    this.#source = source;
    this.#clock = clock;
    this.#due = new Deadline(clock, () => this.#send());
    this.#opening = this.#eventOf('retry: 1000\n\n');
  }

  /** The number of readers. */
  get readers(): number {
    return this.#readers.size;
  }

  /** Something happened: an event follows soon, if somebody reads. */
  touch(): void {
    if (this.#readers.size === 0) return;
    const now = this.#clock.now();
    this.#due.by(Math.max(now + GATHER, this.#sentAt + MIN_PAUSE_MS));
  }

  /** A stream for this reader. Throws NoAnswer where too many read. */
  open({ encodings, signal }: Pick<HttpRequest, 'encodings' | 'signal'>): Answer {
    this.#mustHaveRoom();
    const isPacked = acceptsGzip(encodings);
    return {
      status: 200,
      headers: { ...HEADERS, ...(isPacked ? { 'content-encoding': 'gzip' } : {}) },
      body: this.#read(isPacked, signal),
    };
  }

  /** It counts from its first piece: nobody asks for that of an answer to HEAD. */
  async *#read(isPacked: boolean, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    this.#mustHaveRoom();
    const reader = new LiveReader(isPacked, signal);
    try {
      const known = this.#known ?? { value: this.#source.whole(), event: undefined };
      this.#known = known;
      known.event ??= this.#eventOf(liveText(known.value));
      reader.take(this.#opening);
      reader.begin(known.event);
      this.#readers.add(reader);
      if (this.#readers.size === 1) this.#due.by(this.#clock.now() + MAX_PAUSE_MS);
      yield* reader.pieces();
    } finally {
      this.#readers.delete(reader);
      if (this.#readers.size === 0) this.#rest();
    }
  }

  #mustHaveRoom(): void {
    if (this.#readers.size < MAX_READERS) return;
    throw new NoAnswer(`${MAX_READERS} pages are open already, which is the most: close one of them`);
  }

  /** Blocks that end with a full flush refer to nothing before them, so they fit into the stream of every reader. */
  #eventOf(text: string): LiveEvent {
    const plain = Buffer.from(text);
    const { pack = deflated } = this.#source;
    let packed: Buffer | undefined;
    return {
      plain,
      packed() {
        packed ??= pack(plain);
        return packed;
      },
    };
  }

  /** Must not throw: it is called by a timer, and the page is no reason for the agent to end. */
  #send(): void {
    this.#sentAt = this.#clock.now();
    try {
      this.#sendChange();
      this.#due.by(this.#sentAt + MAX_PAUSE_MS);
    } catch (error) {
      for (const reader of this.#readers) reader.end();
      this.#source.onThrown(error);
    }
  }

  #sendChange(): void {
    const before = this.#known?.value;
    const now = this.#source.whole();
    if (before !== undefined) {
      const delta = this.#eventOf(liveText(this.#source.delta(before, now)));
      for (const reader of this.#readers) reader.take(delta);
    }
    this.#known = { value: now, event: undefined };
  }

  #rest(): void {
    this.#due.cancel();
    this.#known = undefined;
    this.#source.onRest?.();
  }
}

/** The queue of one reader. */
class LiveReader {
  readonly #isPacked: boolean;
  readonly #queue: Buffer[] = [];
  #waiting = 0;
  #isOver = false;
  #wake: () => void = () => undefined;
  /** Of all text so far, for the end of the gzip stream (RFC 1952). */
  #checksum = 0;
  #length = 0;

  constructor(isPacked: boolean, signal: AbortSignal) {
    this.#isPacked = isPacked;
    if (isPacked) this.#queue.push(GZIP_HEADER);
    if (signal.aborted) this.end();
    else signal.addEventListener('abort', () => this.end(), { once: true });
  }

  /** The first event does not count as waiting, whatever its size. */
  begin(event: LiveEvent): void {
    this.#add(event);
    this.#waiting = 0;
  }

  /** A reader that is too slow is ended: a browser asks again then, and begins with the whole. */
  take(event: LiveEvent): void {
    if (this.#isOver) return;
    if (this.#waiting > MAX_WAITING_BYTES) this.end();
    else this.#add(event);
    this.#wake();
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    for (;;) {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        this.#waiting = Math.max(0, this.#waiting - next.length);
        yield next;
      }
      if (this.#isOver) break;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#isPacked) yield gzipEnd(this.#checksum, this.#length);
  }

  #add(event: LiveEvent): void {
    const { plain } = event;
    if (this.#isPacked) {
      this.#checksum = crc32(plain, this.#checksum);
      this.#length += plain.length;
    }
    const bytes = this.#isPacked ? event.packed() : plain;
    this.#queue.push(bytes);
    this.#waiting += bytes.length;
  }

  /** After what waits for it. */
  end(): void {
    this.#isOver = true;
    this.#wake();
  }
}

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  vary: 'accept-encoding',
  'x-content-type-options': 'nosniff',
};

/** A header without a name, a time, or a known system (RFC 1952, 2.3.1). */
const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
/** An empty last block of fixed Huffman codes (RFC 1951, 3.2.6). */
const LAST_BLOCK = [3, 0];

function gzipEnd(checksum: number, length: number): Buffer {
  const end = Buffer.alloc(LAST_BLOCK.length + 8);
  end.set(LAST_BLOCK);
  end.writeUInt32LE(checksum, LAST_BLOCK.length);
  end.writeUInt32LE(length % 2 ** 32, LAST_BLOCK.length + 4);
  return end;
}

/** JSON has no line break, so an event has one line of data. */
function liveText(value: object): string {
  return `event: live\ndata: ${JSON.stringify(value)}\n\n`;
}

/** Bytes of an event for which a small window is as good: the memory of a large one costs more time than the compression. */
const SMALL = 4096;

function deflated(text: Buffer): Buffer {
  const memory = text.length < SMALL ? { windowBits: 12, memLevel: 4 } : {};
  return deflateRawSync(text, { ...memory, finishFlush: constants.Z_FULL_FLUSH });
}

/** RFC 9110, 12.5.3: `gzip;q=0` refuses it. */
function acceptsGzip(encodings = ''): boolean {
  return encodings.split(',').some((each) => /^\s*(?:gzip|\*)\s*(?:;\s*q=(?!0(?:\.0*)?\s*$).*)?$/i.test(each));
}
