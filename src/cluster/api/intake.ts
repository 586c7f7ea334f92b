/** Passes on the objects of lists and watches that differ from the known ones, and keeps the resourceVersion that was reached. */

import { INITIAL_EVENTS_END } from '../../proxy/model/labels.ts';
import { isOlder } from '../../proxy/model/resource-version.ts';
import { ApiError, fieldsOf, statusOf, type WatchEvent } from './client.ts';

/** An object as it was received, with the metadata that a reflector needs of every kind. */
export interface ReceivedObject {
  readonly object: unknown;
  /** `namespace/name`, or the name of an object without a namespace. */
  readonly key: string;
  /** "" when the object has none. */
  readonly version: string;
}

/** `path`: the path of the request, for the error. Throws ApiError for a value that is no object of the API. The object of a bookmark has no name. */
export function receivedOf(object: unknown, path: string, isBookmark = false): ReceivedObject {
  const { name = '', namespace = '', resourceVersion = '' } = metadataOf(object);
  const isNamed = typeof name === 'string' && typeof namespace === 'string' && (name !== '' || isBookmark);
  if (!isNamed || typeof resourceVersion !== 'string')
    throw new ApiError(
      `${path}: the answer has something without a name or a resourceVersion in place of an object`,
      0,
    );
  return { object, key: namespace === '' ? name : `${namespace}/${name}`, version: resourceVersion };
}

/** Whether the object of a bookmark marks the end of the initial events of a streaming list (KEP-3157). */
export function endsInitialEvents(object: unknown): boolean {
  const annotations = metadataOf(object).annotations ?? {};
  return (annotations as Readonly<Record<string, unknown>>)[INITIAL_EVENTS_END] === 'true';
}

function metadataOf(object: unknown): Readonly<Record<string, unknown>> {
  const { metadata } = (object ?? {}) as { readonly metadata?: unknown };
  return (metadata ?? {}) as Readonly<Record<string, unknown>>;
}

/** Receives the changes of one kind. */
export interface IntakeSink {
  /** `isEvent`: the object comes from an event of a watch, not from a list. */
  set(key: string, object: unknown, isEvent: boolean): void;
  /** `version`: the version of the event, or of the list that lacks the object. */
  gone(key: string, version: string, isEvent: boolean): void;
  /** The first list is complete. Called once. */
  synced(): void;
  /** All changes up to this resourceVersion were passed on. */
  reached?(version: string): void;
  /**
   * The server's store was restored. All objects are listed again, and none counts as unchanged. `from`: the version of this kind; `to`: that of
   * the server, which another kind may have noticed when it had passed `from` again.
   */
  restored(from: string, to: string): void;
}

const GONE = 410;
/** Objects of a list that are held back; those beyond are passed on as they come. */
const MAX_HELD = 10_000;

/**
 * The objects of a list come by name, and may be passed on in portions. In a list after the first, those that differ are held back until the
 * list is complete, and passed on in the order in which they were written: an endpoint that moved to another slice is there before it leaves
 * the former one, as with a watch.
 */
export class Intake {
  readonly #path: string;
  readonly #sink: IntakeSink;
  readonly #known = new KnownObjects();
  #version = '';
  #isSynced = false;
  #held: ReceivedObject[] = [];

  /** `path`: the path of the resource, for errors. */
  constructor(path: string, sink: IntakeSink) {
    this.#path = path;
    this.#sink = sink;
  }

  /** The resourceVersion from which a watch goes on; "" before the first list, and after the server's version went back. */
  get version(): string {
    return this.#version;
  }

  listBegins(): void {
    this.#known.listBegins();
    this.#held = [];
  }

  /** An object of a list; one that is known is not passed on. */
  listed(received: ReceivedObject): void {
    if (!this.#known.isNews(received.key, received.version)) return;
    if (this.#isSynced && this.#held.length < MAX_HELD) this.#held.push(received);
    else this.passOn(received);
  }

  /** The objects to pass on before the list ends, the oldest version first. */
  takeHeld(): readonly ReceivedObject[] {
    const held = this.#held.sort(byVersion);
    this.#held = [];
    return held;
  }

  passOn({ object, key, version }: ReceivedObject): void {
    this.#sink.set(key, object, false);
    this.#known.set(key, version);
  }

  /** The list of this version is complete; objects that it lacks are gone. */
  listEnds(version: string): void {
    this.#version = version;
    for (const key of this.#known.listEnds()) this.#sink.gone(key, version, false);
    this.#sink.reached?.(version);
  }

  /** Reports the first complete list, once. */
  synced(): void {
    if (!this.#isSynced) this.#sink.synced();
    this.#isSynced = true;
  }

  /**
   * An event before the end of a streaming list. The versions of these events have no order, and an object that changes meanwhile may
   * come as another type than ADDED. Returns the version of the list from the bookmark that ends it. Throws ApiError.
   */
  initialEvent(event: WatchEvent): string | undefined {
    const { type, received } = this.#received(event);
    const { key, version, object } = received;
    if (type === 'DELETED') this.#gone(key, version, false);
    else if (type === 'ADDED' || type === 'MODIFIED') this.listed(received);
    else if (type === 'BOOKMARK' && endsInitialEvents(object)) {
      // When the version went back, an object that was skipped as known may be another one, so the list is read again.
      this.#mustGoOn(version);
      return version;
    }
    return undefined;
  }

  /** An event of a watch. Throws ApiError. */
  event(event: WatchEvent): void {
    const { type, received } = this.#received(event);
    const { key, version, object } = received;
    this.#mustGoOn(version);
    if (type === 'DELETED') this.#gone(key, version, true);
    else if (type === 'ADDED' || type === 'MODIFIED') {
      this.#sink.set(key, object, true);
      this.#known.set(key, version);
    }
    // The next watch skips only events that were processed.
    this.#version = version;
    this.#sink.reached?.(version);
  }

  /** `version`: the version of the server. Returns whether it is older than the last one; then an object with the same version may differ. */
  wentBack(version: string): boolean {
    if (!isOlder(version, this.#version)) return false;
    this.storeRestored(version);
    return true;
  }

  /** The server's store was restored, and has this version. Returns whether that is news: a list that begins anew compares with nothing. */
  storeRestored(version: string): boolean {
    if (this.#version === '') return false;
    const before = this.#version;
    this.#known.distrust();
    this.#version = '';
    this.#sink.restored(before, version);
    return true;
  }

  #received({ type, object }: WatchEvent): { readonly type: unknown; readonly received: ReceivedObject } {
    if (type !== 'ERROR') return { type, received: receivedOf(object, this.#path, type === 'BOOKMARK') };
    const { code } = fieldsOf(object);
    throw new ApiError(statusOf(object).message ?? 'the watch failed', typeof code === 'number' ? code : 0);
  }

  #gone(key: string, version: string, isEvent: boolean): void {
    if (this.#held.length > 0) this.#held = this.#held.filter((one) => one.key !== key);
    this.#sink.gone(key, version, isEvent);
    this.#known.delete(key);
  }

  #mustGoOn(version: string): void {
    if (version === '') throw new ApiError(`the watch of ${this.#path} sent an event without a resourceVersion`, 0);
    const before = this.#version;
    if (this.wentBack(version))
      throw new ApiError(`the API server's resourceVersion went back from ${before} to ${version}`, GONE);
  }
}

function byVersion({ version: a }: ReceivedObject, { version: b }: ReceivedObject): number {
  return isOlder(a, b) ? -1 : isOlder(b, a) ? 1 : 0;
}

/** A resourceVersion; a number where it is one, which needs less memory than a text. "" when it is not trusted. */
type ResourceVersion = number | string;

/** The objects that a reflector has passed on, by key, with the resourceVersion of each: a list passes on only what differs. */
class KnownObjects {
  readonly #versions = new Map<string, ResourceVersion>();
  /** Keys that the present list has not contained so far. */
  #left = new Set<string>();

  listBegins(): void {
    this.#left = new Set(this.#versions.keys());
  }

  /** The list contains this object. Returns whether it differs, or may differ, from the one that was passed on. */
  isNews(key: string, version: string): boolean {
    if (this.#left.size > 0) this.#left.delete(key);
    return version === '' || this.#versions.get(key) !== versionOf(version);
  }

  set(key: string, version: string): void {
    this.#versions.set(key, versionOf(version));
  }

  delete(key: string): void {
    this.#versions.delete(key);
    this.#left.delete(key);
  }

  /** The list is complete. Forgets the keys that it lacks, and returns them. */
  listEnds(): Iterable<string> {
    const gone = this.#left;
    this.#left = new Set();
    for (const key of gone) this.#versions.delete(key);
    return gone;
  }

  /** From now on an object with the same version counts as changed. */
  distrust(): void {
    for (const key of this.#versions.keys()) this.#versions.set(key, '');
  }
}

/** Numbers with more digits would not be exact. */
function versionOf(text: string): ResourceVersion {
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : text;
}
