/**
 * Streaming lists (KEP-3157, WatchList). The watch begins with every object as an event of the type ADDED. A bookmark with the annotation
 * `k8s.io/initial-events-end` and the list's resourceVersion follows, and then the watch goes on as any other. The request names no
 * resourceVersion, so the list is the latest one. Kubernetes 1.32, and 1.34 and later, have it by default (feature gate WatchList), where
 * etcd reports its progress.
 *
 * A server that does not support it answers with a status (400, 422) or with an ERROR event of code 500. A server that sends nothing for
 * 30 s before the end counts as one without support. Then the list is read in pages, and no stream is requested until a request had no
 * answer: after that the connection may lead to another version of the server. A stream that broke is no refusal: the next list is read
 * in pages, and the one after it as a stream again.
 */
import { type Clock, sleep } from '../../base/clock.ts';
import { ApiError, type Query } from './client.ts';

/** Milliseconds without an event after which a streaming list is given up. A server that does not know the parameter sends no end. */
export const STREAM_SILENCE = 30_000;

/** The parameters of a watch that begins with a list. */
export const STREAM_QUERY: Query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' };

/** Statuses of servers that cannot stream a list. */
const UNSUPPORTED: readonly number[] = [400, 405, 422, 500, 501];

/** Decides whether the next list is requested as a stream. */
export class ListStreaming {
  readonly #isWanted: boolean;
  #isRefused = false;
  #mustPage = false;

  constructor(isWanted: boolean) {
    this.#isWanted = isWanted;
  }

  get isNext(): boolean {
    return this.#isWanted && !this.#isRefused && !this.#mustPage;
  }

  /** A stream failed before its end. Returns whether the server does not support streams, which is no failure of the list. */
  failed(error: unknown): boolean {
    this.#mustPage = true;
    this.#isRefused =
      error instanceof StreamSilent || (error instanceof ApiError && UNSUPPORTED.includes(error.status));
    return this.#isRefused;
  }

  /** A request had no answer. */
  unanswered(): void {
    this.#isRefused = false;
  }

  /** A list is complete. */
  listed(): void {
    this.#mustPage = false;
  }
}

/** The end of a streaming list did not come. */
export class StreamSilent extends ApiError {
  constructor(path: string) {
    super(`the list of ${path} as a stream has no end: nothing came for ${STREAM_SILENCE / 1000} s`, 0);
  }
}

/** Ends a streaming list on which no event arrives. */
export class SilenceGuard {
  readonly #ended = new AbortController();
  readonly #silent = new AbortController();
  readonly #clock: Clock;
  #heardAt: number;

  /** `path`: the path of the list, for the error. Call `end` at the end of the list or of the watch. */
  constructor(clock: Clock, path: string) {
    this.#clock = clock;
    this.#heardAt = clock.now();
    void this.#guard(path).catch(() => undefined);
  }

  /** Aborts with StreamSilent. */
  get signal(): AbortSignal {
    return this.#silent.signal;
  }

  heard(): void {
    this.#heardAt = this.#clock.now();
  }

  end(): void {
    this.#ended.abort();
  }

  async #guard(path: string): Promise<void> {
    for (let left = STREAM_SILENCE; left > 0; left = this.#heardAt + STREAM_SILENCE - this.#clock.now())
      await sleep(this.#clock, left, this.#ended.signal);
    this.#silent.abort(new StreamSilent(path));
  }
}
