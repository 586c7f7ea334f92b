/**
 * One connection of an HTTP server, between the socket and Node.js' parser. It hands on the bytes of one request, and none of the next
 * before the first is answered. Without it the parser would take each read of 64 KiB whole, which may be two thousand requests, and each of
 * these would wait in memory until the client reads (node:http bounds neither).
 *
 * The end of a head is its empty line. The parser takes CRLF alone (RFC 9112, section 2.2; llhttp without leniencies) and skips empty lines
 * before a request line, as this class does. So it finds one request for each end of a head. A body is as long as its Content-Length says,
 * which the parser checks too.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { Client, Clients, Ends } from './clients.ts';

/** Bytes that a client may send before the answer to its request. A client that sends more is cut off. */
export const MAX_EARLY_BYTES = 8192;
/** Bytes of a head, as the parser counts them: it refuses a longer one. */
export const MAX_HEAD_BYTES = 8192;
/** Bytes of empty lines before a request: the parser counts none of them, and would read them for ever. */
const MAX_EMPTY_BYTES = 16;
/** Bytes of the body of a request. */
export const MAX_BODY_BYTES = 4096;
const EMPTY_LINE = Buffer.from('\r\n\r\n');

/** Bytes go to the parser while a head or a body is read. After a refused request none are read. */
type ReadPhase = 'head' | 'body' | 'answering' | 'refused';

export function endsOf({ remoteAddress = '', localAddress = '', localPort = 0 }: Socket): Ends {
  return { remote: remoteAddress, local: localAddress, port: localPort };
}

export type BeginsWith = 'request' | 'body too long' | 'body of unknown length';

export class HttpConnection extends Duplex implements Client {
  readonly remote: string;
  readonly local: string;
  readonly port: number;
  readonly #socket: Socket;
  readonly #clients: Clients;
  #phase: ReadPhase = 'head';
  /** Whether the present request was counted, so that its bytes may go to the parser. */
  #hasBegun = false;
  /** Whether the end of its head waits for a round of the event loop that has time for it. */
  #waitsForTurn = false;
  /** The number of bytes of an empty line at the end of the head so far; undefined for a head of empty lines alone. */
  #matched: number | undefined;
  /** Bytes of empty lines before the present request. */
  #empty = 0;
  /** Bytes of the body that are still to come. */
  #body = 0;
  /** Bytes that came early, or that wait for the rate of requests. */
  #early: Buffer[] = [];
  #earlyBytes = 0;
  #hasEnded = false;
  /** Whether the parser got the end. */
  #isOver = false;
  #timer: NodeJS.Timeout | undefined;
  /** The last time at which the kernel took bytes, or all of them. */
  #stalledSince = performance.now();
  /** Whether a request waits for its answer. */
  #hasRequest = false;
  /** Whether no request of it was answered yet. */
  #isNew = true;
  #idleSince = performance.now();

  /** `clients` must have a place for it. */
  constructor(socket: Socket, clients: Clients) {
    super({ allowHalfOpen: true, decodeStrings: false, autoDestroy: true });
    this.#socket = socket;
    this.#clients = clients;
    ({ remote: this.remote, local: this.local, port: this.port } = endsOf(socket));
    clients.add(this);
    socket.on('end', () => {
      this.#hasEnded = true;
      this.#pass();
    });
    socket.on('timeout', () => this.emit('timeout'));
    // A client that is gone is no error of the server.
    socket.on('error', () => this.destroy());
    socket.on('close', () => this.destroy());
  }

  /** Must be called once. Reads the first request when the rate of its address allows. */
  begin(): void {
    if (!this.#mayBegin(() => this.begin()) || this.destroyed) return;
    this.#socket.on('data', (bytes: Buffer) => this.#take(bytes));
    this.#socket.resume();
  }

  /** A property of sockets that node:http and handlers read. */
  get remoteAddress(): string {
    return this.remote;
  }

  get localAddress(): string {
    return this.local;
  }

  get idleSince(): number | undefined {
    return this.#hasRequest || this.#waitsForTurn ? undefined : this.#idleSince;
  }

  get isNew(): boolean {
    return this.#isNew;
  }

  get unsent(): number {
    // Bytes that the socket has not sent are not written here either.
    return Math.max(this.writableLength, this.#socket.writableLength);
  }

  get stalledSince(): number {
    return this.#stalledSince;
  }

  setTimeout(milliseconds: number, call?: () => void): this {
    this.#socket.setTimeout(milliseconds);
    if (call !== undefined) this.once('timeout', call);
    return this;
  }

  /** Must be called with each request that the parser has found. Its body is read where its length is known and bounded. */
  begins({ headers }: IncomingMessage): BeginsWith {
    this.#hasRequest = true;
    if (headers['transfer-encoding'] !== undefined) return this.#refuse('body of unknown length');
    const length = Number(headers['content-length'] ?? 0);
    if (length > MAX_BODY_BYTES) return this.#refuse('body too long');
    if (length > 0) {
      this.#phase = 'body';
      this.#body = length;
      // Not within the parser's own call.
      setImmediate(() => this.#pass());
    }
    return 'request';
  }

  #refuse(why: Exclude<BeginsWith, 'request'>): BeginsWith {
    this.readNoMore();
    return why;
  }

  /** Makes the present request the last one, and stops reading. */
  readNoMore(): void {
    this.#phase = 'refused';
    this.#early = [];
    this.#earlyBytes = 0;
    this.#socket.pause();
  }

  /** The answer is with the kernel: the next request may be read. */
  answered(): void {
    this.#hasRequest = false;
    this.#isNew = false;
    this.#idleSince = performance.now();
    if (this.#phase === 'refused') return;
    // The answer did not wait for the rest of the body, which is no request.
    if (this.#body > 0) {
      this.destroySoon();
      return;
    }
    this.#phase = 'head';
    this.#hasBegun = false;
    this.#matched = undefined;
    this.#empty = 0;
    setImmediate(() => this.#pass());
  }

  cut(): void {
    // A reset: no connection in TIME_WAIT, and no wait for the rest of the answer.
    this.#socket.resetAndDestroy();
    this.destroy();
  }

  #take(bytes: Buffer): void {
    if (this.destroyed || this.#phase === 'refused') return;
    this.#early.push(bytes);
    this.#earlyBytes += bytes.length;
    this.#pass();
    if (this.#earlyBytes <= MAX_EARLY_BYTES || this.destroyed || this.#isRefused) return;
    this.#clients.turnAway(this, 'pipelining');
  }

  get #isRefused(): boolean {
    return this.#phase === 'refused';
  }

  /** Hands on the bytes that may be read now. */
  #pass(): void {
    if (this.#waitsForTurn) return;
    while (
      !this.#isOver &&
      this.#early.length > 0 &&
      (this.#phase === 'head' || this.#phase === 'body') &&
      !this.destroyed
    ) {
      if (!this.#mayBegin(() => this.#pass())) return;
      const bytes = this.#early.shift() as Buffer;
      this.#earlyBytes -= bytes.length;
      const isHead = this.#phase === 'head';
      const end = isHead ? this.#endOfHead(bytes) : this.#endOfBody(bytes);
      if (this.#empty > MAX_EMPTY_BYTES) {
        this.#clients.turnAway(this, 'pipelining');
        return;
      }
      if (end < bytes.length) {
        // A copy: the rest of a large read would keep all of it.
        const rest = bytes.length - end > MAX_EARLY_BYTES ? bytes.subarray(end) : Buffer.from(bytes.subarray(end));
        this.#early.unshift(rest);
        this.#earlyBytes += rest.length;
      }
      // The end of a head is a request, whatever its answer costs, and so is a head that will be refused.
      const isRequest = isHead && (this.#phase !== 'head' || end > MAX_HEAD_BYTES);
      if (isRequest && !this.#clients.rounds.enter(() => this.#takeTurn(bytes.subarray(0, end)))) {
        this.#waitsForTurn = true;
        return;
      }
      this.push(bytes.subarray(0, end));
    }
    // While an answer is made, the end means that the client is gone, and early bytes are not read.
    if (this.#hasEnded && (this.#early.length === 0 || this.#phase === 'answering') && !this.#isOver) {
      this.#isOver = true;
      this.push(null);
    }
  }

  /** Whether the next request may be read now. Otherwise its bytes wait, those of the first request in the kernel, and `then` is called later. */
  #mayBegin(then: () => void): boolean {
    if (this.#hasBegun || this.#phase !== 'head') return true;
    if (this.#timer !== undefined) return false;
    const delay = this.#clients.delay(this);
    if (delay > 0) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        then();
      }, delay);
      return false;
    }
    this.#hasBegun = true;
    return true;
  }

  /** Hands on the end of a head that waited. */
  #takeTurn(bytes: Buffer): void {
    this.#waitsForTurn = false;
    if (this.destroyed || this.#isRefused) return;
    this.push(bytes);
    this.#pass();
  }

  /** The index after the end of the head in these bytes, which also ends the phase; their length where the head goes on. */
  #endOfHead(bytes: Buffer): number {
    let at = 0;
    if (this.#matched === undefined) {
      while (EMPTY_LINE.includes(bytes[at] ?? 0) && this.#empty <= MAX_EMPTY_BYTES) {
        at += 1;
        this.#empty += 1;
      }
      if (at === bytes.length || this.#empty > MAX_EMPTY_BYTES) return bytes.length;
      this.#matched = 0;
    }
    // An empty line may begin in the piece before.
    while (this.#matched > 0 && this.#matched < EMPTY_LINE.length && at < bytes.length) {
      const byte = bytes[at];
      if (byte === EMPTY_LINE[this.#matched]) this.#matched += 1;
      else this.#matched = byte === EMPTY_LINE[0] ? 1 : 0;
      at += 1;
    }
    if (this.#matched === 0) {
      // Not byte by byte here: a client may send 64 KiB at once, on each of its connections.
      const found = bytes.indexOf(EMPTY_LINE, at);
      at = found < 0 ? bytes.length : found + EMPTY_LINE.length;
      this.#matched = found < 0 ? beginOfEmptyLine(bytes) : EMPTY_LINE.length;
    }
    if (this.#matched === EMPTY_LINE.length) this.#phase = 'answering';
    return at;
  }

  #endOfBody(bytes: Buffer): number {
    const end = Math.min(this.#body, bytes.length);
    this.#body -= end;
    if (this.#body === 0) this.#phase = 'answering';
    return end;
  }

  /** A method of sockets: node:http calls it after the last answer of a connection. */
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  override _read(): void {
    // Bytes are pushed as they come; this class bounds what waits.
  }

  override _write(chunk: Buffer | string, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    // Time in which nothing waited is no stall.
    if (this.#socket.writableLength === 0) this.#stalledSince = performance.now();
    this.#socket.write(chunk, encoding, (error) => {
      this.#stalledSince = performance.now();
      done(error);
    });
  }

  override _writev(
    chunks: { chunk: Buffer | string; encoding: BufferEncoding }[],
    done: (error?: Error | null) => void,
  ): void {
    this.#socket.cork();
    const last = chunks.length - 1;
    for (const [i, { chunk, encoding }] of chunks.entries()) {
      if (i < last) this.#socket.write(chunk, encoding);
      else this._write(chunk, encoding, done);
    }
    this.#socket.uncork();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#timer);
    this.#early = [];
    this.#clients.release(this);
    this.#socket.destroy();
    done(error);
  }
}

/** The number of bytes at the end of these that an empty line may begin with. */
function beginOfEmptyLine(bytes: Buffer): number {
  let count = EMPTY_LINE.length - 1;
  while (count > 0 && !EMPTY_LINE.subarray(0, count).equals(bytes.subarray(-count))) count -= 1;
  return count;
}
