/** Elements of one set as rows: the bytes of keys, ends and data in arrays, verdicts and Services as shared texts. Pure. */

import { addressWidth, type Family } from '../../../base/address.ts';
import type { KeyField, Latin1Bytes, NftElement, NftSet } from '../../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';
import { BitsColumn, BytesColumn, TextsColumn } from './columns.ts';
import { KeyRows } from './key-rows.ts';
import type { OwnedElement } from './layout.ts';

/** An element, with its Service where that is known. */
export type RowElement = NftElement & { readonly owner?: ServiceKey | undefined };

/** Bits of a row's form. */
const COUNTED = 1;
const HAS_END = 2;

export class ElementRows {
  readonly #keys: KeyRows;
  readonly #data: BytesColumn;
  readonly #verdicts: TextsColumn | undefined;
  readonly #ends: BytesColumn | undefined;
  readonly #forms = new BitsColumn();
  readonly #owners: (ServiceKey | undefined)[] = [];

  constructor({ key, data, hasRanges = false }: NftSet, family: Family) {
    const width = bytesOf(key, family);
    this.#keys = new KeyRows(width);
    this.#data = new BytesColumn(data === undefined || data === 'verdict' ? 0 : bytesOf(data, family));
    this.#verdicts = data === 'verdict' ? new TextsColumn() : undefined;
    this.#ends = hasRanges ? new BytesColumn(width) : undefined;
  }

  /** Every row is below this; some may be free. */
  get end(): number {
    return this.#keys.end;
  }

  /** Whether keys of our set can be like this; another program can make a set of the same name and another type. */
  isKey(key: Latin1Bytes): boolean {
    return key.length === this.#keys.width;
  }

  /** Whether a row can hold the element. */
  fits({ key, end, data }: NftElement): boolean {
    const isData = this.#verdicts !== undefined || data.length === this.#data.width;
    return isData && this.isKey(key) && (end === '' || end.length === this.#ends?.width);
  }

  /** -1 for none. */
  find(key: Latin1Bytes): number {
    return this.isKey(key) ? this.#keys.find(key) : -1;
  }

  /** A row for a new key; `set` gives it its value. */
  add(key: Latin1Bytes): number {
    return this.#keys.add(key);
  }

  /** The value must fit. */
  set(row: number, { end, data, owner, isCounted }: RowElement): void {
    this.#forms.set(row, (isCounted === true ? COUNTED : 0) | (end === '' ? 0 : HAS_END));
    if (this.#verdicts === undefined) this.#data.set(row, data);
    else this.#verdicts.set(row, data);
    if (end !== '') this.#ends?.set(row, end);
    this.#owners[row] = owner;
  }

  remove(row: number): void {
    this.#keys.remove(row);
    this.#owners[row] = undefined;
  }

  key(row: number): Latin1Bytes {
    return this.#keys.key(row);
  }

  owner(row: number): ServiceKey | undefined {
    return this.#owners[row];
  }

  entry(row: number): OwnedElement {
    const [end, data] = [this.#end(row), this.#dataOf(row)];
    const entry = { key: this.key(row), end, data, owner: this.#owners[row] };
    return has(this.#forms.at(row), COUNTED) ? { ...entry, isCounted: true } : entry;
  }

  /** Whether the row has this value. */
  holds(row: number, { end, data, isCounted }: NftElement): boolean {
    return (
      has(this.#forms.at(row), COUNTED) === (isCounted === true) && this.#end(row) === end && this.#dataOf(row) === data
    );
  }

  #end(row: number): Latin1Bytes {
    return has(this.#forms.at(row), HAS_END) ? (this.#ends?.at(row) ?? '') : '';
  }

  #dataOf(row: number): string {
    return this.#verdicts === undefined ? this.#data.at(row) : this.#verdicts.at(row);
  }
}

function has(form: number, bit: number): boolean {
  return (form & bit) !== 0;
}

/** Each field fills whole words of 4 bytes. */
function bytesOf(fields: readonly KeyField[], family: Family): number {
  return fields.reduce((sum, field) => sum + (field === 'address' ? addressWidth(family) / 8 : 4), 0);
}
