/**
 * List and watch of one resource, as client-go's reflector does it.
 *
 * Goals, and how each is met:
 * 1. Never give up: every failure is followed by a retry, with jitter, and Retry-After is honoured.
 * 2. Never miss a change: a watch resumes from the last resourceVersion, bookmarks advance it, and 410 in either
 *    form (a status, or an event in the stream) leads to a new list; objects that are not in it are reported as gone.
 * 3. Silence is no failure: a server sends nothing on a watch while nothing changes. The connection itself is probed
 *    (`http2.ts`, `http1.ts`).
 * 4. Block the event loop only briefly: lists come in pages.
 * 5. Notice a server whose store was restored from a backup: a resourceVersion that goes back leads to a new list, in which
 *    no object counts as unchanged. resourceVersions compare as numbers (KEP-5504). A watch from a version that is still to come is no
 *    error: the server says nothing until it has caught up. So a server that was away is asked for its version first.
 *
 * Streaming lists (sendInitialEvents) are not used: servers before 1.34 refuse them, and a list in pages does the same.
 */
import { breath, type Clock, sleep } from '../host/clock.ts';
import { backoff } from './backoff.ts';
import { type ApiClient, ApiError, type Query, UnreadableAnswer, unreadable, type WatchEvent } from './client.ts';
import { KnownObjects } from './known-objects.ts';
import type { KindReader } from './protobuf/kind.ts';
import { isOlder } from './resource-version.ts';
import { fieldsOf, statusOf } from './status.ts';
import { Turn } from './turn.ts';

export interface Resource {
  /** `/api/v1/services` */
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Reads lists and watches in protobuf; without it, or where the server has no protobuf, they are JSON. */
  readonly protobuf?: KindReader;
}

/** An object as it was received, with what the reflector reads of it. */
interface ReceivedObject {
  readonly object: unknown;
  /** `namespace/name`, or the name of an object without a namespace. */
  readonly key: string;
  /** "" for none. */
  readonly version: string;
}

export interface ReflectorSink {
  set(key: string, object: unknown): void;
  gone(key: string): void;
  /** The first list is complete. Called once. */
  synced(): void;
  /** All changes up to this resourceVersion were passed on. */
  reached?(version: string): void;
  /** The server sent something. */
  heard(): void;
  /** A watch is open; the server has sent nothing on it yet. */
  opened(): void;
  /** The n-th failure in a row, from 1; a retry follows. */
  failed(error: Error, failures: number): void;
  /** A request succeeded after failures. */
  recovered(failures: number): void;
  /** The server's resourceVersions went back: its store was restored. Everything is listed again, and no object counts as unchanged. */
  restored(from: string, to: string): void;
}

export interface ReflectorOptions {
  readonly resource: Resource;
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly sink: ReflectorSink;
  readonly random: () => number;
  /** Objects a page. */
  readonly pageSize: number;
}

/** Objects a page of a list: 250 slices are about 1 MB, parsed in a few milliseconds; two pages are under way at a time. */
export const PAGE = 250;
/** Pages of a list: 2.5 million objects. */
export const MOST_PAGES = 10_000;
/** Seconds after which the server ends a watch: client-go asks for 5 to 10 minutes. */
const WATCH_SECONDS = 300;
/** Milliseconds; a watch that ends sooner, without an event, counts as a failure. */
export const SHORT_WATCH = 1000;
/** Failed watches in a row after which the list is read again. */
const RELIST_AFTER = 5;

const GONE = 410;

export class Reflector {
  readonly #options: ReflectorOptions;
  readonly #known = new KnownObjects();
  #version = '';
  #failures = 0;
  #isSynced = false;
  /** Undefined once something could not be decoded. */
  #protobuf: KindReader | undefined;
  /** An expired version leads to an immediate list, but only once until a watch works again. */
  #mayRelist = true;

  constructor(options: ReflectorOptions) {
    this.#options = options;
    this.#protobuf = options.resource.protobuf;
  }

  /** List and watch until the signal aborts. Never rejects for another reason. */
  async run(signal: AbortSignal): Promise<void> {
    let mustList = true;
    // The server was away: its store may be an older one.
    let mustCompare = false;
    while (!signal.aborted) {
      try {
        if (mustCompare && !mustList) mustList = await this.#wentBack(signal);
        mustCompare = false;
        if (mustList) await this.#list(signal);
        mustList = false;
        await this.#watch(signal);
      } catch (error) {
        if (signal.aborted) return;
        mustCompare ||= error instanceof ApiError && error.lack !== undefined;
        mustList ||= isExpired(error) || this.#failures + 1 >= RELIST_AFTER;
        await this.#wait(this.#withoutProtobuf(error), signal);
      }
    }
  }

  async #wait(error: unknown, signal: AbortSignal): Promise<void> {
    const { clock, random, sink } = this.#options;
    if (isExpired(error) && this.#mayRelist) {
      this.#mayRelist = false;
      return;
    }
    this.#failures += 1;
    const cause = error instanceof Error ? error : new Error(String(error));
    sink.failed(cause, this.#failures);
    const retryAfter = error instanceof ApiError ? error.retryAfter : undefined;
    await sleep(clock, backoff(this.#failures, random(), retryAfter), signal).catch(() => undefined);
  }

  /** After an unreadable protobuf answer, ask for JSON. */
  #withoutProtobuf(cause: unknown): unknown {
    const error = unreadable(cause, this.#options.resource.path);
    if (!(error instanceof UnreadableAnswer)) return error;
    this.#protobuf = undefined;
    return new ApiError(`${error.message}; requesting JSON from now on`, 0);
  }

  #succeeded(): void {
    this.#options.sink.heard();
    if (this.#failures > 0) this.#options.sink.recovered(this.#failures);
    this.#failures = 0;
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { sink, pageSize } = this.#options;
    let version: string;
    try {
      version = await this.#pages(String(pageSize), signal);
    } catch (error) {
      if (!isExpired(error)) throw error;
      // The continue token expired. The server offers another one, but that reads the rest at another
      // version, and a watch from there would miss changes of the first pages: read the whole list at once instead.
      version = await this.#pages(undefined, signal);
    }
    this.#version = version;
    for (const key of this.#known.listEnds()) sink.gone(key);
    sink.reached?.(version);
    this.#succeeded();
    if (!this.#isSynced) sink.synced();
    this.#isSynced = true;
  }

  /** Whether the server's version is older than the last one that was heard of. Costs a list of one object. */
  async #wentBack(signal: AbortSignal): Promise<boolean> {
    const { resource, client } = this.#options;
    const answer = await client.get(resource.path, { ...this.#selectors(), limit: '1' }, signal, this.#protobuf);
    const { version } = asList(answer, resource);
    if (!isOlder(version, this.#version)) return false;
    this.#distrust(version);
    return true;
  }

  /** Read pages to the end; returns the resourceVersion of the list. */
  async #pages(limit: string | undefined, signal: AbortSignal): Promise<string> {
    const { resource, client, clock } = this.#options;
    const turn = new Turn(clock);
    const ask = (next?: string) =>
      client
        .get(resource.path, { ...this.#selectors(), limit, continue: next }, signal, this.#protobuf)
        .then((it) => asList(it, resource));
    this.#known.listBegins();
    let asked = ask();
    for (let token: string | undefined, count = 1; ; count++) {
      const page = await asked;
      if (isOlder(page.version, this.#version)) this.#distrust(page.version);
      const isLast = page.continue === undefined || page.continue === '';
      if (!isLast) {
        if (page.continue === token || count === MOST_PAGES)
          throw new ApiError(
            `${resource.path}: the list does not end: page ${count} leads to itself or to too many others`,
            0,
          );
        token = page.continue;
        // The server prepares the next page while this one is processed. A failure surfaces when the page is awaited.
        asked = ask(page.continue);
        asked.catch(() => undefined);
      }
      turn.begin();
      for (const item of page.items) {
        this.#seen(receivedOf(item, resource));
        if (!turn.isOver()) continue;
        await breath();
        turn.begin();
      }
      if (isLast) return page.version;
    }
  }

  /** After a restore an object with the same version may differ. */
  #distrust(version: string): void {
    this.#options.sink.restored(this.#version, version);
    this.#known.distrust();
    this.#version = '';
  }

  #seen({ object, key, version }: ReceivedObject): void {
    if (!this.#known.isNews(key, version)) return;
    this.#options.sink.set(key, object);
    this.#known.set(key, version);
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { resource, client, clock, random, sink } = this.#options;
    const start = clock.now();
    const turn = new Turn(clock);
    let openedAt: number | undefined;
    let events = 0;
    const query: Query = {
      ...this.#selectors(),
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: this.#version,
      timeoutSeconds: String(Math.round(WATCH_SECONDS * (1 + random()))),
    };
    const onOpen = () => {
      openedAt = clock.now();
      sink.opened();
    };
    try {
      for await (const event of client.watch(resource.path, query, signal, { protobuf: this.#protobuf, onOpen })) {
        turn.begin();
        this.#event(event);
        events += 1;
        this.#mayRelist = true;
        this.#succeeded();
        if (turn.isOver()) await breath();
      }
    } catch (error) {
      // A watch that was open for a while and broke is a first failure: something on the way may end silent connections again and again.
      if (openedAt !== undefined && clock.now() - openedAt >= SHORT_WATCH) this.#failures = 0;
      throw error;
    }
    // The server ends every watch after a while: no error; the next watch resumes from the last version.
    if (events === 0 && clock.now() - start < SHORT_WATCH) {
      throw new ApiError('the server ended the watch at once', 0);
    }
    this.#mayRelist = true;
    this.#succeeded();
  }

  #event({ type, object }: WatchEvent): void {
    const { sink, resource } = this.#options;
    if (type === 'ERROR') {
      const { code } = fieldsOf(object);
      throw new ApiError(statusOf(object).message ?? 'the watch failed', typeof code === 'number' ? code : 0);
    }
    const { key, version } = receivedOf(object, resource, type === 'BOOKMARK');
    if (version === '') throw new ApiError(`the watch of ${resource.path} sent an event without a resourceVersion`, 0);
    if (isOlder(version, this.#version)) {
      const before = this.#version;
      this.#distrust(version);
      throw new ApiError(`the API server's resourceVersion went back from ${before} to ${version}`, GONE);
    }
    if (type === 'DELETED') {
      sink.gone(key);
      this.#known.delete(key);
    } else if (type === 'ADDED' || type === 'MODIFIED') {
      sink.set(key, object);
      this.#known.set(key, version);
    }
    // The next watch skips only events that were processed.
    this.#version = version;
    sink.reached?.(version);
  }

  #selectors(): Query {
    const { labelSelector, fieldSelector } = this.#options.resource;
    return { labelSelector, fieldSelector };
  }
}

function isExpired(error: unknown): boolean {
  return error instanceof ApiError && error.status === GONE;
}

/** Throws ApiError for what is no object of the API. The object of a bookmark has no name. */
function receivedOf(object: unknown, { path }: Resource, isBookmark = false): ReceivedObject {
  const { metadata } = (object ?? {}) as { readonly metadata?: unknown };
  const { name = '', namespace = '', resourceVersion = '' } = (metadata ?? {}) as Readonly<Record<string, unknown>>;
  const isNamed = typeof name === 'string' && typeof namespace === 'string' && (name !== '' || isBookmark);
  if (!isNamed || typeof resourceVersion !== 'string')
    throw new ApiError(
      `${path}: the answer has something without a name or a resourceVersion in place of an object`,
      0,
    );
  return { object, key: namespace === '' ? name : `${namespace}/${name}`, version: resourceVersion };
}

function asList(
  answer: unknown,
  resource: Resource,
): { items: Iterable<unknown>; continue: string | undefined; version: string } {
  const { items, metadata } = (answer ?? {}) as { readonly items?: unknown; readonly metadata?: unknown };
  const { continue: next, resourceVersion: version } = (metadata ?? {}) as Readonly<Record<string, unknown>>;
  const isList = items === null || items === undefined || isIterable(items);
  if (typeof version !== 'string' || !isList || (typeof next !== 'string' && next !== undefined && next !== null))
    throw new ApiError(`${resource.path}: the answer is not a list`, 0);
  return { items: items ?? [], continue: next ?? undefined, version };
}

/** Of JSON an array; a reader of protobuf gives objects that are decoded as they are taken. */
function isIterable(items: unknown): items is Iterable<unknown> {
  return typeof items === 'object' && items !== null && Symbol.iterator in items;
}
