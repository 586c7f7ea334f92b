/**
 * The desired and the applied elements of one set, as in a `Tracker`, but in rows: the two values of an element are nearly always the
 * same, and are one row then. An `OwnedElement` is made for each answer. Pure.
 */
import type { Family } from '../../../base/address.ts';
import type { Latin1Bytes, NftElement, NftSet } from '../../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { Delta, Tracker } from '../../reconcile/tracker.ts';
import { APPLIED, DESIRED, ElementRows, type RowElement, RowStates, SEEN } from './element-rows.ts';
import type { OwnedElement } from './layout.ts';

export function sameEntry(a: NftElement, b: NftElement): boolean {
  return a.data === b.data && a.end === b.end && a.isCounted === b.isCounted;
}

type ElementTracker = Tracker<Latin1Bytes, OwnedElement>;

export interface PendingElementRows {
  readonly count: number;
  /** Changes with each change but a successful write of a desired element. */
  readonly version: number;
  /** The kernel has no element that differs from the desired one or is not desired. */
  readonly isOnlyNew: boolean;
  readonly rows: Iterable<number>;
  /** Every row is below this. */
  readonly end: number;
  owner(row: number): ServiceKey | undefined;
}

export class ElementTable
  implements Pick<ElementTracker, 'desired' | 'applied' | 'desire' | 'wrote' | 'delta' | 'forget'>
{
  readonly desired: ReadonlyMap<Latin1Bytes, OwnedElement>;
  readonly #seen: ReadonlyMap<Latin1Bytes, OwnedElement>;
  readonly #rows: ElementRows;
  readonly #states = new RowStates();
  /** Applied values that are not the row's: the row has the desired one, or cannot hold it. */
  readonly #others = new Map<number, OwnedElement>();
  /** Applied elements whose key is not like ours: another program made the set. */
  readonly #odd = new Map<Latin1Bytes, OwnedElement>();
  /** Rows that may differ. */
  readonly #pending = new Set<number>();
  #isKnown = false;
  readonly #counts = { compared: 0, writes: 0, version: 0 };

  constructor(set: NftSet, family: Family) {
    this.#rows = new ElementRows(set, family);
    const [rows, states] = [this.#rows, this.#states];
    this.desired = new ElementsView({ rows, states, bit: DESIRED, entry: (row) => rows.entry(row) });
    const believed = { rows, states, bit: APPLIED, entry: (row: number) => this.#appliedAt(row) };
    this.#seen = new ElementsView(believed, this.#odd);
  }

  /** The believed state of the kernel; undefined until it was read. */
  get applied(): ReadonlyMap<Latin1Bytes, OwnedElement> | undefined {
    return this.#isKnown ? this.#seen : undefined;
  }

  /** See `Tracker`. */
  get compared(): number {
    return this.#counts.compared;
  }

  get writes(): number {
    return this.#counts.writes;
  }

  /** Sets the desired value; undefined removes it. Throws RangeError for a value that the set cannot have. */
  desire(key: Latin1Bytes, entry: OwnedElement | undefined): void {
    const row = this.#rows.find(key);
    // Most elements of a changed Service stay as they are.
    if (entry !== undefined && row >= 0 && this.#isDesiredAt(row, entry)) return;
    this.#counts.version += 1;
    if (entry !== undefined) this.#desireAt(row, entry);
    else if (row >= 0 && this.#states.is(row, DESIRED)) this.#undesire(row);
  }

  /** Replaces the believed state by the read one, or by the desired one. Pending changes keep their order. */
  observe(read: Iterable<NftElement> | 'as desired'): void {
    if (read === 'as desired') {
      this.forget();
      this.#isKnown = true;
      this.#states.markAll(DESIRED, APPLIED, this.#rows.end);
      this.#pending.clear();
      return;
    }
    const waiting = [...this.#pending].map((row) => (this.#states.is(row, DESIRED) ? row : this.#rows.key(row)));
    this.forget();
    this.#isKnown = true;
    for (const element of read) this.#believe(element.key, element);
    const others = [...this.#pending];
    this.#pending.clear();
    for (const one of waiting) {
      const row = typeof one === 'number' ? one : this.#rows.find(one);
      if (row >= 0 && this.#differs(row)) this.#pending.add(row);
    }
    for (const row of others) this.#pending.add(row);
    for (let row = 0; row < this.#rows.end; row++) if (this.#states.at(row) === DESIRED) this.#pending.add(row);
  }

  /** Elements that another program changed: those that differ from the believed ones as read, and those that are gone as believed. */
  driftFrom(read: Iterable<NftElement>): NftElement[] {
    if (!this.#isKnown) return [];
    const changed = new Map<number, NftElement>();
    const added: NftElement[] = [];
    const odd = new Map(this.#odd);
    for (const element of read) {
      const row = this.#rows.find(element.key);
      const former = odd.get(element.key);
      odd.delete(element.key);
      if (row < 0 || !this.#states.is(row, APPLIED)) {
        if (former === undefined || !sameEntry(former, element)) added.push(element);
        continue;
      }
      this.#states.mark(row, SEEN, true);
      if (!this.#hasApplied(row, element)) changed.set(row, element);
    }
    const before: NftElement[] = [];
    for (let row = 0; row < this.#rows.end; row++) {
      const now = changed.get(row);
      if (now !== undefined) before.push(now);
      else if (this.#states.is(row, APPLIED) && !this.#states.is(row, SEEN)) before.push(this.#appliedAt(row));
      this.#states.mark(row, SEEN, false);
    }
    return [...before, ...odd.values(), ...added];
  }

  /** Corrects the believed values of some keys; see `Tracker`. */
  correct(read: ReadonlyMap<Latin1Bytes, NftElement | undefined>): ReadonlyMap<Latin1Bytes, OwnedElement | undefined> {
    this.#mustBeKnown();
    this.#counts.version += 1;
    const drift = new Map<Latin1Bytes, OwnedElement | undefined>();
    for (const [key, value] of read) {
      const former = this.#seen.get(key);
      const isSame = value === undefined || former === undefined ? value === former : sameEntry(value, former);
      if (isSame) continue;
      drift.set(key, former);
      this.#believe(key, value);
    }
    return drift;
  }

  /** Forgets the believed state. */
  forget(): void {
    this.#counts.version += 1;
    this.#isKnown = false;
    this.#others.clear();
    this.#odd.clear();
    for (let row = 0; row < this.#rows.end; row++) {
      if (!this.#states.is(row, APPLIED)) continue;
      this.#states.mark(row, APPLIED, false);
      if (!this.#states.is(row, DESIRED)) this.#drop(row);
    }
  }

  /** Record a successful write; a removed element is undefined. */
  wrote(key: Latin1Bytes, value: OwnedElement | undefined): void {
    this.#mustBeKnown();
    this.#counts.writes += 1;
    this.#believe(key, value);
  }

  /** The elements that may differ. */
  get pending(): PendingElementRows {
    return {
      count: this.#pending.size + this.#odd.size,
      version: this.#counts.version,
      isOnlyNew: this.#states.only(APPLIED) + this.#others.size + this.#odd.size === 0,
      rows: this.#pending,
      end: this.#rows.end,
      owner: (row) => this.#rows.owner(row),
    };
  }

  /**
   * The writes that make the kernel match the desired state, all of them or those of some rows that `pending` named at the same version.
   * Throws while the kernel's state is unknown.
   */
  delta(rows: Iterable<number> = this.#pending): Delta<Latin1Bytes, OwnedElement> {
    this.#mustBeKnown();
    const create = new Map<Latin1Bytes, OwnedElement>();
    const update = new Map<Latin1Bytes, { from: OwnedElement; to: OwnedElement }>();
    const remove = new Map<Latin1Bytes, OwnedElement>(this.#odd);
    this.#counts.compared += this.#odd.size;
    for (const row of rows) {
      this.#counts.compared += 1;
      const entry = this.#rows.entry(row);
      const from = this.#states.is(row, APPLIED) ? this.#appliedAt(row) : undefined;
      if (!this.#differs(row)) this.#pending.delete(row);
      else if (!this.#states.is(row, DESIRED)) remove.set(entry.key, from ?? entry);
      else if (from === undefined) create.set(entry.key, entry);
      else update.set(entry.key, { from, to: entry });
    }
    return { create, update, remove };
  }

  #isDesiredAt(row: number, entry: OwnedElement): boolean {
    return this.#states.is(row, DESIRED) && this.#rows.owner(row) === entry.owner && this.#rows.holds(row, entry);
  }

  #desireAt(found: number, entry: OwnedElement): void {
    const rows = this.#rows;
    if (!rows.fits(entry)) throw new RangeError(`an element of ${entry.key.length} bytes does not fit into its set`);
    const row = found >= 0 ? found : rows.add(entry.key);
    if (this.#states.is(row, APPLIED)) {
      const believed = this.#appliedAt(row);
      if (sameEntry(believed, entry)) this.#others.delete(row);
      else this.#others.set(row, believed);
    }
    rows.set(row, entry);
    this.#states.mark(row, DESIRED, true);
    this.#pending.add(row);
  }

  #undesire(row: number): void {
    this.#states.mark(row, DESIRED, false);
    if (!this.#states.is(row, APPLIED)) {
      this.#drop(row);
      return;
    }
    const believed = this.#appliedAt(row);
    if (this.#rows.fits(believed)) {
      this.#rows.set(row, believed);
      this.#others.delete(row);
    }
    this.#pending.add(row);
  }

  /** Believe that the kernel has this value; undefined for no such element. */
  #believe(key: Latin1Bytes, value: RowElement | undefined): void {
    if (!this.#rows.isKey(key)) {
      if (value === undefined) this.#odd.delete(key);
      else this.#odd.set(key, entryOf(value));
      return;
    }
    const known = this.#rows.find(key);
    if (value === undefined) {
      if (known >= 0) this.#believeGone(known);
      return;
    }
    const row = known >= 0 ? known : this.#rows.add(key);
    const isDesired = this.#states.is(row, DESIRED);
    this.#states.mark(row, APPLIED, true);
    if (isDesired && this.#rows.holds(row, value)) this.#others.delete(row);
    else if (isDesired || !this.#rows.fits(value)) this.#others.set(row, entryOf(value));
    else {
      this.#rows.set(row, value);
      this.#others.delete(row);
    }
    if (this.#differs(row)) this.#pending.add(row);
    else this.#pending.delete(row);
  }

  #believeGone(row: number): void {
    this.#others.delete(row);
    this.#states.mark(row, APPLIED, false);
    if (this.#states.is(row, DESIRED)) this.#pending.add(row);
    else this.#drop(row);
  }

  #differs(row: number): boolean {
    return this.#states.at(row) !== (DESIRED | APPLIED) || this.#others.has(row);
  }

  #appliedAt(row: number): OwnedElement {
    return this.#others.get(row) ?? this.#rows.entry(row);
  }

  #hasApplied(row: number, element: NftElement): boolean {
    const other = this.#others.get(row);
    return other === undefined ? this.#rows.holds(row, element) : sameEntry(other, element);
  }

  /** Remove a row that is neither desired nor applied. */
  #drop(row: number): void {
    this.#counts.version += 1;
    this.#rows.remove(row);
    this.#pending.delete(row);
  }

  #mustBeKnown(): void {
    if (!this.#isKnown) throw new Error('the kernel state is not known: observe before delta');
  }
}

function entryOf(element: RowElement): OwnedElement {
  return { ...element, owner: element.owner };
}

/** The rows behind a map of the desired or the applied elements of a set. */
interface ViewedRows {
  readonly rows: ElementRows;
  readonly states: RowStates;
  /** The rows that count. */
  readonly bit: number;
  readonly entry: (row: number) => OwnedElement;
}

const NONE: ReadonlyMap<Latin1Bytes, OwnedElement> = new Map();

class ElementsView implements ReadonlyMap<Latin1Bytes, OwnedElement> {
  readonly #of: ViewedRows;
  /** Elements that are in no row. */
  readonly #more: ReadonlyMap<Latin1Bytes, OwnedElement>;

  constructor(of: ViewedRows, more = NONE) {
    this.#of = of;
    this.#more = more;
  }

  get size(): number {
    return this.#of.states.count(this.#of.bit) + this.#more.size;
  }

  has(key: Latin1Bytes): boolean {
    return this.#row(key) >= 0 || this.#more.has(key);
  }

  get(key: Latin1Bytes): OwnedElement | undefined {
    const row = this.#row(key);
    return row < 0 ? this.#more.get(key) : this.#of.entry(row);
  }

  *entries(): MapIterator<[Latin1Bytes, OwnedElement]> {
    for (const entry of this.values()) yield [entry.key, entry];
  }

  *keys(): MapIterator<Latin1Bytes> {
    for (const row of this.#listed()) yield this.#of.rows.key(row);
    yield* this.#more.keys();
  }

  *values(): MapIterator<OwnedElement> {
    for (const row of this.#listed()) yield this.#of.entry(row);
    yield* this.#more.values();
  }

  [Symbol.iterator](): MapIterator<[Latin1Bytes, OwnedElement]> {
    return this.entries();
  }

  forEach(call: (value: OwnedElement, key: Latin1Bytes, map: ReadonlyMap<Latin1Bytes, OwnedElement>) => void): void {
    for (const [key, entry] of this) call(entry, key, this);
  }

  #row(key: Latin1Bytes): number {
    const { rows, states, bit } = this.#of;
    const row = rows.find(key);
    return row >= 0 && states.is(row, bit) ? row : -1;
  }

  *#listed(): Generator<number> {
    const { rows, states, bit } = this.#of;
    for (let row = 0; row < rows.end; row++) if (states.is(row, bit)) yield row;
  }
}
