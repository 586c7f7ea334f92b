/**
 * Answers of an API server in protobuf: the envelope around every object, lists and Status (`generated.proto` of
 * k8s.io/apimachinery meta/v1 and runtime).
 */
import { ProtobufUnreadable, WireReader } from './wire.ts';

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

/** The first bytes of every answer. */
const MAGIC = Buffer.from('k8s\0');

/** A page of a list, in the shape of its JSON. */
export class ListMessage<T> {
  readonly metadata: { resourceVersion: string | undefined; continue: string | undefined } = {
    resourceVersion: undefined,
    continue: undefined,
  };
  readonly items: T[] = [];
}

function listMetaField(tag: number, meta: ListMessage<unknown>['metadata'], from: WireReader): void {
  if (tag === 2) meta.resourceVersion = from.text() || undefined;
  else if (tag === 3) meta.continue = from.text();
}

/** A page of a list. Throws ProtobufUnreadable. */
export function readList<T>(bytes: Buffer, kind: string, item: (from: WireReader) => T): ListMessage<T> {
  const read = readAnswer(bytes, kind, new ListMessage<T>(), (tag, list, from) => {
    if (tag === 1) from.into(list.metadata, listMetaField);
    else if (tag === 2) list.items.push(item(from));
  });
  if (read.metadata.resourceVersion === undefined) throw new ProtobufUnreadable('it has no resourceVersion');
  return read;
}

/** A Status: the API server's answer to a failed request. */
export class StatusMessage {
  message: string | undefined = undefined;
  reason: string | undefined = undefined;
  readonly details: { readonly causes: { reason: string | undefined }[] } = { causes: [] };
}

/** Decode a Status. Throws ProtobufUnreadable. */
export function readStatusMessage(bytes: Buffer): StatusMessage {
  return readAnswer(bytes, 'Status', new StatusMessage(), (tag, status, from) => {
    if (tag === 3) status.message = from.text() || undefined;
    else if (tag === 4) status.reason = from.text() || undefined;
    else if (tag === 5) from.into(status.details, detailsField);
  });
}

function detailsField(tag: number, { causes }: StatusMessage['details'], from: WireReader): void {
  if (tag !== 4) return;
  const cause = from.into<{ reason: string | undefined }>({ reason: undefined }, (inner, it) => {
    if (inner === 1) it.reason = from.text() || undefined;
  });
  causes.push(cause);
}

/** An object with its kind (`Unknown` of k8s.io/apimachinery/pkg/runtime). */
type Envelope<T> = { kind: string; object: T; isThere: boolean };

function readAnswer<T>(
  bytes: Buffer,
  kind: string,
  object: T,
  field: (tag: number, object: T, from: WireReader) => void,
): T {
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC))
    throw new ProtobufUnreadable('it does not begin with the magic bytes');
  const from = new WireReader(bytes.subarray(MAGIC.length));
  const envelope: Envelope<T> = { kind: '', object, isThere: false };
  try {
    from.into(
      envelope,
      (tag, it) => {
        if (tag === 1) it.kind = from.into({ name: '' }, kindField).name;
        else if (tag === 2) {
          if (it.kind !== kind) throw new ProtobufUnreadable(`it is ${it.kind || 'of no kind'}, not ${kind}`);
          from.into(it.object, field);
          it.isThere = true;
        }
      },
      from.length,
    );
  } catch (error) {
    // The library's errors are plain ones: a number that does not end, an unknown wire type.
    const isPlain = error instanceof Error && error.constructor === Error;
    throw isPlain ? new ProtobufUnreadable(error.message) : error;
  }
  if (!envelope.isThere) throw new ProtobufUnreadable('it has no object');
  return envelope.object;
}

function kindField(tag: number, kind: { name: string }, from: WireReader): void {
  if (tag === 2) kind.name = from.text();
}
