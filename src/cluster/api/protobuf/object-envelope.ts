/**
 * The envelope around every object that an API server sends in protobuf, and a Status in it (`generated.proto` of
 * k8s.io/apimachinery pkg/runtime and meta/v1).
 */
import { ProtobufUnreadable, type WireReader } from './wire.ts';

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

/** The first bytes of every object. */
const MAGIC = Buffer.from('k8s\0');

/** Reads the fields of an object into itself. */
export type Body = (from: WireReader, end: number) => void;

/** Read an object (`Unknown` of pkg/runtime) up to `end`; `bodyOf` says how one of its kind is read. Throws ProtobufUnreadable. */
export function readEnvelope(from: WireReader, end: number, bodyOf: (kind: string) => Body): void {
  if (!from.startsWith(MAGIC, end)) throw new ProtobufUnreadable('it does not begin with the magic bytes');
  const envelope = { kind: '', isThere: false };
  from.into(
    envelope,
    (tag, it) => {
      if (tag === 1) it.kind = from.into({ name: '' }, kindField).name;
      else if (tag === 2) {
        bodyOf(it.kind)(from, from.end());
        it.isThere = true;
      }
    },
    end,
  );
  if (!envelope.isThere) throw new ProtobufUnreadable('it has no object');
}

function kindField(tag: number, kind: { name: string }, from: WireReader): void {
  if (tag === 2) kind.name = from.common();
}

/** Throws ProtobufUnreadable. */
export function wrongKind(found: string, wanted: string): ProtobufUnreadable {
  return new ProtobufUnreadable(`it is ${found || 'of no kind'}, not ${wanted}`);
}

/** A Status: the API server's answer to a failed request, and the object of an event of the type ERROR. */
export class StatusMessage {
  message: string | undefined = undefined;
  reason: string | undefined = undefined;
  code: number | undefined = undefined;
  readonly details: { kind: string | undefined; readonly causes: { reason: string | undefined }[] } = {
    kind: undefined,
    causes: [],
  };
}

export function statusField(tag: number, status: StatusMessage, from: WireReader): void {
  if (tag === 3) status.message = from.text() || undefined;
  else if (tag === 4) status.reason = from.text() || undefined;
  else if (tag === 5) from.into(status.details, detailsField);
  else if (tag === 6) status.code = from.int();
}

function detailsField(tag: number, details: StatusMessage['details'], from: WireReader): void {
  if (tag === 3) details.kind = from.text() || undefined;
  if (tag !== 4) return;
  const cause = from.into<{ reason: string | undefined }>({ reason: undefined }, (inner, it) => {
    if (inner === 1) it.reason = from.text() || undefined;
  });
  details.causes.push(cause);
}
