/**
 * Streams of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) for many readers: pages and programs. The
 * first event of a reader has the whole state, each later event the difference to the one before. A reader gets at most one event in the time
 * that it chooses, and after some silence a sign of life, so that it notices a dead connection.
 *
 * The cost does not grow with the readers: readers of one pace share their events, each computed and compressed once, and without a reader
 * nothing is computed.
 */
import { constants, crc32, deflateRawSync } from 'node:zlib';
import type { Clock } from '../base/clock.ts';
import { NoAnswer } from '../inspect/wire/envelope.ts';
import { type Answer, acceptsGzip, type HttpRequest } from './http.ts';

/** The form of a stream. Times are in milliseconds. */
interface StreamForm {
  /** Readers at the same time, and their name in the refusal of one more. */
  readonly maxReaders: number;
  readonly readersWord: 'pages' | 'streams';
  /** The shortest time between two events, where the reader chooses nothing. */
  readonly minPause: number;
  /** The time from a change to its event: further changes may follow at once. */
  readonly gather: number;
  /** The longest time in which nothing is sent; shorter than the silence after which the server ends a connection (`http.ts`). */
  readonly maxSilence: number;
  /** The field `event`; undefined for events without one. */
  readonly event?: string;
  /** Sent before the first event. */
  readonly opening?: string;
  /** Whether readers that accept gzip get it. */
  readonly isCompressed: boolean;
  /** Whether new readers get the same first event until something changes. An event with ages is made for each reader. */
  readonly isWholeShared: boolean;
}

/** For the live pages. A browser reconnects after a second. Most changes are in the kernel after 40 ms, and ages in an event must not get old. */
export const PAGE_STREAM: StreamForm = {
  ...{ maxReaders: 100, readersWord: 'pages', minPause: 250, gather: 40, maxSilence: 5000 },
  ...{ event: 'live', opening: 'retry: 1000\n\n', isCompressed: true, isWholeShared: true },
};
/** For programs. Where nothing changed they get a comment instead of an event. */
export const PROGRAM_STREAM: StreamForm = {
  ...{ maxReaders: 16, readersWord: 'streams', minPause: 1000, gather: 0, maxSilence: 15_000 },
  ...{ isCompressed: false, isWholeShared: false },
};

/** Bytes that may wait for a reader, beside its first event. */
export const MAX_WAITING_BYTES = 256 * 1024;

interface StreamSource<T> {
  /** The present state. The value is not changed later. */
  now(): T;
  /** The first event of a reader. */
  whole(state: T): object;
  /** The difference; undefined where there is none. */
  changed(before: T, state: T): object | undefined;
  /** Blocks of deflate that end with a full flush; zlib's by default. */
  pack?(text: Buffer): Buffer;
  /** The last reader has left. */
  onRest?(): void;
  /** An event could not be made. The streams of its readers end, and they connect again. */
  onThrown(error: unknown): void;
}

type StreamRequest = Pick<HttpRequest, 'signal' | 'hangUp' | 'encodings'>;

export class EventStreams<T> {
  readonly #form: StreamForm;
  readonly #source: StreamSource<T>;
  readonly #clock: Pick<Clock, 'now' | 'after'>;
  readonly #byPace = new Map<number, PacedReaders<T>>();

  constructor(form: StreamForm, source: StreamSource<T>, clock: Pick<Clock, 'now' | 'after'>) {
    this.#form = form;
    this.#source = source;
    this.#clock = clock;
  }

  /** The number of readers. */
  get readers(): number {
    return [...this.#byPace.values()].reduce((sum, { readers }) => sum + readers.size, 0);
  }

  /** Must be called when something may have changed. It costs next to nothing without a reader. */
  touch(): void {
    for (const paced of this.#byPace.values()) paced.touch();
  }

  /** `pace`: the shortest time between two events, in milliseconds. Throws NoAnswer at the limit of readers. */
  open(request: StreamRequest, pace = this.#form.minPause): Answer {
    this.#mustHaveRoom();
    const isPacked = this.#form.isCompressed && acceptsGzip(request.encodings);
    return {
      status: 200,
      headers: {
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        ...(this.#form.isCompressed ? { vary: 'accept-encoding' } : {}),
        ...(isPacked ? { 'content-encoding': 'gzip' } : {}),
      },
      body: this.#read(pace, isPacked, request),
    };
  }

  /** A reader counts from its first piece: the answer to a HEAD request has none. */
  async *#read(pace: number, isPacked: boolean, { signal, hangUp }: StreamRequest): AsyncGenerator<Uint8Array> {
    this.#mustHaveRoom();
    const paced = this.#pacedAt(pace);
    let isHere = true;
    const leave = () => {
      if (!isHere) return;
      isHere = false;
      paced.remove(reader);
      if (paced.readers.size === 0 && this.#byPace.get(pace) === paced) this.#byPace.delete(pace);
      if (this.#byPace.size === 0) this.#source.onRest?.();
    };
    const reader = new StreamReader(isPacked, signal, () => {
      leave();
      hangUp?.();
    });
    try {
      paced.add(reader);
      yield* reader.pieces();
    } finally {
      leave();
    }
  }

  #pacedAt(pace: number): PacedReaders<T> {
    const known = this.#byPace.get(pace);
    if (known !== undefined) return known;
    try {
      const made = new PacedReaders({ pace, form: this.#form, source: this.#source, clock: this.#clock });
      this.#byPace.set(pace, made);
      return made;
    } catch (error) {
      if (this.#byPace.size === 0) this.#source.onRest?.();
      throw error;
    }
  }

  #mustHaveRoom(): void {
    const { maxReaders, readersWord } = this.#form;
    if (this.readers < maxReaders) return;
    throw new NoAnswer(`${maxReaders} ${readersWord} are open already, and that is the limit: close one of them`);
  }
}

interface PacedOptions<T> {
  readonly pace: number;
  readonly form: StreamForm;
  readonly source: StreamSource<T>;
  readonly clock: Pick<Clock, 'now' | 'after'>;
}

/** The readers of one pace. */
class PacedReaders<T> {
  readonly readers = new Set<StreamReader>();
  readonly #options: PacedOptions<T>;
  /** The state that the readers know, and its event for a new one. */
  #known: { readonly state: T; whole: StreamEvent | undefined };
  /** The times of the last event, and of the last bytes. */
  #sentAt: number;
  #spokenAt: number;
  readonly #deadline: Deadline;

  constructor(options: PacedOptions<T>) {
    const { source, clock } = options;
    this.#options = options;
    this.#deadline = new Deadline(clock, () => this.#send());
    this.#known = { state: source.now(), whole: undefined };
    this.#sentAt = clock.now();
    this.#spokenAt = this.#sentAt;
  }

  /** A new reader begins with what the others know, and goes on with them. */
  add(reader: StreamReader): void {
    const { source, form } = this.#options;
    const { opening = '' } = form;
    const known = this.#known;
    const whole = known.whole ?? this.#event(opening + this.#textOf(source.whole(known.state)));
    if (form.isWholeShared) known.whole = whole;
    reader.begin(whole);
    this.readers.add(reader);
    this.#deadline.by(this.#spokenAt + form.maxSilence);
    // The state may be newer than the one that the others know, without a call of `touch`.
    if (!form.isWholeShared && this.readers.size > 1) this.touch();
  }

  remove(reader: StreamReader): void {
    this.readers.delete(reader);
    if (this.readers.size === 0) this.#deadline.cancel();
  }

  touch(): void {
    const { clock, form, pace } = this.#options;
    if (this.readers.size > 0) this.#deadline.by(Math.max(clock.now() + form.gather, this.#sentAt + pace));
  }

  /** Must not throw: a timer calls it, and a stream must not end the process. */
  #send(): void {
    const { clock, source, form } = this.#options;
    const now = clock.now();
    try {
      const state = source.now();
      const change = source.changed(this.#known.state, state);
      if (change !== undefined) {
        this.#known = { state, whole: undefined };
        this.#sentAt = now;
        this.#pass(this.#event(this.#textOf(change)), now);
      } else if (now - this.#spokenAt >= form.maxSilence) this.#pass(this.#event(':\n\n'), now);
    } catch (error) {
      for (const reader of this.readers) reader.end();
      // A client that does not read keeps its place for a while, so the next try must not be at once.
      this.#spokenAt = now;
      source.onThrown(error);
    }
    // The last reader may have been too slow.
    if (this.readers.size > 0) this.#deadline.by(Math.max(this.#spokenAt + form.maxSilence, now + 1));
  }

  #pass(event: StreamEvent, now: number): void {
    this.#spokenAt = now;
    for (const reader of this.readers) reader.take(event);
  }

  /** JSON has no line break, so an event has one line of data. */
  #textOf(value: object): string {
    const { event } = this.#options.form;
    return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(value)}\n\n`;
  }

  /** Blocks that end with a full flush refer to nothing before them, so they fit into the stream of every reader. */
  #event(text: string): StreamEvent {
    const plain = Buffer.from(text);
    const { pack = deflated } = this.#options.source;
    let packed: Buffer | undefined;
    return {
      plain,
      packed() {
        packed ??= pack(plain);
        return packed;
      },
    };
  }
}

/** An event as bytes, in both encodings; it is compressed when the first reader needs it. */
interface StreamEvent {
  readonly plain: Buffer;
  readonly packed: () => Buffer;
}

/** The queue of one reader. */
class StreamReader {
  readonly #isPacked: boolean;
  readonly #onTooSlow: () => void;
  #queue: Buffer[] = [];
  #waiting = 0;
  #isOver = false;
  /** Whether its bytes end in the middle of the stream. */
  #isCut = false;
  #wake: () => void = () => undefined;
  /** Of all text so far, for the end of the gzip stream (RFC 1952). */
  #checksum = 0;
  #length = 0;

  constructor(isPacked: boolean, signal: AbortSignal, onTooSlow: () => void) {
    this.#isPacked = isPacked;
    this.#onTooSlow = onTooSlow;
    if (isPacked) this.#queue.push(GZIP_HEADER);
    if (signal.aborted) this.end();
    else signal.addEventListener('abort', () => this.end(), { once: true });
  }

  /** The first event does not count as waiting, whatever its size. */
  begin(event: StreamEvent): void {
    this.#queue.push(this.#bytesOf(event));
  }

  /**
   * The stream of a reader that is too slow ends, and what waits for it is dropped: the reader would be slow with that too. It connects
   * again, and begins with the whole state.
   */
  take(event: StreamEvent): void {
    if (this.#isOver) return;
    if (this.#waiting > MAX_WAITING_BYTES) {
      this.#queue = [];
      this.#isCut = true;
      this.end();
      this.#onTooSlow();
      return;
    }
    const bytes = this.#bytesOf(event);
    this.#queue.push(bytes);
    this.#waiting += bytes.length;
    this.#wake();
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    // The header of gzip and the first event do not count.
    let uncounted = this.#queue.length;
    for (;;) {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        if (uncounted > 0) uncounted -= 1;
        else this.#waiting -= next.length;
        yield next;
      }
      if (this.#isOver) break;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#isPacked && !this.#isCut) yield gzipEnd(this.#checksum, this.#length);
  }

  /** Ends the stream after what waits for the reader. */
  end(): void {
    this.#isOver = true;
    this.#wake();
  }

  #bytesOf({ plain, packed }: StreamEvent): Buffer {
    if (!this.#isPacked) return plain;
    this.#checksum = crc32(plain, this.#checksum);
    this.#length += plain.length;
    return packed();
  }
}

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

/** Bytes of an event for which a small window is as good: the memory of a large one costs more time than the compression. */
const SMALL = 4096;

function deflated(text: Buffer): Buffer {
  const memory = text.length < SMALL ? { windowBits: 12, memLevel: 4 } : {};
  return deflateRawSync(text, { ...memory, finishFlush: constants.Z_FULL_FLUSH });
}

/** Calls once, at the earliest of the moments that were given since the last call. */
class Deadline {
  readonly #clock: Pick<Clock, 'now' | 'after'>;
  readonly #call: () => void;
  #at = Number.POSITIVE_INFINITY;
  #cancel: () => void = () => undefined;

  /** `call` must not throw, because a timer calls it. It may give the next moment. */
  constructor(clock: Pick<Clock, 'now' | 'after'>, call: () => void) {
    this.#clock = clock;
    this.#call = call;
  }

  /** Calls at this moment of the clock at the latest, in milliseconds. */
  by(moment: number): void {
    if (moment >= this.#at) return;
    this.#cancel();
    this.#at = moment;
    this.#cancel = this.#clock.after(Math.max(0, moment - this.#clock.now()), () => {
      this.#at = Number.POSITIVE_INFINITY;
      this.#call();
    });
  }

  /** Forgets the moments that were given. */
  cancel(): void {
    this.#cancel();
    this.#at = Number.POSITIVE_INFINITY;
  }
}
