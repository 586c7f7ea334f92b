/**
 * Plain data (what JSON can say, and undefined) as one string of one-byte characters: a fifth of the memory that the objects take.
 * Words of the API are one byte, addresses, UUIDs, times and numbers are binary, and what an object repeats is written once.
 * `proxy/model/packed` has a form of its own for each kind, without names of fields; here fields of other writers must survive.
 * The form is for this process's memory alone. Objects have their fields in the same order when they are unpacked.
 */
import { Packer as Bytes, type Packed } from '../../proxy/model/packed/bytes.ts';
import { isUuid, packUuid } from '../../proxy/model/packed/uuid.ts';
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
import { ipv4Bits, numberOf, timeOf } from './packing-texts.ts';
import { WORDS } from './packing-words.ts';

const BYTE_OF = new Map(WORDS.map((word, i) => [word, FIRST_WORD + i]));
const MAX_WORD_LENGTH = Math.max(...WORDS.map(({ length }) => length));
/** Of one value. */
const MAX_SHAPES = 64;
/** A shorter beginning is not worth its bytes. */
const MIN_ALIKE = 4;

/** Pack a value. Throws TypeError for what is no plain data. */
export function pack<T>(value: T): Packed<T> {
  return packer.pack(value);
}

const double = new DataView(new ArrayBuffer(8));

class ObjectPacker {
  readonly #bytes = new Bytes();
  readonly #texts = new Map<string, number>();
  readonly #shapes: (readonly string[])[] = [];
  /** The last text of each field. */
  readonly #last = new Map<string, string>();

  pack<T>(value: T): Packed<T> {
    this.#shapes.length = 0;
    if (this.#texts.size > 0) this.#texts.clear();
    if (this.#last.size > 0) this.#last.clear();
    // A value that was refused left what it began to write.
    this.#bytes.begin();
    this.value(value, '');
    return this.#bytes.end();
  }

  /** `field`: the name of the field, or of the list. */
  value(value: unknown, field: string): void {
    if (typeof value === 'string') this.#text(value, field);
    else if (typeof value === 'number') this.#number(value);
    else if (value === null) this.#bytes.byte(NULL);
    else if (value === undefined) this.#bytes.byte(UNDEFINED);
    else if (value === true) this.#bytes.byte(TRUE);
    else if (value === false) this.#bytes.byte(FALSE);
    else if (Array.isArray(value)) {
      this.#bytes.byte(ARRAY);
      this.#bytes.number(value.length);
      for (const item of value) this.value(item, field);
    } else if (typeof value === 'object') this.#object(value);
    else throw new TypeError(`cannot pack a ${typeof value}`);
  }

  #object(value: object): void {
    const names = Object.keys(value);
    const before = this.#shapes.findIndex((shape) => sameNames(shape, names));
    if (before < 0) {
      // Objects with ever other fields would be compared for long.
      if (this.#shapes.length < MAX_SHAPES) this.#shapes.push(names);
      this.#bytes.byte(OBJECT);
      this.#bytes.number(names.length);
      for (const name of names) this.#text(name, '');
    } else {
      this.#bytes.byte(OBJECT_AGAIN);
      this.#bytes.number(before);
    }
    const fields: readonly unknown[] = Object.values(value);
    for (const [i, name] of names.entries()) this.value(fields[i], name);
  }

  #number(value: number): void {
    if (Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0)) {
      this.#bytes.byte(INTEGER);
      this.#bytes.number(value);
      return;
    }
    this.#bytes.byte(DOUBLE);
    double.setFloat64(0, value);
    for (let i = 0; i < 8; i++) this.#bytes.byte(double.getUint8(i));
  }

  #text(text: string, field: string): void {
    if (this.#binary(text)) return;
    const word = text.length <= MAX_WORD_LENGTH ? BYTE_OF.get(text) : undefined;
    if (word !== undefined) {
      this.#bytes.byte(word);
      return;
    }
    const before = this.#texts.get(text);
    if (before !== undefined) {
      this.#bytes.byte(TEXT_AGAIN);
      this.#bytes.number(before);
      return;
    }
    this.#texts.set(text, this.#texts.size);
    const alike = alikeLength(text, this.#last.get(field) ?? '');
    this.#last.set(field, text);
    this.#bytes.byte(alike > 0 ? TEXT_ALIKE : TEXT);
    if (alike > 0) this.#bytes.number(alike);
    this.#bytes.text(alike > 0 ? text.slice(alike) : text);
  }

  /** Writes a text that has a shorter form; returns whether it has one. */
  #binary(text: string): boolean {
    const first = text.charCodeAt(0);
    if (!isHexDigit(first)) return false;
    const number = numberOf(text, first);
    if (number !== undefined) {
      this.#bytes.byte(NUMBER);
      this.#bytes.number(number);
      return true;
    }
    const bits = ipv4Bits(text, first);
    if (bits !== undefined) {
      this.#bytes.byte(IPV4);
      for (let shift = 24; shift >= 0; shift -= 8) this.#bytes.byte((bits >>> shift) & 0xff);
      return true;
    }
    const time = timeOf(text, first);
    if (time !== undefined) {
      this.#bytes.byte(TIME);
      this.#bytes.number(time);
      return true;
    }
    if (!isUuid(text)) return false;
    this.#bytes.byte(UUID);
    packUuid(this.#bytes, text);
    return true;
  }
}

/** The length of the beginning that two texts share; 0 when it is short. */
function alikeLength(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++;
  return length < MIN_ALIKE ? 0 : length;
}

function isHexDigit(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x66);
}

function sameNames(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** One value is packed at a time. */
const packer = new ObjectPacker();
