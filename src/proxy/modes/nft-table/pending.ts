/**
 * The part of the pending changes that the next plan takes: a batch of very many new elements, and the removals that waited long enough.
 * Pure.
 */
import type { NftSet } from '../../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { Delta } from '../../reconcile/tracker.ts';
import type { SetAside } from '../mode.ts';
import type { ElementTable, PendingElementRows } from './element-table.ts';
import type { TableLayout } from './layout.ts';
import type { TableState } from './state.ts';

// A plan of very many new elements would need as much memory as the table, and would hold the event loop for as long as it takes.

/** Elements that are planned at once: some 12 ms, and 25 ms where a table has hundreds of thousands. */
const ELEMENTS_AT_ONCE = 1500;

/** Rows of elements by set: those that a plan takes of it. */
type Batch = ReadonlyMap<NftSet, readonly number[]>;

type Tables = readonly (readonly [NftSet, ElementTable])[];

export class Batches {
  /** The sets whose elements are written with the others of their Service. */
  readonly #ofServices: Tables;
  /** Those that follow the elements of all Services, such as the one that refuses other ports. */
  readonly #afterServices: Tables;
  /** The rows that wait in each set, by Service. Undefined when unknown: only while our writes alone change the sets do they stay right. */
  #waiting: ReadonlyMap<NftSet, RowsByOwner> | undefined;
  #version = 0;

  constructor({ elements }: TableState, { afterFrontend, neededFirst }: TableLayout, untouched: readonly NftSet[]) {
    const written = [...elements].filter(([set]) => !untouched.includes(set) && !neededFirst.includes(set));
    this.#ofServices = written.filter(([set]) => afterFrontend.has(set));
    this.#afterServices = written.filter(([set]) => !afterFrontend.has(set));
  }

  /**
   * The elements that are planned without the others: all those of some Services, or some of those that follow all Services. Undefined when
   * all that is left is planned at once. Batches need elements that are all new, and those of Services an owner: then no Service takes over a
   * frontend of another one.
   */
  next(setAside: SetAside): Batch | undefined {
    const version = this.#ofServices.reduce((sum, [, table]) => sum + table.pending.version, 0);
    if (this.#waiting === undefined || version !== this.#version) this.#waiting = this.#waitingRows();
    this.#version = version;
    const ofServices = this.#waiting && servicesIn(this.#waiting, setAside);
    if (ofServices !== undefined) return ofServices;
    this.#waiting = undefined;
    const areOthersWritten = setAside.size === 0 && this.#ofServices.every(([, { pending }]) => pending.count === 0);
    return areOthersWritten ? someOf(this.#afterServices) : undefined;
  }

  /** All is planned at once: rows that this writes wait no longer. */
  forget(): void {
    this.#waiting = undefined;
  }

  #waitingRows(): ReadonlyMap<NftSet, RowsByOwner> | undefined {
    if (!areMany(this.#ofServices)) return undefined;
    const waiting = new Map<NftSet, RowsByOwner>();
    for (const [set, { pending }] of this.#ofServices) {
      const rows = RowsByOwner.of(pending);
      if (rows === undefined) return undefined;
      waiting.set(set, rows);
    }
    return waiting;
  }
}

/** More than are planned at once, and all of them new. */
function areMany(tables: Tables): boolean {
  const count = tables.reduce((sum, [, { pending }]) => sum + pending.count, 0);
  return count > ELEMENTS_AT_ONCE && tables.every(([, { pending }]) => pending.isOnlyNew);
}

/** The rows of some Services; undefined when no other ones wait than those that are set aside. */
function servicesIn(waiting: ReadonlyMap<NftSet, RowsByOwner>, setAside: SetAside): Batch | undefined {
  const batch = new Map([...waiting.keys()].map((set) => [set, [] as number[]]));
  let chosen = 0;
  for (const rows of waiting.values()) {
    for (const owner of rows.owners) {
      if (chosen >= ELEMENTS_AT_ONCE) return batch;
      if (setAside.has(owner)) continue;
      for (const [set, ofSet] of batch) {
        const own = waiting.get(set)?.take(owner) ?? [];
        chosen += own.length;
        for (const row of own) ofSet.push(row);
      }
    }
  }
  return chosen > 0 ? batch : undefined;
}

/** Some of very many rows, whichever Services they are of. */
function someOf(tables: Tables): Batch | undefined {
  if (!areMany(tables)) return undefined;
  let left = ELEMENTS_AT_ONCE;
  const batch = new Map<NftSet, readonly number[]>();
  for (const [set, { pending }] of tables) {
    const rows = [...Iterator.from(pending.rows).take(left)];
    left -= rows.length;
    batch.set(set, rows);
  }
  return batch;
}

/** Rows of one set by Service, as chains: a list for each Service would take as much memory as the plan. */
class RowsByOwner {
  readonly #last = new Map<ServiceKey, number>();
  /** The row before each of the same Service, or NONE. */
  readonly #before: Int32Array;

  /** Undefined when the Service of a row is unknown. */
  static of({ rows, end, owner }: PendingElementRows): RowsByOwner | undefined {
    const made = new RowsByOwner(end);
    for (const row of rows) {
      const own = owner(row);
      if (own === undefined) return undefined;
      made.#before[row] = made.#last.get(own) ?? NONE;
      made.#last.set(own, row);
    }
    return made;
  }

  private constructor(end: number) {
    this.#before = new Int32Array(end);
  }

  get owners(): Iterable<ServiceKey> {
    return this.#last.keys();
  }

  /** The rows of a Service, which has none here from now on. */
  take(owner: ServiceKey): readonly number[] {
    const rows: number[] = [];
    for (let row = this.#last.get(owner) ?? NONE; row !== NONE; row = this.#before[row] ?? NONE) rows.push(row);
    this.#last.delete(owner);
    return rows.reverse();
  }
}

const NONE = -1;

// Chains, sets and elements that nothing uses any more are deleted after a delay.

export interface DelayedRemovalOptions {
  /**
   * Milliseconds for which unused chains, sets and hairpin elements stay, because packets may still need them. A packet goes
   * through the chains of the state in which it began. The kernel keeps two states, so a second change right after the first
   * would empty those chains. A packet is also masqueraded some time after it was translated.
   */
  readonly keep: number;
  /** Milliseconds on a monotonic clock. */
  readonly now: () => number;
}

/**
 * Leaves the removals out of a delta that must wait; `kind` distinguishes names of different kinds. An object in which packets still
 * arrive is removed at once.
 */
type WithoutWaiting = <T extends R, R>(
  kind: string,
  delta: Delta<string, T, R>,
  isInUse?: (value: R) => boolean,
) => Delta<string, T, R>;

export class DelayedRemoval {
  readonly #options: DelayedRemovalOptions;
  #since: ReadonlyMap<string, number> = new Map();

  constructor(options: DelayedRemovalOptions) {
    this.#options = options;
  }

  /** Number of idle objects that must wait. */
  get size(): number {
    return this.#since.size;
  }

  /** Begin a plan. An object that is in none of its deltas is no longer idle. */
  begin(): WithoutWaiting {
    const before = this.#since;
    const idle = new Map<string, number>();
    this.#since = idle;
    const now = this.#options.now();
    return (kind, delta, isInUse = () => false) => {
      const hasWaited = (name: string) => {
        const since = before.get(`${kind} ${name}`) ?? now;
        if (now - since >= this.#options.keep) return true;
        idle.set(`${kind} ${name}`, since);
        return false;
      };
      return {
        ...delta,
        remove: new Map([...delta.remove].filter(([name, value]) => isInUse(value) || hasWaited(name))),
      };
    };
  }
}
