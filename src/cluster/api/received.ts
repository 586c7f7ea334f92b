/** What a reflector reads of an object, whatever its kind is. */
import { INITIAL_EVENTS_END } from '../../proxy/model/labels.ts';
import { ApiError } from './client.ts';

/** An object as it was received. */
export interface ReceivedObject {
  readonly object: unknown;
  /** `namespace/name`, or the name of an object without a namespace. */
  readonly key: string;
  /** "" for none. */
  readonly version: string;
}

/** `path`: of the request, for the error. Throws ApiError for what is no object of the API. The object of a bookmark has no name. */
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

/** Whether the object of a bookmark says that the initial events of a streaming list are complete (KEP-3157). */
export function endsInitialEvents(object: unknown): boolean {
  const annotations = metadataOf(object).annotations ?? {};
  return (annotations as Readonly<Record<string, unknown>>)[INITIAL_EVENTS_END] === 'true';
}

function metadataOf(object: unknown): Readonly<Record<string, unknown>> {
  const { metadata } = (object ?? {}) as { readonly metadata?: unknown };
  return (metadata ?? {}) as Readonly<Record<string, unknown>>;
}
