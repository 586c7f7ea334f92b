/** Lists, events of watches, and Status objects in protobuf. */
import { type Body, readEnvelope, StatusMessage, statusField, wrongKind } from './object-envelope.ts';
import { asUnreadable, orUnreadable, ProtobufUnreadable, WireReader } from './wire.ts';

/** Reads an object whose bytes end at `end`. */
export type ItemReader<T> = (from: WireReader, end: number) => T;

/** Reads the answers that have objects of one kind, into the shapes of their JSON. */
export interface KindReader<T = unknown> {
  /** A page of a list. Throws ProtobufUnreadable, as its items do while they are taken. */
  list(bytes: Buffer): ListMessage<T>;
  /** An event of a watch, without the length before it. Throws ProtobufUnreadable. */
  event(frame: Buffer): EventMessage<T>;
}

/** A page of a list. */
export interface ListMessage<T> {
  readonly metadata: ListMeta;
  /** Each is decoded when it is taken; the bytes of the page are kept until then. */
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
export class EventMessage<T> {
  type = '';
  object: T | StatusMessage | undefined = undefined;
}

/** `kind`: of one object, such as `Service`. */
export function kindReader<T>(kind: string, item: ItemReader<T>): KindReader<T> {
  return {
    list: (bytes) => orUnreadable(() => readList(new WireReader(bytes), kind, item)),
    event: (frame) => orUnreadable(() => readEvent(new WireReader(frame), kind, item)),
  };
}

function readList<T>(from: WireReader, kind: string, item: ItemReader<T>): ListMessage<T> {
  const metadata = new ListMeta();
  /** Where each item begins and ends. */
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

/** An object of the kind; in place of one, an event of the type ERROR has a Status. */
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

/** Decode the Status of an answer that refuses. Throws ProtobufUnreadable. */
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
