/**
 * Streaming lists (KEP-3157, WatchList): a watch that begins with every object as an event of the type ADDED, then has a bookmark with
 * the annotation `k8s.io/initial-events-end` and the list's resourceVersion, and goes on as a watch. The list is the most recent one, as
 * no resourceVersion is named. Kubernetes 1.32 and 1.34 on have it by default (feature gate WatchList), where etcd reports its progress.
 *
 * A server that cannot do it says so: by a status (400, 422) or by an ERROR event with the code 500. One that says nothing for 30 s
 * before the end counts as such. Then the list is read in pages, and a stream is not asked for again until an answer failed to come: the
 * connection may lead to another version of the server then. A stream that broke is no answer: the next list is read in pages, and the
 * one after it as a stream again.
 */
import { type Clock, sleep } from '../../base/clock.ts';
import { ApiError, type Query } from './client.ts';

/** Milliseconds without an event after which the rest of a streaming list is not waited for. A server that does not know the parameter
 * sends its objects and no end. */
export const STREAM_SILENCE = 30_000;

/** What a watch asks for that begins with a list. */
export const STREAM_QUERY: Query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' };

/** Statuses by which servers say that they cannot stream a list. */
const CANNOT: readonly number[] = [400, 405, 422, 500, 501];

/** Whether the next list is asked for as a stream. */
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

  /** A stream failed before its end. Returns whether the server cannot do it: no failure of the list. */
  failed(error: unknown): boolean {
    this.#mustPage = true;
    this.#isRefused = error instanceof StreamSilent || (error instanceof ApiError && CANNOT.includes(error.status));
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

/** The server does not say that the list is complete. */
export class StreamSilent extends ApiError {
  constructor(path: string) {
    super(`the list of ${path} as a stream has no end: nothing came for ${STREAM_SILENCE / 1000} s`, 0);
  }
}

/** Ends a streaming list that says nothing. */
export class SilenceGuard {
  readonly #ended = new AbortController();
  readonly #silent = new AbortController();
  readonly #clock: Clock;
  #heardAt: number;

  /** `path`: of the list, for the error. Call `end` at the end of the list or of the watch. */
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
