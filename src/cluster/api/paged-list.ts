/**
 * Reads the list of a resource in pages, as of one moment. No request names a resourceVersion, so the server answers with the latest
 * state (KEP-2340), and a list never goes back in time. `resourceVersion=0` would accept any state that the server still has, even one
 * from before a restart of the agent (k8s#59848).
 */
import { breath, type Clock } from '../../base/clock.ts';
import { type ApiClient, ApiError, type Query } from './client.ts';
import { type ReceivedObject, receivedOf } from './intake.ts';
import type { KindReader } from './protobuf/kind.ts';

/** Objects of a page: 250 slices are about 1 MB, parsed in a few milliseconds; two pages are under way at a time. */
export const PAGE = 250;
/** Limit of pages of a list: 2.5 million objects. */
export const MAX_PAGES = 10_000;

export interface Listing {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly path: string;
  readonly selectors: Query;
  readonly protobuf: KindReader | undefined;
  readonly signal: AbortSignal;
}

interface Page {
  readonly items: Iterable<unknown>;
  readonly continue: string | undefined;
  readonly version: string;
}

/** The latest resourceVersion of the server. Costs a list of one object. Throws ApiError. */
export async function presentVersion(listing: Listing): Promise<string> {
  return (await requestPage(listing, { limit: '1' })).version;
}

interface ListSink {
  /** The version of the list, before its objects. */
  version(version: string): void;
  object(object: ReceivedObject): void;
}

/** Reads all pages, or one page without `limit`. Returns the resourceVersion of the list. Throws ApiError. */
export async function readPages(listing: Listing, limit: string | undefined, sink: ListSink): Promise<string> {
  const { path } = listing;
  const turn = new Turn(listing.clock);
  let pending = requestPage(listing, { limit });
  for (let token: string | undefined, count = 1; ; count++) {
    const page = await pending;
    sink.version(page.version);
    const isLast = page.continue === undefined || page.continue === '';
    if (!isLast) {
      if (page.continue === token || count === MAX_PAGES)
        throw new ApiError(`${path}: the list does not end: page ${count} leads to itself or to too many others`, 0);
      token = page.continue;
      // The server prepares the next page while this one is processed. A failure surfaces where the page is awaited.
      pending = requestPage(listing, { limit, continue: page.continue });
      pending.catch(() => undefined);
    }
    await turn.each(page.items, (item) => sink.object(receivedOf(item, path)));
    if (isLast) return page.version;
  }
}

async function requestPage({ client, path, selectors, signal, protobuf }: Listing, query: Query): Promise<Page> {
  return pageOf(await client.get(path, { ...selectors, ...query }, signal, protobuf), path);
}

function pageOf(answer: unknown, path: string): Page {
  const { items, metadata } = (answer ?? {}) as { readonly items?: unknown; readonly metadata?: unknown };
  const { continue: next, resourceVersion: version } = (metadata ?? {}) as Readonly<Record<string, unknown>>;
  const isList = items === null || items === undefined || isIterable(items);
  if (typeof version !== 'string' || !isList || (typeof next !== 'string' && next !== undefined && next !== null))
    throw new ApiError(`${path}: the answer is not a list`, 0);
  return { items: items ?? [], continue: next ?? undefined, version };
}

/** JSON gives an array, and protobuf an iterator that decodes each object when it is reached. */
function isIterable(items: unknown): items is Iterable<unknown> {
  return typeof items === 'object' && items !== null && Symbol.iterator in items;
}

/** Limits of one turn: milliseconds of work, and pieces of it. */
const MAX_TURN_MS = 8;
const MAX_TURN_PIECES = 100;

/** Divides long work into turns, between which other work of the event loop runs. */
export class Turn {
  readonly #clock: Clock;
  #since = 0;
  #used = 0;
  #pieces = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `take` with each item. */
  async each<T>(items: Iterable<T>, take: (item: T) => void): Promise<void> {
    this.begin();
    for (const item of items) {
      take(item);
      if (!this.isOver()) continue;
      await breath();
      this.begin();
    }
  }

  /** Work begins, or resumes after a pause. */
  begin(): void {
    this.#since = this.#clock.now();
  }

  /** A piece of work is done. Returns whether other work should run now. */
  isOver(): boolean {
    const now = this.#clock.now();
    this.#used += now - this.#since;
    this.#since = now;
    this.#pieces += 1;
    if (this.#used < MAX_TURN_MS && this.#pieces < MAX_TURN_PIECES) return false;
    this.#used = 0;
    this.#pieces = 0;
    return true;
  }
}
