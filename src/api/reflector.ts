/**
 * List and watch of one resource, as client-go's reflector does it.
 *
 * Goals, and how each is met:
 * 1. Never give up: every failure is followed by a retry, with jitter, and Retry-After is honoured.
 * 2. Never miss a change: a watch goes on from the last resourceVersion, bookmarks move that forward, and 410 in either
 *    form (a status, or an event in the stream) leads to a new list; what is not in it is told to be gone.
 * 3. Silence is no failure: a server says nothing on a watch of what nobody changes. Whether the connection lives is asked of
 *    the connection (`http2.ts`, `http1.ts`).
 * 4. Hold the event loop briefly: lists come in pages.
 * 5. Notice a server whose store was restored from a backup: a resourceVersion that goes back leads to a new list, in which
 *    nothing that was known is taken for the same. They can be compared as numbers (KEP-5504).
 *
 * Streaming lists (sendInitialEvents) are not used: servers before 1.34 refuse them, and a list in pages does the same.
 */
import { breath, type Clock, sleep } from '../host/clock.ts';
import { backoff } from './backoff.ts';
import { type ApiClient, ApiError, type ProtobufReader, type Query, UnreadableAnswer } from './client.ts';

export interface Resource {
  /** `/api/v1/services` */
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** Reads its list from protobuf; without it, or where the server does not have it, the list is JSON. */
  readonly protobuf?: ProtobufReader;
}

/** The little of an object that the reflector reads. */
interface ApiObject {
  readonly metadata?: { readonly resourceVersion?: string; readonly name?: string; readonly namespace?: string };
}

export interface ReflectorSink {
  set(key: string, object: unknown): void;
  gone(key: string): void;
  /** The first list is complete. Called once. */
  synced(): void;
  /** All that happened up to this resourceVersion was told. */
  reached?(version: string): void;
  /** The server said something. */
  heard(): void;
  /** A watch stands; nothing was heard on it yet. */
  opened(): void;
  /** The n-th failure in a row (1 for the first), and what happens next. */
  failed(error: Error, failures: number): void;
  /** A request succeeded after failures. */
  recovered(failures: number): void;
  /** The server's versions went back: its store was restored. All is listed again, and nothing known is taken for the same. */
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

/** Objects a page of a list: 250 slices are about 1 MB, parsed in a few milliseconds; two pages are on their way at a time. */
export const PAGE = 250;
/** Seconds after which the server ends a watch: client-go asks for 5 to 10 minutes. */
const WATCH_SECONDS = 300;
/** A watch that ends sooner, with nothing said, is a failure rather than the server's habit. Milliseconds. */
export const SHORT_WATCH = 1000;
/** Objects of a page that are taken in at a time: slices of 100 endpoints take about half a millisecond each. */
const ITEMS_A_BREATH = 50;
/** Failed watches in a row after which the list is read again. */
const RELIST_AFTER = 5;

const GONE = 410;

export class Reflector {
  readonly #options: ReflectorOptions;
  /** resourceVersion of each object: a relist tells only what differs. */
  #known = new Map<string, string>();
  #version = '';
  #failures = 0;
  #isSynced = false;
  /** What a list in protobuf is read with, until one could not be. */
  #protobuf: ProtobufReader | undefined;
  /** An expired version leads to a list at once, but only once before a watch works again. */
  #mayRelist = true;

  constructor(options: ReflectorOptions) {
    this.#options = options;
    this.#protobuf = options.resource.protobuf;
  }

  /** List and watch until the signal aborts. Never rejects for another reason. */
  async run(signal: AbortSignal): Promise<void> {
    let mustList = true;
    while (!signal.aborted) {
      try {
        if (mustList) await this.#list(signal);
        mustList = false;
        await this.#watch(signal);
      } catch (error) {
        if (signal.aborted) return;
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

  /** What could not be read as protobuf is asked for as JSON. */
  #withoutProtobuf(error: unknown): unknown {
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
    const before = this.#known;
    const seen = new Map<string, string>();
    let version: string;
    try {
      version = await this.#pages(String(pageSize), seen, signal);
    } catch (error) {
      if (!isExpired(error)) throw error;
      // The token for the rest went stale. The server offers one to go on with, but it reads the rest at another
      // version, and a watch from there would miss changes of the first pages: read all of it at once instead.
      seen.clear();
      version = await this.#pages(undefined, seen, signal);
    }
    this.#known = seen;
    this.#version = version;
    for (const key of before.keys()) if (!seen.has(key)) sink.gone(key);
    sink.reached?.(version);
    this.#succeeded();
    if (!this.#isSynced) sink.synced();
    this.#isSynced = true;
  }

  /** Read pages to the end; returns the resourceVersion of the list. */
  async #pages(limit: string | undefined, seen: Map<string, string>, signal: AbortSignal): Promise<string> {
    const { resource, client } = this.#options;
    const ask = (next?: string) =>
      client
        .get(resource.path, { ...this.#selectors(), limit, continue: next }, signal, this.#protobuf)
        .then((it) => asList(it, resource));
    let asked = ask();
    for (;;) {
      const page = await asked;
      if (isOlder(page.version, this.#version)) this.#distrust(page.version);
      const isLast = page.continue === undefined || page.continue === '';
      if (!isLast) {
        // The server works on the next page while this one is taken in. Why it fails is seen when it is waited for.
        asked = ask(page.continue);
        asked.catch(() => undefined);
      }
      for (const [i, item] of page.items.entries()) {
        if (i % ITEMS_A_BREATH === ITEMS_A_BREATH - 1) await breath();
        this.#seen(item, seen);
      }
      if (isLast) return page.version;
    }
  }

  /** An object of the same version may be another one now. */
  #distrust(version: string): void {
    this.#options.sink.restored(this.#version, version);
    for (const key of this.#known.keys()) this.#known.set(key, '');
    this.#version = '';
  }

  #seen(item: ApiObject, seen: Map<string, string>): void {
    const key = keyOf(item);
    const version = item.metadata?.resourceVersion ?? '';
    seen.set(key, version);
    if (version !== '' && this.#known.get(key) === version) return;
    this.#options.sink.set(key, item);
    this.#known.set(key, version);
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { resource, client, clock, random, sink } = this.#options;
    const start = clock.now();
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
      for await (const line of client.lines(resource.path, query, signal, onOpen)) {
        this.#event(line);
        events += 1;
        this.#mayRelist = true;
        this.#succeeded();
      }
    } catch (error) {
      // One that stood for a while and broke is the first failure: something on the way may end what is silent, again and again.
      if (openedAt !== undefined && clock.now() - openedAt >= SHORT_WATCH) this.#failures = 0;
      throw error;
    }
    // The server ends every watch after a while: that is no error, and the next one goes on from the last version.
    if (events === 0 && clock.now() - start < SHORT_WATCH) {
      throw new ApiError('the server ended the watch at once', 0);
    }
    this.#mayRelist = true;
    this.#succeeded();
  }

  #event(line: string): void {
    const { sink, resource } = this.#options;
    let event: { type?: string; object?: ApiObject & { code?: number; message?: string } };
    try {
      event = JSON.parse(line);
    } catch {
      throw new ApiError(`the watch of ${resource.path} sent a line that is not JSON: ${line.slice(0, 100)}`, 0);
    }
    const { type, object } = event;
    if (type === 'ERROR') throw new ApiError(object?.message ?? 'the watch failed', object?.code ?? 0);
    const version = object?.metadata?.resourceVersion;
    if (object === undefined || version === undefined) {
      throw new ApiError(`the watch of ${resource.path} sent an event without a resourceVersion`, 0);
    }
    if (isOlder(version, this.#version)) {
      const before = this.#version;
      this.#distrust(version);
      throw new ApiError(`the API server's resourceVersion went back from ${before} to ${version}`, GONE);
    }
    const key = keyOf(object);
    if (type === 'DELETED') {
      sink.gone(key);
      this.#known.delete(key);
    } else if (type === 'ADDED' || type === 'MODIFIED') {
      sink.set(key, object);
      this.#known.set(key, version);
    }
    // Only what was taken in is passed over by the next watch.
    this.#version = version;
    sink.reached?.(version);
  }

  #selectors(): Query {
    const { labelSelector, fieldSelector } = this.#options.resource;
    return { labelSelector, fieldSelector };
  }
}

/** Whether a version was given out before another: they are numbers that only grow (KEP-5504). What is no number is not compared. */
function isOlder(version: string, than: string): boolean {
  if (!/^\d+$/.test(version) || !/^\d+$/.test(than)) return false;
  return version.length === than.length ? version < than : version.length < than.length;
}

function isExpired(error: unknown): boolean {
  return error instanceof ApiError && error.status === GONE;
}

function keyOf(object: ApiObject): string {
  const { namespace, name = '' } = object.metadata ?? {};
  return namespace === undefined ? name : `${namespace}/${name}`;
}

function asList(
  answer: unknown,
  resource: Resource,
): { items: ApiObject[]; continue: string | undefined; version: string } {
  const { items, metadata } = (answer ?? {}) as {
    items?: unknown;
    metadata?: { continue?: string; resourceVersion?: string };
  };
  if (metadata?.resourceVersion === undefined || (items !== null && items !== undefined && !Array.isArray(items))) {
    throw new ApiError(`${resource.path}: the answer is not a list`, 0);
  }
  return { items: (items ?? []) as ApiObject[], continue: metadata.continue, version: metadata.resourceVersion };
}
