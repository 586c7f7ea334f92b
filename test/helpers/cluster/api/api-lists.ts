/** Pages of lists and lines of watches, as a kube-apiserver makes them from its store. */
import { INITIAL_EVENTS_END } from '../../../../src/proxy/model/labels.ts';
import { CONTINUE_EXPIRED, pageToken, readPageToken, type StatusBody, type Target } from './api-answers.ts';
import { type Selects, selects } from './api-selectors.ts';
import type { ApiObject, ApiStore, Change, Collection, ToldObject } from './api-store.ts';

/** A page, or a refusal in the words of a Status. */
export type ListPage =
  | { readonly kind: 'page'; readonly head: ListHead; readonly items: readonly ApiObject[] }
  | Refused;

export interface ListHead {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: object;
}

interface Refused {
  readonly kind: 'refused';
  readonly status: number;
  readonly body: object;
}

type PageStart = { readonly kind: 'page'; readonly version: number; readonly start: string } | Refused;

/** `isExpired`: whether the token of a further page is too old although the store still knows its version. Throws SelectorInvalid. */
export function listPage(
  store: ApiStore,
  { collection, namespace }: Target,
  query: URLSearchParams,
  isExpired: () => boolean = () => false,
): ListPage {
  const from = pageStart(store, query.get('continue'), isExpired);
  if (from.kind === 'refused') return from;
  // The real server does not count what is left when a selector was given.
  const isCounted = !query.has('labelSelector') && !query.has('fieldSelector');
  const limit = Number(query.get('limit') ?? 0) || Number.POSITIVE_INFINITY;
  const { version } = from;
  const { items, last, left } = page(store, {
    ...from,
    collection,
    namespace,
    selected: selects(query),
    limit,
    isCounted,
  });
  const metadata = {
    resourceVersion: String(version),
    ...(left === 0 ? {} : { continue: pageToken(version, last) }),
    ...(left > 0 && isCounted ? { remainingItemCount: left } : {}),
  };
  return { kind: 'page', head: { kind: `${collection.kind}List`, apiVersion: collection.apiVersion, metadata }, items };
}

interface PageInput {
  readonly collection: Collection;
  readonly namespace: string | undefined;
  readonly selected: Selects;
  readonly limit: number;
  readonly isCounted: boolean;
  readonly version: number;
  readonly start: string;
}

interface Page {
  readonly items: readonly ApiObject[];
  /** A page token names the last key within what was asked for. */
  readonly last: string;
  /** How many are left; at most 1 when they are not counted. */
  readonly left: number;
}

function page(store: ApiStore, { collection, namespace, selected, limit, isCounted, version, start }: PageInput): Page {
  const within = namespace === undefined ? '' : `${namespace}/`;
  const items: ApiObject[] = [];
  let [last, left] = ['', 0];
  for (const [key, object] of store.from(version, collection.kind, within + start)) {
    if (!key.startsWith(within)) break;
    if (!selected(object)) continue;
    if (items.length === limit) {
      left += 1;
      if (!isCounted) break;
    } else {
      items.push(object);
      last = key.slice(within.length);
    }
  }
  return { items, last, left };
}

function pageStart(store: ApiStore, token: string | null, isExpired: () => boolean): PageStart {
  if (token === null || token === '') return { kind: 'page', version: store.version, start: '' };
  const read = readPageToken(token);
  if (read === undefined) {
    const why = "continue key is not valid: invalid character 'o' in literal null (expecting 'u')";
    return { kind: 'refused', status: 400, body: { message: `invalid continue token: ${why}` } };
  }
  const { rv, start } = read;
  // A token with version -1 was given out with a 410: it reads on at whatever version it finds.
  if (rv === -1) return { kind: 'page', version: store.version, start };
  if (rv >= store.oldest && !isExpired()) return { kind: 'page', version: rv, start };
  const onward = pageToken(-1, start.slice(0, -1));
  return { kind: 'refused', status: 410, body: { metadata: { continue: onward }, message: CONTINUE_EXPIRED } };
}

/** What a watch was asked for. */
export interface Watched {
  readonly collection: Collection;
  readonly namespace: string | undefined;
  readonly selected: Selects;
  /** Changes up to this version are behind it; a version of the future is waited for. */
  readonly after: number;
}

/** What a watch is told. */
export interface ToldEvent {
  readonly type: string;
  /** A Status in an event of the type ERROR. */
  readonly object: ToldObject;
}

/**
 * How a watch hears of a change; undefined when it does not. An object that a write makes match a selector is added for its
 * watchers, one that no longer matches is deleted.
 */
export function changeEvent(watched: Watched, { kind, version, before, after }: Change): ToldEvent | undefined {
  if (kind !== watched.collection.kind || version <= watched.after) return undefined;
  if (isWatched(watched, after)) return { type: isWatched(watched, before) ? 'MODIFIED' : 'ADDED', object: after };
  if (!isWatched(watched, before)) return undefined;
  // The last state, with the version of the deletion.
  const last = { ...before, metadata: { ...before.metadata, resourceVersion: String(version) } };
  return { type: 'DELETED', object: last };
}

/** The end of a watch that cannot go on. */
export function errorEvent(status: StatusBody): ToldEvent {
  return { type: 'ERROR', object: { metadata: {}, ...status } };
}

export function isWatched(
  { namespace, selected }: Pick<Watched, 'namespace' | 'selected'>,
  object: ApiObject | undefined,
): object is ApiObject {
  if (object === undefined) return false;
  return (namespace === undefined || object.metadata.namespace === namespace) && selected(object);
}

/** How a server takes a request for a streaming list (KEP-3157). `unknown`: it does not know the parameter, sends objects and no end. */
export type Streaming = 'refused' | 'served' | 'unknown';

export function asksForStream(query: URLSearchParams): boolean {
  return query.get('sendInitialEvents') === 'true';
}

/** What a watch begins with that asks for all objects: from no version, or as a streaming list, which has an end. */
export function* initialEvents(store: ApiStore, watched: Watched, hasEnd: boolean): Generator<ToldEvent> {
  const { version } = store;
  for (const [, object] of store.from(version, watched.collection.kind))
    if (isWatched(watched, object)) yield { type: 'ADDED', object };
  if (hasEnd) yield bookmarkEvent(watched, version, { [INITIAL_EVENTS_END]: 'true' });
}

/** A bookmark of a watch that wants them, at this version. */
export function bookmarkEvent(
  { collection }: Pick<Watched, 'collection'>,
  version: number,
  annotations?: Readonly<Record<string, string>>,
): ToldEvent {
  const { kind, apiVersion, bookmark } = collection;
  const metadata = { resourceVersion: String(version), creationTimestamp: null, ...(annotations && { annotations }) };
  return { type: 'BOOKMARK', object: { kind, apiVersion, metadata, ...bookmark } };
}
