/** The body of an answer, from the side of the server: bytes in segments, as TCP brings them. */
import { nextTick } from 'node:process';
import { Readable } from 'node:stream';
import type { SimProcess } from '../engine/process.ts';
import { abortError, connectionReset } from './errors.ts';

/** Bytes of a segment: an Ethernet frame without the headers of IPv4 and TCP. An event, or a letter, may be split anywhere. */
const SEGMENT = 1448;

export interface BodyOptions {
  readonly process: SimProcess;
  /** For people: `GET /api/v1/services`. */
  readonly what: string;
  /** Of the request. */
  readonly signal: AbortSignal;
  /** The reader, the server or the kernel closed it. Called once. */
  readonly onClose?: () => void;
}

export class SimBody {
  /** What the process reads. */
  readonly stream: Readable;
  readonly #options: BodyOptions;
  /** A dead process closes it before it is known. */
  #forget: () => void = () => undefined;
  readonly #onAbort: () => void;
  readonly #queue: Buffer[] = [];
  /** What follows the last segment. */
  #end: (() => void) | undefined;
  #isPumping = false;
  #isOver = false;
  #isWhole = false;

  constructor(options: BodyOptions) {
    const { process, what, signal } = options;
    this.#options = options;
    this.stream = new Readable({
      read: () => undefined,
      destroy: (error, done) => {
        this.#close();
        done(error);
      },
    });
    // A body that fails before somebody reads it stops nothing; its reader learns of it.
    this.stream.on('error', () => undefined);
    this.#forget = process.opened(`answer to ${what}`, () => this.#close());
    this.#onAbort = () => this.fail(abortError(signal.reason));
    signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether the reader got all that the server wanted to send. */
  readonly isWhole = (): boolean => this.#isWhole;

  send(bytes: Buffer): void {
    if (this.#isOver || this.#end !== undefined) return;
    for (let at = 0; at < bytes.length; at += SEGMENT) this.#queue.push(bytes.subarray(at, at + SEGMENT));
    this.#pump();
  }

  /** The answer is complete after what was sent. */
  end(): void {
    this.#endWith(() => {
      this.#isWhole = true;
      this.stream.push(null);
    });
  }

  /** It ends after what was sent, and is not complete: with an error of the connection, or as if it were complete. */
  cut(how: 'reset' | 'short'): void {
    if (how === 'reset') this.#endWith(() => this.fail(connectionReset('aborted')));
    else this.#endWith(() => void this.stream.push(null));
  }

  /** It fails now; what was not read yet is lost. */
  fail(error: Error): void {
    if (!this.#isOver) this.#options.process.run(() => this.stream.destroy(error));
  }

  #endWith(end: () => void): void {
    if (this.#isOver) return;
    this.#end ??= end;
    this.#pump();
  }

  /** One segment a tick: the reader sees each for itself. */
  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    this.#options.process.run(() => nextTick(() => this.#next()));
  }

  #next(): void {
    this.#isPumping = false;
    if (this.#isOver) return;
    const segment = this.#queue.shift();
    if (segment === undefined) this.#end?.();
    else this.stream.push(segment);
    if (segment !== undefined && (this.#queue.length > 0 || this.#end !== undefined)) this.#pump();
  }

  /** A dead process's body stays silent: nobody reads it any more. */
  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#queue.length = 0;
    this.#options.signal.removeEventListener('abort', this.#onAbort);
    this.#forget();
    this.#options.onClose?.();
  }
}
