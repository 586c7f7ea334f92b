/** Lists, events of watches, and Status objects in protobuf, with the envelope and the metadata that all objects have. */
import {
  BACKUP_ANNOTATION,
  BALANCE_ANNOTATION,
  HEADLESS_LABEL,
  INITIAL_EVENTS_END,
  IPVS_SCHEDULER_ANNOTATION,
  PROXY_NAME_LABEL,
  SERVICE_NAME_LABEL,
  SLOW_START_ANNOTATION,
  TRIGGER_ANNOTATION,
  WEIGHT_ANNOTATION,
} from '../../../proxy/model/labels.ts';
import { LIMIT_NAMES, limitAnnotation } from '../../../proxy/model/limits.ts';
import {
  addEntry,
  asKey,
  asUnreadable,
  milliseconds,
  orUnreadable,
  ProtobufUnreadable,
  seconds,
  WireReader,
} from './wire.ts';

/** Labels and annotations that are read; all others are skipped. */
const LABELS = [PROXY_NAME_LABEL, HEADLESS_LABEL, SERVICE_NAME_LABEL].map(asKey);
const ANNOTATIONS = [
  TRIGGER_ANNOTATION,
  INITIAL_EVENTS_END,
  IPVS_SCHEDULER_ANNOTATION,
  BALANCE_ANNOTATION,
  SLOW_START_ANNOTATION,
  WEIGHT_ANNOTATION,
  BACKUP_ANNOTATION,
  ...LIMIT_NAMES.map(limitAnnotation),
].map(asKey);

/** ObjectMeta of k8s.io/apimachinery meta/v1: the fields that are read. */
export class ObjectMeta {
  name = '';
  namespace = '';
  uid = '';
  resourceVersion = '';
  labels: Record<string, string> | undefined = undefined;
  annotations: Record<string, string> | undefined = undefined;
  created: number | undefined = undefined;

  /** RFC 3339, to the second. */
  get creationTimestamp(): string | undefined {
    const { createdAt } = this;
    return createdAt === 0 ? undefined : new Date(createdAt).toISOString();
  }

  /** Milliseconds since 1970; 0 for an unset or invalid time. */
  get createdAt(): number {
    return milliseconds(this.created);
  }
}

export function metaField(tag: number, meta: ObjectMeta, from: WireReader): void {
  if (tag === 1) meta.name = from.text();
  else if (tag === 3) meta.namespace = from.common();
  else if (tag === 5) meta.uid = from.text();
  else if (tag === 6) meta.resourceVersion = from.text();
  else if (tag === 8) meta.created = seconds(from);
  else if (tag === 11) meta.labels = addEntry(meta.labels, LABELS, from);
  else if (tag === 12) meta.annotations = addEntry(meta.annotations, ANNOTATIONS, from);
}

/** Reads an object whose bytes end at `end`. */
type ItemReader<T> = (from: WireReader, end: number) => T;

/** Reads the answers that have objects of one kind, into the shapes of their JSON. */
export interface KindReader<T = unknown> {
  /** A page of a list. Throws ProtobufUnreadable, and so does the iterator of its items. */
  list(bytes: Buffer): ListMessage<T>;
  /** An event of a watch, without the length before it. Throws ProtobufUnreadable. */
  event(frame: Buffer): EventMessage<T>;
}

/** A page of a list. */
interface ListMessage<T> {
  readonly metadata: ListMeta;
  /** Each item is decoded when the iterator reaches it; the bytes of the page are kept until then. */
  readonly items: Iterable<T>;
}

class ListMeta {
  resourceVersion: string | undefined = undefined;
  continue: string | undefined = undefined;
}

function listMetaField(tag: number, meta: ListMeta, from: WireReader): void {
  if (tag === 2) meta.resourceVersion = from.text() || undefined;
  else if (tag === 3) meta.continue = from.text();
}

/** An event of a watch (`WatchEvent` of meta/v1). */
class EventMessage<T> {
  type = '';
  object: T | StatusMessage | undefined = undefined;
}

/** `kind`: the kind of one object, such as `Service`. */
export function kindReader<T>(kind: string, item: ItemReader<T>): KindReader<T> {
  return {
    list: (bytes) => orUnreadable(() => readList(new WireReader(bytes), kind, item)),
    event: (frame) => orUnreadable(() => readEvent(new WireReader(frame), kind, item)),
  };
}

function readList<T>(from: WireReader, kind: string, item: ItemReader<T>): ListMessage<T> {
  const metadata = new ListMeta();
  /** Start and end of each item, in pairs. */
  const places: number[] = [];
  const body: Body = (_, end) => {
    from.into(
      metadata,
      (tag, meta) => {
        if (tag === 1) from.into(meta, listMetaField);
        else if (tag === 2) {
          const until = from.end();
          places.push(from.pos, until);
          from.pos = until;
        }
      },
      end,
    );
  };
  readEnvelope(from, from.length, (found) => {
    if (found !== `${kind}List`) throw wrongKind(found, `${kind}List`);
    return body;
  });
  if (metadata.resourceVersion === undefined) throw new ProtobufUnreadable('it has no resourceVersion');
  return { metadata, items: { [Symbol.iterator]: () => itemsOf(from, places, item) } };
}

function* itemsOf<T>(from: WireReader, places: readonly number[], item: ItemReader<T>): Generator<T, void> {
  for (let at = 0; at < places.length; at += 2) {
    from.pos = places[at] ?? 0;
    let read: T;
    try {
      read = item(from, places[at + 1] ?? 0);
    } catch (error) {
      throw asUnreadable(error);
    }
    yield read;
  }
}

function readEvent<T>(from: WireReader, kind: string, item: ItemReader<T>): EventMessage<T> {
  const event = new EventMessage<T>();
  from.into(
    event,
    (tag, it) => {
      if (tag === 1) it.type = from.common();
      else if (tag === 2) from.into(it, (inner) => inner === 1 && readObject(from, kind, it, item));
    },
    from.length,
  );
  if (event.object === undefined) throw new ProtobufUnreadable('the event has no object');
  return event;
}

/** Reads an object of the kind, or the Status that an event of the type ERROR has in its place. */
function readObject<T>(from: WireReader, kind: string, event: EventMessage<T>, item: ItemReader<T>): void {
  readEnvelope(from, from.end(), (found) => {
    if (found === kind)
      return (_, end) => {
        event.object = item(from, end);
      };
    if (found !== 'Status') throw wrongKind(found, kind);
    return (_, end) => {
      event.object = from.into(new StatusMessage(), statusField, end);
    };
  });
}

/** Decodes the Status of a failed request. Throws ProtobufUnreadable. */
export function readStatusMessage(bytes: Buffer): StatusMessage {
  const status = new StatusMessage();
  const from = new WireReader(bytes);
  orUnreadable(() =>
    readEnvelope(from, from.length, (found) => {
      if (found !== 'Status') throw wrongKind(found, 'Status');
      return (_, end) => void from.into(status, statusField, end);
    }),
  );
  return status;
}

// The envelope around every object, and a Status (`generated.proto` of k8s.io/apimachinery pkg/runtime and meta/v1).

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

/** Every object begins with these bytes. */
const MAGIC = Buffer.from('k8s\0');

/** Reads the fields of an object into itself. */
type Body = (from: WireReader, end: number) => void;

/** Reads an object (`Unknown` of pkg/runtime) up to `end`; `bodyOf` returns the reader for its kind. Throws ProtobufUnreadable. */
function readEnvelope(from: WireReader, end: number, bodyOf: (kind: string) => Body): void {
  if (!from.startsWith(MAGIC, end)) throw new ProtobufUnreadable('it does not begin with the magic bytes');
  const envelope = { kind: '', hasBody: false };
  from.into(
    envelope,
    (tag, it) => {
      if (tag === 1) it.kind = from.into({ name: '' }, kindField).name;
      else if (tag === 2) {
        bodyOf(it.kind)(from, from.end());
        it.hasBody = true;
      }
    },
    end,
  );
  if (!envelope.hasBody) throw new ProtobufUnreadable('it has no object');
}

function kindField(tag: number, kind: { name: string }, from: WireReader): void {
  if (tag === 2) kind.name = from.common();
}

function wrongKind(found: string, wanted: string): ProtobufUnreadable {
  return new ProtobufUnreadable(`it is ${found || 'of no kind'}, not ${wanted}`);
}

/** The API server's answer to a failed request, and the object of an event of the type ERROR. */
export class StatusMessage {
  message: string | undefined = undefined;
  reason: string | undefined = undefined;
  code: number | undefined = undefined;
  readonly details: { kind: string | undefined; readonly causes: { reason: string | undefined }[] } = {
    kind: undefined,
    causes: [],
  };
}

function statusField(tag: number, status: StatusMessage, from: WireReader): void {
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
