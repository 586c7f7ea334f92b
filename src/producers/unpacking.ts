/** Packed data as it was before (`packing.ts`). */
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
  type Packed,
  TEXT,
  TEXT_AGAIN,
  TEXT_ALIKE,
  TIME,
  TRUE,
  UNDEFINED,
  UUID,
  WIDE,
} from './packing-form.ts';
import { ipv4Text, timeText, uuidText } from './packing-texts.ts';
import { WORDS } from './packing-words.ts';

/** The value that was packed, as a new one. */
export function unpack<T>(packed: Packed<T>): T {
  return unpacker.unpack(packed) as T;
}

const double = new DataView(new ArrayBuffer(8));

class Unpacker {
  #packed = '';
  #at = 0;
  readonly #texts: string[] = [];
  readonly #shapes: (readonly string[])[] = [];
  readonly #last = new Map<string, string>();

  unpack(packed: string): unknown {
    this.#packed = packed;
    this.#at = 0;
    this.#texts.length = 0;
    this.#shapes.length = 0;
    if (this.#last.size > 0) this.#last.clear();
    return this.value('');
  }

  value(field: string): unknown {
    const kind = this.#byte();
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
        return this.#count();
      case DOUBLE:
        for (let i = 0; i < 8; i++) double.setUint8(i, this.#byte());
        return double.getFloat64(0);
      case ARRAY:
        return this.#list(field);
      case OBJECT:
        return this.#object(this.#newShape());
      case OBJECT_AGAIN:
        return this.#object(this.#shapes[this.#count()] ?? []);
      default:
        return this.#text(kind, field);
    }
  }

  #list(field: string): unknown[] {
    const length = this.#count();
    const list: unknown[] = [];
    for (let i = 0; i < length; i++) list.push(this.value(field));
    return list;
  }

  #newShape(): readonly string[] {
    const length = this.#count();
    const names: string[] = [];
    for (let i = 0; i < length; i++) names.push(this.#text(this.#byte(), ''));
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
        return this.#texts[this.#count()] ?? '';
      case NUMBER:
        return String(this.#count());
      case IPV4:
        return ipv4Text(this.#byte(), this.#byte(), this.#byte(), this.#byte());
      case TIME:
        return timeText(this.#count());
      case UUID:
        this.#at += 16;
        return uuidText(this.#packed, this.#at - 16);
      case TEXT:
      case TEXT_ALIKE:
      case WIDE: {
        const text = this.#newText(kind, field);
        this.#texts.push(text);
        this.#last.set(field, text);
        return text;
      }
      default:
        return WORDS[kind - FIRST_WORD] ?? '';
    }
  }

  #newText(kind: number, field: string): string {
    const alike = kind === TEXT_ALIKE ? (this.#last.get(field) ?? '').slice(0, this.#count()) : '';
    const length = this.#count();
    if (kind === WIDE) {
      let text = '';
      for (let i = 0; i < length; i++) text += String.fromCharCode(this.#byte() + this.#byte() * 0x100);
      return text;
    }
    this.#at += length;
    return alike + this.#packed.slice(this.#at - length, this.#at);
  }

  #count(): number {
    let count = 0;
    for (let unit = 1; ; unit *= 0x80) {
      const byte = this.#byte();
      count += (byte & 0x7f) * unit;
      if (byte < 0x80) return count;
    }
  }

  #byte(): number {
    return this.#packed.charCodeAt(this.#at++);
  }
}

/** One value is unpacked at a time. */
const unpacker = new Unpacker();
