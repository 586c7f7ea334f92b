/**
 * A stream of server-sent events for programs: at most one event in a time that the reader chooses, none where nothing changed, and a
 * comment after some silence, so that a reader notices a dead connection. Readers of the same pace share their events, each computed
 * once. (https://html.spec.whatwg.org/multipage/server-sent-events.html)
 */

import type { Clock } from '../base/clock.ts';
import { NoAnswer } from '../inspect/wire/problem.ts';
import { Deadline } from './deadline.ts';
import type { Answer, HttpRequest } from './http.ts';

/** Streams at the same time. */
export const MAX_STREAMS = 16;
/** Milliseconds of silence until a comment; shorter than the silence after which the server ends a connection. */
export const COMMENT_AFTER = 15_000;
/** Bytes that wait for a reader, at most, beside its first event. */
export const MAX_WAITING_BYTES = 256 * 1024;

export interface EventStreamSource<T> {
  /** What there is to say now. The value is not changed later. */
  now(): T;
  /** All of it, for a new reader. */
  whole(said: T): object;
  /** What changed; undefined: nothing did. */
  changed(before: T, said: T): object | undefined;
  /** An event could not be made. Its readers are ended; they ask again. */
  onThrown(error: unknown): void;
}

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
};
const COMMENT = Buffer.from(':\n\n');

export class EventStreams<T> {
  readonly #source: EventStreamSource<T>;
  readonly #clock: Pick<Clock, 'now' | 'after'>;
  readonly #byPace = new Map<number, PacedReaders<T>>();

  constructor(source: EventStreamSource<T>, clock: Pick<Clock, 'now' | 'after'>) {
    this.#source = source;
    this.#clock = clock;
  }

  /** The number of readers. */
  get readers(): number {
    return [...this.#byPace.values()].reduce((sum, { readers }) => sum + readers.size, 0);
  }

  /** Something may have changed. Costs next to nothing while nobody reads. */
  touch(): void {
    for (const pace of this.#byPace.values()) pace.touch();
  }

  /** A stream for this reader; `milliseconds`: its pace. Throws NoAnswer where too many read. */
  open(milliseconds: number, asked: Pick<HttpRequest, 'signal' | 'hangUp'>): Answer {
    this.#mustHaveRoom();
    return { status: 200, headers: HEADERS, body: this.#read(milliseconds, asked) };
  }

  /** It counts from its first piece: nobody asks for that of an answer to HEAD. */
  async *#read(
    milliseconds: number,
    { signal, hangUp }: Pick<HttpRequest, 'signal' | 'hangUp'>,
  ): AsyncGenerator<Uint8Array> {
    this.#mustHaveRoom();
    const known = this.#byPace.get(milliseconds);
    const pace = known ?? new PacedReaders(milliseconds, this.#source, this.#clock);
    this.#byPace.set(milliseconds, pace);
    const leave = () => {
      pace.remove(reader);
      if (pace.readers.size === 0 && this.#byPace.get(milliseconds) === pace) this.#byPace.delete(milliseconds);
    };
    const reader = new StreamReader(signal, () => {
      leave();
      hangUp?.();
    });
    try {
      pace.add(reader);
      yield* reader.pieces();
    } finally {
      leave();
    }
  }

  #mustHaveRoom(): void {
    if (this.readers < MAX_STREAMS) return;
    throw new NoAnswer(`${MAX_STREAMS} streams are open already, which is the most: close one of them`);
  }
}

/** The readers of one pace. */
class PacedReaders<T> {
  readonly readers = new Set<StreamReader>();
  readonly #milliseconds: number;
  readonly #source: EventStreamSource<T>;
  readonly #clock: Pick<Clock, 'now' | 'after'>;
  /** What the readers know. */
  #said: T;
  /** When the last event was sent, and when anything was. */
  #sentAt: number;
  #spokenAt: number;
  readonly #due: Deadline;

  constructor(milliseconds: number, source: EventStreamSource<T>, clock: Pick<Clock, 'now' | 'after'>) {
    this.#milliseconds = milliseconds;
    this.#source = source;
    this.#clock = clock;
    this.#due = new Deadline(clock, () => this.#send());
    this.#said = source.now();
    this.#sentAt = clock.now();
    this.#spokenAt = this.#sentAt;
  }

  /** A new reader begins with what the others know, and goes on with them. */
  add(reader: StreamReader): void {
    reader.begin(eventOf(this.#source.whole(this.#said)));
    this.readers.add(reader);
    this.#due.by(this.#spokenAt + COMMENT_AFTER);
    this.touch();
  }

  remove(reader: StreamReader): void {
    this.readers.delete(reader);
    if (this.readers.size === 0) this.#due.cancel();
  }

  touch(): void {
    if (this.readers.size > 0) this.#due.by(Math.max(this.#clock.now(), this.#sentAt + this.#milliseconds));
  }

  /** Must not throw: it is called by a timer, and a stream is no reason for the agent to end. */
  #send(): void {
    const now = this.#clock.now();
    try {
      const said = this.#source.now();
      const event = this.#source.changed(this.#said, said);
      this.#said = said;
      if (event !== undefined) this.#sentAt = now;
      if (event !== undefined) this.#pass(eventOf(event), now);
      else if (now - this.#spokenAt >= COMMENT_AFTER) this.#pass(COMMENT, now);
    } catch (error) {
      for (const reader of this.readers) reader.end();
      this.#source.onThrown(error);
    }
    // The last reader may have been too slow.
    if (this.readers.size > 0) this.#due.by(Math.max(this.#spokenAt + COMMENT_AFTER, now + 1));
  }

  #pass(piece: Buffer, now: number): void {
    this.#spokenAt = now;
    for (const reader of this.readers) reader.take(piece);
  }
}

/** The queue of one reader. */
class StreamReader {
  readonly #onTooSlow: () => void;
  #queue: Buffer[] = [];
  #waiting = 0;
  #isOver = false;
  #wake: () => void = () => undefined;

  constructor(signal: AbortSignal, onTooSlow: () => void) {
    this.#onTooSlow = onTooSlow;
    if (signal.aborted) this.end();
    else signal.addEventListener('abort', () => this.end(), { once: true });
  }

  /** The first event does not count as waiting, whatever its size. */
  begin(piece: Buffer): void {
    this.#queue.push(piece);
  }

  /**
   * A reader that is too slow is ended, and what waits for it is dropped: it would take its time for that too. It asks again then, and
   * begins with the whole.
   */
  take(piece: Buffer): void {
    if (this.#isOver) return;
    if (this.#waiting > MAX_WAITING_BYTES) {
      this.#queue = [];
      this.end();
      this.#onTooSlow();
      return;
    }
    this.#queue.push(piece);
    this.#waiting += piece.length;
    this.#wake();
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    let isFirst = true;
    for (;;) {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        if (!isFirst) this.#waiting -= next.length;
        isFirst = false;
        yield next;
      }
      if (this.#isOver) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  end(): void {
    this.#isOver = true;
    this.#wake();
  }
}

/** JSON has no line break, so an event has one line of data. */
function eventOf(value: object): Buffer {
  return Buffer.from(`data: ${JSON.stringify(value)}\n\n`);
}
