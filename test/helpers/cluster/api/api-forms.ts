/** In which form a client gets objects: JSON or protobuf, with `metadata.managedFields` or without them. */
import type { ToldEvent } from './api-lists.ts';
import { canWrite, eventFrame, NotProtobuf, PROTOBUF_TYPE } from './api-protobuf.ts';
import { objectText, type ToldObject } from './api-store.ts';

export interface Form {
  readonly isProtobuf: boolean;
  /** KEP-5958: the client wants no managedFields, and the server knows how to leave them out. */
  readonly dropsManagedFields: boolean;
}

export const JSON_FORM: Form = { isProtobuf: false, dropsManagedFields: false };

/**
 * What a client names first is what it gets: that is how Kubernetes' own clients ask. A parameter that the server does not know changes
 * nothing. `kind`: of the objects; kinds that nobody reads in protobuf are not told in it.
 */
export function formOf(accept: string | undefined, kind: string, knowsDrop = false): Form {
  const [type, ...parameters] = (accept ?? '')
    .split(',', 1)
    .flatMap((first) => first.split(';').map((part) => part.trim()));
  const dropped = parameters.find((one) => one.startsWith('drop='))?.slice('drop='.length) ?? '';
  return {
    isProtobuf: type === PROTOBUF_TYPE['content-type'] && canWrite(kind),
    dropsManagedFields: knowsDrop && dropped.split('+').includes('metadata.managedFields'),
  };
}

/** The content type of a watch. */
export function watchType({ isProtobuf }: Form): Readonly<Record<string, string>> {
  return { 'content-type': isProtobuf ? `${PROTOBUF_TYPE['content-type']};stream=watch` : 'application/json' };
}

const stripped = new WeakMap<object, object>();

/** An object as it is told in this form. */
export function told<T extends ToldObject>(object: T, { dropsManagedFields }: Form): T {
  if (!dropsManagedFields || !('managedFields' in object.metadata)) return object;
  const known = stripped.get(object);
  if (known !== undefined) return known as T;
  const { managedFields: _, ...metadata } = object.metadata;
  const without = { ...object, metadata };
  stripped.set(object, without);
  return without;
}

/** An event as a watch sends it: a line, or a frame. An object that has no form in protobuf is a frame that nobody can read. */
export function eventBytes({ type, object }: ToldEvent, form: Form): Buffer {
  const written = told(object, form);
  if (!form.isProtobuf) return Buffer.from(`{"type":"${type}","object":${objectText(written)}}\n`);
  try {
    return eventFrame(type, written);
  } catch (error) {
    if (error instanceof NotProtobuf) return unreadableFrame();
    throw error;
  }
}

/** A frame whose event ends too early. */
export function unreadableFrame(): Buffer {
  return Buffer.from('\x00\x00\x00\x06\x0a\x05ADDE', 'latin1');
}
