/** What the simulated API server answers, before anything goes wrong on the way: the words and bytes of a real one. */
import { STATUS_CODES } from 'node:http';
import {
  NO_STREAMING,
  type StatusBody,
  statusBody,
  type Target,
  targetOf,
} from '../../helpers/cluster/api/api-answers.ts';
import { type Form, formOf } from '../../helpers/cluster/api/api-forms.ts';
import { asksForStream, listPage, type Watched } from '../../helpers/cluster/api/api-lists.ts';
import { listBytes, NotProtobuf, PROTOBUF_TYPE, statusBytes } from '../../helpers/cluster/api/api-protobuf.ts';
import { SelectorInvalid, selects } from '../../helpers/cluster/api/api-selectors.ts';
import { type ApiObject, type ApiStore, type Change, itemText } from '../../helpers/cluster/api/api-store.ts';
import { write } from '../../helpers/cluster/api/api-writes.ts';

/** A request, as the server understands it. */
export interface Asked {
  readonly method: string;
  readonly url: URL;
  readonly accept: string;
  /** JSON. */
  readonly body: string | undefined;
}

/** An answer that is complete, or a watch that goes on. */
export type Answer = WholeAnswer | WatchAnswer;

export interface WholeAnswer {
  readonly kind: 'whole';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  /** What the request wrote. */
  readonly change?: Change;
}

export interface WatchAnswer {
  readonly kind: 'watch';
  readonly watched: Watched;
  readonly wantsBookmarks: boolean;
  /** It begins with a list, whose end is told. */
  readonly isStream: boolean;
  /** Seconds; 0: without an end. */
  readonly timeout: number;
  /** A Status: the watch ends with it. */
  readonly problem: StatusBody | undefined;
  readonly form: Form;
}

const JSON_TYPE = { 'content-type': 'application/json' };

/** Whether an answer in protobuf is wanted: what a client names first is what it gets. */
export function takesProtobuf({ accept }: Pick<Asked, 'accept'>): boolean {
  return accept.startsWith(PROTOBUF_TYPE['content-type']);
}

export function reasonPhrase(status: number): string {
  return STATUS_CODES[status] ?? '';
}

export function statusAnswer(
  asked: Pick<Asked, 'accept'>,
  status: number,
  more: object = {},
  headers: Readonly<Record<string, string>> = {},
): WholeAnswer {
  const body = statusBody(status, more);
  const bytes = takesProtobuf(asked) ? protobuf(() => statusBytes(body)) : undefined;
  if (bytes === undefined) return jsonAnswer(status, body, headers);
  return { kind: 'whole', status, headers: { ...PROTOBUF_TYPE, ...headers }, bytes };
}

export function jsonAnswer(status: number, body: object, headers: Readonly<Record<string, string>> = {}): WholeAnswer {
  return textAnswer(status, JSON.stringify(body), headers);
}

function textAnswer(status: number, text: string, headers: Readonly<Record<string, string>>): WholeAnswer {
  return { kind: 'whole', status, headers: { ...JSON_TYPE, ...headers }, bytes: Buffer.from(text) };
}

export interface AnswerOptions {
  /** Takes an Event that was created. */
  readonly onEvent: (event: ApiObject) => void;
  /** Kinds that this server does not have. */
  readonly missing: ReadonlySet<string>;
  /** Whether a watch from a version that is too old is refused by the status 410 rather than by an event. */
  readonly refusesOld: boolean;
  /** Whether a list can be a stream (KEP-3157). */
  readonly streamsLists: boolean;
}

/** Changes the store where the request writes. */
export function answerTo(store: ApiStore, asked: Asked, options: AnswerOptions): Answer {
  const { method, url, body } = asked;
  if (method === 'POST' && url.pathname.endsWith('/events')) {
    const event = JSON.parse(body ?? '') as ApiObject;
    options.onEvent(event);
    return jsonAnswer(201, event);
  }
  const target = targetOf(url.pathname);
  if (target === undefined || options.missing.has(target.collection.kind)) return statusAnswer(asked, 404);
  try {
    if (method !== 'GET') return written(store, target, asked);
    if (target.name !== undefined) return read(store, target, asked);
    const watch = url.searchParams.get('watch');
    return watch === '1' || watch === 'true' ? watching(store, target, asked, options) : list(store, target, asked);
  } catch (error) {
    if (!(error instanceof SelectorInvalid)) throw error;
    return statusAnswer(asked, 400, { message: error.message });
  }
}

function written(store: ApiStore, target: Target, asked: Asked): WholeAnswer {
  const { method, body } = asked;
  const result = write(
    store,
    { method, target, body: body === undefined ? undefined : (JSON.parse(body) as ApiObject) },
    () => false,
  );
  if (result.kind === 'refused') return statusAnswer(asked, result.status, result.body);
  const { status, object, change } = result;
  return { ...jsonAnswer(status, object), ...(change === undefined ? {} : { change }) };
}

function read(store: ApiStore, { collection, namespace, name }: Target, asked: Asked): WholeAnswer {
  const object = store.get(collection.kind, namespace === undefined ? `${name}` : `${namespace}/${name}`);
  if (object !== undefined) return jsonAnswer(200, object);
  const group = collection.apiVersion.includes('/') ? collection.apiVersion.split('/')[0] : '';
  const resource = group ? `${collection.resource}.${group}` : collection.resource;
  return statusAnswer(asked, 404, {
    message: `${resource} "${name}" not found`,
    details: { name, ...(group ? { group } : {}), kind: collection.resource },
  });
}

function list(store: ApiStore, target: Target, asked: Asked): WholeAnswer {
  const page = listPage(store, target, asked.url.searchParams);
  if (page.kind === 'refused') return statusAnswer(asked, page.status, page.body);
  const { head, items } = page;
  const { isProtobuf } = formOf(asked.accept, target.collection.kind);
  const bytes = isProtobuf ? protobuf(() => listBytes(head, items)) : undefined;
  if (bytes !== undefined) return { kind: 'whole', status: 200, headers: PROTOBUF_TYPE, bytes };
  return textAnswer(200, `${JSON.stringify(head).slice(0, -1)},"items":[${items.map(itemText).join(',')}]}`, {});
}

/** undefined: what is told has no form in protobuf. */
function protobuf(pieces: () => readonly Uint8Array[]): Buffer | undefined {
  try {
    return Buffer.concat(pieces());
  } catch (error) {
    if (error instanceof NotProtobuf) return undefined;
    throw error;
  }
}

function watching(
  store: ApiStore,
  { collection, namespace }: Target,
  asked: Asked,
  { refusesOld, streamsLists }: AnswerOptions,
): Answer {
  const query = asked.url.searchParams;
  const isStream = asksForStream(query);
  const after = isStream ? store.version : Number(query.get('resourceVersion') ?? 0);
  const bookmarks = query.get('allowWatchBookmarks');
  const streaming = isStream && !streamsLists ? statusBody(500, { message: NO_STREAMING }) : undefined;
  const old = { message: `too old resource version: ${after} (${store.version})` };
  const isOld = after !== 0 && after < store.oldest;
  if (isOld && refusesOld) return statusAnswer(asked, 410, old);
  return {
    kind: 'watch',
    watched: { collection, namespace, selected: selects(query), after },
    isStream,
    wantsBookmarks: bookmarks === 'true' || bookmarks === '1',
    timeout: Number(query.get('timeoutSeconds') ?? 0),
    form: formOf(asked.accept, collection.kind),
    problem: streaming ?? (isOld ? statusBody(410, old) : undefined),
  };
}
