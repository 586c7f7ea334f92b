/**
 * List and watch of one resource, as client-go's reflector does it.
 *
 * Goals, and how each is met:
 * 1. Never give up: every failure is followed by a retry, with jitter, and Retry-After is honoured.
 * 2. Never miss a change: a watch resumes from the last resourceVersion, bookmarks advance it, and 410 in either
 *    form (a status, or an event in the stream) leads to a new list; objects that are not in it are reported as gone.
 * 3. Silence is no failure: a server sends nothing on a watch while nothing changes. The connection itself is probed
 *    (`http2.ts`, `transport.ts`).
 * 4. Block the event loop only briefly: lists come in pages (`paged-list.ts`), or as a stream (`streaming.ts`) where it is enabled and
 *    the server supports it. Either way no object is reported as gone before the list is complete.
 * 5. Notice a server whose store was restored from a backup: a resourceVersion that goes back leads to a new list, in which
 *    no object counts as unchanged. resourceVersions compare as numbers (KEP-5504). A watch from a future version is no error: the
 *    server sends nothing until it has caught up. So the version of a server that was unreachable is read first. What one
 *    kind notices counts for all: where another one asks, the server may have passed its version again.
 */
import { breath, type Clock, doubledWait, sleep } from '../../base/clock.ts';
import { type ApiClient, ApiError, type Query, UnreadableAnswer, unreadable } from './client.ts';
import { Intake, type IntakeSink } from './intake.ts';
import { type Listing, presentVersion, readPages, Turn } from './paged-list.ts';
import type { KindReader } from './protobuf/kind.ts';
import { ListStreaming, SilenceGuard, STREAM_QUERY } from './streaming.ts';

export interface Resource {
  /** `/api/v1/services` */
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Reads lists and watches in protobuf; without it, or where the server has no protobuf, they are JSON. */
  readonly protobuf?: KindReader;
  /** The path in an older version of the API, for a server that has none of the newer one. */
  readonly olderPath?: string;
  /** Some servers lack it. Such a server is tried again after an hour, not as after a failure. */
  readonly mayLack?: boolean;
  /** Requests lists as streams, where the server supports it. */
  readonly streams?: boolean;
}

export interface ReflectorSink extends IntakeSink {
  /** The server sent something. */
  heard(): void;
  /** A watch is open; the server has sent nothing on it yet. */
  opened(): void;
  /** The n-th failure in a row, from 1; a retry follows. */
  failed(error: Error, failures: number): void;
  /** The server lacks an optional resource; it is tried again after an hour. */
  absent?(): void;
  /** A request succeeded after failures. */
  recovered(failures: number): void;
}

export interface ReflectorOptions {
  readonly resource: Resource;
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly sink: ReflectorSink;
  readonly random: () => number;
  /** Objects of a page. */
  readonly pageSize: number;
}

/** Seconds after which the server ends a watch, up to twice as many; client-go requests the same 5 to 10 minutes. */
const WATCH_SECONDS = 300;
/** Milliseconds; a watch that ends sooner, without an event, counts as a failure. */
export const SHORT_WATCH = 1000;
/** Milliseconds, with jitter, until a resource that the server lacks is requested again: the server may have been upgraded. */
const LACKING = 3_600_000;
/** Milliseconds by which a pause may last too long on a busy machine. */
const STANDSTILL_MS = 3000;
/** Failed watches in a row after which the list is read again. */
const RELIST_AFTER = 5;

const GONE = 410;

/** Follows several kinds of one server until the signal aborts. A restore of its store that one of them notices counts for all. */
export async function followAll(kinds: readonly ReflectorOptions[], signal: AbortSignal): Promise<void> {
  const reflectors: Reflector[] = kinds.map((options, own) => {
    const restored: IntakeSink['restored'] = (from, to) => {
      options.sink.restored(from, to);
      for (const [i, other] of reflectors.entries()) if (i !== own) other.listAgain(to);
    };
    return new Reflector({ ...options, sink: { ...options.sink, restored } });
  });
  await Promise.all(reflectors.map((reflector) => reflector.run(signal)));
}

export class Reflector {
  readonly #options: ReflectorOptions;
  readonly #intake: Intake;
  readonly #paths: Paths;
  readonly #streams: ListStreaming;
  #mustList = true;
  #failures = 0;
  /** undefined after an answer could not be decoded. */
  #protobuf: KindReader | undefined;
  /** An expired version leads to an immediate list, but only once until a watch works again. */
  #mayRelist = true;
  /** Ends what runs, for a new list. */
  #again = new AbortController();

  constructor(options: ReflectorOptions) {
    this.#options = options;
    this.#protobuf = options.resource.protobuf;
    this.#paths = new Paths(options.resource);
    this.#intake = new Intake(options.resource.path, options.sink);
    this.#streams = new ListStreaming(options.resource.streams === true);
  }

  /** Lists and watches until the signal aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    // After the server was unreachable, its store may be an older one.
    let mustCompare = false;
    while (!signal.aborted) {
      let isStream = false;
      this.#again = new AbortController();
      const until = AbortSignal.any([signal, this.#again.signal]);
      try {
        if (mustCompare && !this.#mustList && this.#intake.wentBack(await presentVersion(this.#listing(until))))
          this.#mustList = true;
        until.throwIfAborted();
        mustCompare = false;
        isStream = this.#mustList && this.#streams.isNext;
        if (this.#mustList && !isStream) await this.#list(until);
        await this.#watch(until);
      } catch (error) {
        if (signal.aborted) return;
        if (until.aborted) continue;
        mustCompare ||= error instanceof ApiError && error.lack !== undefined;
        if (error instanceof ApiError && error.status === 0) this.#streams.unanswered();
        // A list that the server cannot stream is read in pages at once.
        if (isStream && this.#mustList && this.#streams.failed(error)) continue;
        if (isLacking(error) && (await this.#lacks(signal))) continue;
        this.#mustList ||= isExpired(error) || this.#failures + 1 >= RELIST_AFTER;
        const late = await this.#wait(this.#withoutProtobuf(error), signal);
        // This process stood still: long enough for a server to go away, be restored and come back.
        mustCompare ||= late > STANDSTILL_MS;
      }
    }
  }

  /** The store was restored, as another kind noticed: all is listed again, and nothing counts as unchanged. `version`: that of the server. */
  listAgain(version: string): void {
    if (!this.#intake.storeRestored(version)) return;
    this.#mustList = true;
    this.#again.abort();
  }

  /** The server has no resource at this path. Returns false when the resource is required: then it is a failure. */
  async #lacks(signal: AbortSignal): Promise<boolean> {
    const { resource, clock, random, sink } = this.#options;
    const hasNext = this.#paths.lacks();
    if (!hasNext && resource.mayLack !== true) return false;
    this.#mustList = true;
    if (hasNext) return true;
    this.#failures = 1;
    sink.absent?.();
    await sleep(clock, LACKING * (0.5 + random()), signal).catch(() => undefined);
    return true;
  }

  /** Resolves with the milliseconds by which the pause lasted too long. */
  async #wait(error: unknown, signal: AbortSignal): Promise<number> {
    const { clock, random, sink } = this.#options;
    if (isExpired(error) && this.#mayRelist) {
      this.#mayRelist = false;
      return 0;
    }
    this.#failures += 1;
    const cause = error instanceof Error ? error : new Error(String(error));
    sink.failed(cause, this.#failures);
    const retryAfter = error instanceof ApiError ? error.retryAfter : undefined;
    const pause = backoff(this.#failures, random(), retryAfter);
    const until = clock.now() + pause;
    await sleep(clock, pause, signal).catch(() => undefined);
    return clock.now() - until;
  }

  /** After an unreadable protobuf answer, JSON is requested. */
  #withoutProtobuf(cause: unknown): unknown {
    const error = unreadable(cause, this.#paths.present);
    if (!(error instanceof UnreadableAnswer)) return error;
    this.#protobuf = undefined;
    return new ApiError(`${error.message}; requesting JSON from now on`, 0);
  }

  #succeeded(): void {
    this.#paths.works();
    this.#options.sink.heard();
    if (this.#failures > 0) this.#options.sink.recovered(this.#failures);
    this.#failures = 0;
  }

  async #list(signal: AbortSignal): Promise<void> {
    let version: string;
    try {
      version = await this.#pages(String(this.#options.pageSize), signal);
    } catch (error) {
      if (!isExpired(error)) throw error;
      // The continue token expired. The server offers another one, but that reads the rest at another version, and a watch from
      // there would miss changes of the first pages. So the whole list is read in one page.
      version = await this.#pages(undefined, signal);
    }
    await this.#listed(version);
  }

  #pages(limit: string | undefined, signal: AbortSignal): Promise<string> {
    const intake = this.#intake;
    intake.listBegins();
    return readPages(this.#listing(signal), limit, {
      version: (version) => void intake.wentBack(version),
      object: (received) => intake.listed(received),
    });
  }

  #listing(signal: AbortSignal): Listing {
    const { resource, client, clock } = this.#options;
    return {
      client,
      clock,
      path: this.#paths.present,
      selectors: selectorsOf(resource),
      protobuf: this.#protobuf,
      signal,
    };
  }

  /** All of a list was read. */
  async #listed(version: string): Promise<void> {
    const held = this.#intake.takeHeld();
    await new Turn(this.#options.clock).each(held, (received) => this.#intake.passOn(received));
    this.#intake.listEnds(version);
    this.#mustList = this.#again.signal.aborted;
    this.#streams.listed();
    this.#succeeded();
    this.#intake.synced();
  }

  /** A watch; it begins with a list when one is needed. */
  async #watch(signal: AbortSignal): Promise<void> {
    const { client, clock, sink } = this.#options;
    const guard = this.#mustList ? new SilenceGuard(clock, this.#paths.present) : undefined;
    if (guard) this.#intake.listBegins();
    const start = clock.now();
    const turn = new Turn(clock);
    let openedAt: number | undefined;
    let events = 0;
    const onOpen = () => {
      openedAt = clock.now();
      if (!this.#mustList) sink.opened();
    };
    const untilSilent = guard ? AbortSignal.any([signal, guard.signal]) : signal;
    const options = { protobuf: this.#protobuf, onOpen };
    turn.begin();
    try {
      for await (const event of client.watch(this.#paths.present, this.#watchQuery(), untilSilent, options)) {
        if (this.#mustList) {
          guard?.heard();
          const version = this.#intake.initialEvent(event);
          if (version !== undefined) {
            guard?.end();
            await this.#listed(version);
            sink.opened();
          }
        } else {
          turn.begin();
          this.#intake.event(event);
          events += 1;
          this.#mayRelist = true;
          this.#succeeded();
        }
        if (!turn.isOver()) continue;
        await breath();
        turn.begin();
      }
      if (this.#mustList) throw new ApiError(`the list of ${this.#paths.present} as a stream broke off`, 0);
    } catch (error) {
      if (guard?.signal.aborted) throw guard.signal.reason;
      // The break of a watch that was open for a while is a first failure: a proxy may end silent connections again and again.
      if (!this.#mustList && openedAt !== undefined && clock.now() - openedAt >= SHORT_WATCH) this.#failures = 0;
      throw error;
    } finally {
      guard?.end();
    }
    // The server ends every watch after a while. This is no error: the next watch resumes from the last version.
    if (events === 0 && clock.now() - start < SHORT_WATCH) {
      throw new ApiError('the server ended the watch at once', 0);
    }
    this.#mayRelist = true;
    this.#succeeded();
  }

  #watchQuery(): Query {
    return {
      ...selectorsOf(this.#options.resource),
      watch: '1',
      allowWatchBookmarks: 'true',
      ...(this.#mustList ? STREAM_QUERY : { resourceVersion: this.#intake.version }),
      timeoutSeconds: String(Math.round(WATCH_SECONDS * (1 + this.#options.random()))),
    };
  }
}

/** The paths of a resource in versions of the API, and the one in use. */
class Paths {
  readonly #all: readonly string[];
  /** Paths at which the server had nothing since a request succeeded. */
  readonly #without = new Set<string>();
  present: string;

  constructor({ path, olderPath = path }: Resource) {
    this.#all = [path, olderPath];
    this.present = path;
  }

  /** The server has nothing at the present path. Returns whether another path is left; otherwise the newest one is in use again. */
  lacks(): boolean {
    this.#without.add(this.present);
    const next = this.#all.find((path) => !this.#without.has(path));
    if (next === undefined) this.#without.clear();
    this.present = next ?? this.#all[0] ?? this.present;
    return next !== undefined;
  }

  works(): void {
    this.#without.clear();
  }
}

function selectorsOf({ labelSelector, fieldSelector }: Resource): Query {
  return { labelSelector, fieldSelector };
}

function isExpired(error: unknown): boolean {
  return error instanceof ApiError && error.status === GONE;
}

/** The API server itself has no such resource; the answer of a proxy in front of it lacks this reason. */
function isLacking(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404 && error.reasons.includes('NotFound');
}

// The wait after the n-th failure in a row, as in client-go's reflector: 0.8 s doubling to 30 s, with jitter.

const FIRST_PAUSE_MS = 800;
const MAX_PAUSE_MS = 30_000;

/** Milliseconds, at least `retryAfter` (a Retry-After of the server). `failures` counts from 1; `random` is in [0, 1). */
export function backoff(failures: number, random: number, retryAfter = 0): number {
  const base = doubledWait(failures, FIRST_PAUSE_MS, MAX_PAUSE_MS);
  return Math.max(retryAfter, base * (0.5 + random));
}
