/** Elements of one set as rows: the bytes of keys, ends and data in arrays, verdicts and Services as shared texts. Pure. */
import type { Bytes, Field, NftElement, NftSet } from '../../host/nftables-kernel.ts';
import { addressWidth, type Family } from '../../model/address.ts';
import type { ServiceKey } from '../../model/objects.ts';
import { KeyRows } from './key-rows.ts';
import type { Entry } from './layout.ts';

/** An element, with its Service where that is known. */
export type Owned = NftElement & { readonly owner?: ServiceKey | undefined };

/** Bits of a row's form. */
const COUNTED = 1;
const HAS_END = 2;
/** Texts of verdicts that are shared; with more, the older ones are no longer looked for. */
const MOST_SHARED = 4096;

export class ElementRows {
  readonly #keys: KeyRows;
  /** Bytes of the data; 0 for none, and for verdicts. */
  readonly #dataWidth: number;
  readonly #hasRanges: boolean;
  #data: Buffer = Buffer.alloc(0);
  #ends: Buffer = Buffer.alloc(0);
  #forms = new Uint8Array(0);
  readonly #verdicts: (string | undefined)[] | undefined;
  readonly #owners: (ServiceKey | undefined)[] = [];
  readonly #shared = new Map<string, string>();

  constructor({ key, data, hasRanges = false }: NftSet, family: Family) {
    this.#keys = new KeyRows(bytesOf(key, family));
    this.#dataWidth = data === undefined || data === 'verdict' ? 0 : bytesOf(data, family);
    this.#verdicts = data === 'verdict' ? [] : undefined;
    this.#hasRanges = hasRanges;
  }

  /** Every row is below this; some may be free. */
  get end(): number {
    return this.#keys.end;
  }

  /** Whether keys of our set can be like this; another program can make a set of the same name and another type. */
  isKey(key: Bytes): boolean {
    return key.length === this.#keys.width;
  }

  /** Whether a row can hold the element. */
  fits({ key, end, data }: NftElement): boolean {
    const { width } = this.#keys;
    const isRight = this.#verdicts !== undefined || data.length === this.#dataWidth;
    return isRight && key.length === width && (end === '' || (this.#hasRanges && end.length === width));
  }

  /** -1 for none. */
  find(key: Bytes): number {
    return this.isKey(key) ? this.#keys.find(key) : -1;
  }

  /** A row for a new key; `set` gives it its value. */
  add(key: Bytes): number {
    const row = this.#keys.add(key);
    const { capacity, width } = this.#keys;
    this.#data = grown(this.#data, capacity * this.#dataWidth);
    this.#ends = grown(this.#ends, this.#hasRanges ? capacity * width : 0);
    if (this.#forms.length < capacity) {
      const forms = new Uint8Array(capacity);
      forms.set(this.#forms);
      this.#forms = forms;
    }
    return row;
  }

  /** The value must fit. */
  set(row: number, { end, data, owner, isCounted }: Owned): void {
    this.#forms[row] = (isCounted === true ? COUNTED : 0) | (end === '' ? 0 : HAS_END);
    if (this.#dataWidth > 0) this.#data.write(data, row * this.#dataWidth, this.#dataWidth, 'latin1');
    if (end !== '') this.#ends.write(end, row * this.#keys.width, this.#keys.width, 'latin1');
    if (this.#verdicts !== undefined) this.#verdicts[row] = this.#one(data);
    this.#owners[row] = owner;
  }

  remove(row: number): void {
    this.#keys.remove(row);
    this.#owners[row] = undefined;
  }

  key(row: number): Bytes {
    return this.#keys.key(row);
  }

  entry(row: number): Entry {
    const form = this.#forms[row] ?? 0;
    const entry = { key: this.key(row), end: this.#end(row, form), data: this.#dataOf(row), owner: this.#owners[row] };
    return (form & COUNTED) === 0 ? entry : { ...entry, isCounted: true };
  }

  /** Whether the row has this value. */
  holds(row: number, { end, data, isCounted }: NftElement): boolean {
    const form = this.#forms[row] ?? 0;
    const isSameForm = ((form & COUNTED) !== 0) === (isCounted === true) && this.#end(row, form) === end;
    return isSameForm && this.#dataOf(row) === data;
  }

  #end(row: number, form: number): Bytes {
    const { width } = this.#keys;
    return (form & HAS_END) === 0 ? '' : this.#ends.toString('latin1', row * width, (row + 1) * width);
  }

  #dataOf(row: number): string {
    if (this.#verdicts !== undefined) return this.#verdicts[row] ?? '';
    const width = this.#dataWidth;
    return width === 0 ? '' : this.#data.toString('latin1', row * width, (row + 1) * width);
  }

  /** One string for all equal verdicts. */
  #one(text: string): string {
    const known = this.#shared.get(text);
    if (known !== undefined) return known;
    if (this.#shared.size >= MOST_SHARED) this.#shared.clear();
    this.#shared.set(text, text);
    return text;
  }
}

/** Each field fills whole words of 4 bytes. */
function bytesOf(fields: readonly Field[], family: Family): number {
  return fields.reduce((sum, field) => sum + (field === 'address' ? addressWidth(family) / 8 : 4), 0);
}

function grown(bytes: Buffer, length: number): Buffer {
  if (bytes.length >= length) return bytes;
  const more = Buffer.alloc(length);
  more.set(bytes);
  return more;
}
