/** Packed data as it was before (`packing.ts`). */
import { Unpacker as Bytes, type Packed } from '../../proxy/model/packed/bytes.ts';
import { unpackUuid } from '../../proxy/model/packed/uuid.ts';
import {
  ARRAY,
  DOUBLE,
  FALSE,
  FIRST_WORD,
  INTEGER,
  IPV4,
  NULL,
  NUMBER,
  OBJECT,
  OBJECT_AGAIN,
  TEXT,
  TEXT_AGAIN,
  TEXT_ALIKE,
  TIME,
  TRUE,
  UNDEFINED,
  UUID,
} from './packing-form.ts';
import { ipv4Text, timeText } from './packing-texts.ts';
import { WORDS } from './packing-words.ts';

/** The value that was packed, as a new one. */
export function unpack<T>(packed: Packed<T>): T {
  return new ObjectUnpacker(packed).value('') as T;
}

const double = new DataView(new ArrayBuffer(8));

class ObjectUnpacker {
  readonly #bytes: Bytes;
  readonly #texts: string[] = [];
  readonly #shapes: (readonly string[])[] = [];
  readonly #last = new Map<string, string>();

  constructor(packed: Packed<unknown>) {
    this.#bytes = new Bytes(packed);
  }

  value(field: string): unknown {
    const kind = this.#bytes.byte();
    switch (kind) {
      case NULL:
        return null;
      case FALSE:
        return false;
      case TRUE:
        return true;
      case UNDEFINED:
        return undefined;
      case INTEGER:
        return this.#bytes.number();
      case DOUBLE:
        for (let i = 0; i < 8; i++) double.setUint8(i, this.#bytes.byte());
        return double.getFloat64(0);
      case ARRAY:
        return this.#list(field);
      case OBJECT:
        return this.#object(this.#newShape());
      case OBJECT_AGAIN:
        return this.#object(this.#shapes[this.#bytes.number()] ?? []);
      default:
        return this.#text(kind, field);
    }
  }

  #list(field: string): unknown[] {
    const length = this.#bytes.number();
    const list: unknown[] = [];
    for (let i = 0; i < length; i++) list.push(this.value(field));
    return list;
  }

  #newShape(): readonly string[] {
    const length = this.#bytes.number();
    const names: string[] = [];
    for (let i = 0; i < length; i++) names.push(this.#text(this.#bytes.byte(), ''));
    this.#shapes.push(names);
    return names;
  }

  #object(names: readonly string[]): object {
    const object: Record<string, unknown> = {};
    for (const name of names) {
      const value = this.value(name);
      // An assignment would change the prototype.
      if (name === '__proto__') Object.defineProperty(object, name, { value, enumerable: true, writable: true });
      else object[name] = value;
    }
    return object;
  }

  #text(kind: number, field: string): string {
    switch (kind) {
      case TEXT_AGAIN:
        return this.#texts[this.#bytes.number()] ?? '';
      case NUMBER:
        return String(this.#bytes.number());
      case IPV4:
        return ipv4Text(this.#bytes.byte(), this.#bytes.byte(), this.#bytes.byte(), this.#bytes.byte());
      case TIME:
        return timeText(this.#bytes.number());
      case UUID:
        return unpackUuid(this.#bytes);
      case TEXT:
      case TEXT_ALIKE: {
        const alike = kind === TEXT_ALIKE ? (this.#last.get(field) ?? '').slice(0, this.#bytes.number()) : '';
        const text = alike + this.#bytes.text();
        this.#texts.push(text);
        this.#last.set(field, text);
        return text;
      }
      default:
        return WORDS[kind - FIRST_WORD] ?? '';
    }
  }
}
