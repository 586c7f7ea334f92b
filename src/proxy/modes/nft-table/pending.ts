/**
 * The part of the pending changes that the next plan takes: a batch of very many new elements, and the removals that waited long enough.
 * Pure.
 */
import type { NftSet } from '../../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { Delta } from '../../reconcile/tracker.ts';
import type { SetAside } from '../mode.ts';
import type { ElementTable } from './element-table.ts';
import type { TableLayout } from './layout.ts';
import type { TableState } from './state.ts';

// A plan of very many new elements would need as much memory as the table, and would hold the event loop for as long as it takes.

/** Elements of one set that are planned at once: some 20 ms. */
const ELEMENTS_AT_ONCE = 2500;

/** Rows of elements by set. */
type Batch = ReadonlyMap<NftSet, readonly number[]>;

export class Batches {
  readonly #tables: readonly (readonly [NftSet, ElementTable])[];
  /** The rows that wait in each set, by Service. Undefined when unknown: only while our writes alone change the sets do they stay right. */
  #waiting: ReadonlyMap<NftSet, Map<ServiceKey, number[]>> | undefined;
  #version = 0;

  constructor({ elements }: TableState, { afterFrontend }: TableLayout) {
    this.#tables = [...elements].filter(([set]) => afterFrontend.has(set));
  }

  /**
   * All elements of some Services, which are planned without the others; undefined when all that is left is planned at once. Batches need
   * elements that are all new and have an owner: then no Service takes over a frontend of another one.
   */
  next(setAside: SetAside): Batch | undefined {
    const version = this.#tables.reduce((sum, [, table]) => sum + table.pending.version, 0);
    if (this.#waiting === undefined || version !== this.#version) this.#waiting = this.#waitingRows();
    this.#version = version;
    const waiting = this.#waiting;
    const [largest] = [...(waiting?.values() ?? [])].sort((a, b) => b.size - a.size);
    if (waiting === undefined || largest === undefined) return undefined;
    const owners: ServiceKey[] = [];
    let chosen = 0;
    for (const [owner, rows] of largest) {
      if (chosen >= ELEMENTS_AT_ONCE) break;
      if (setAside.has(owner)) continue;
      owners.push(owner);
      chosen += rows.length;
    }
    if (owners.length === 0) {
      this.#waiting = undefined;
      return undefined;
    }
    return new Map([...waiting].map(([set, byOwner]) => [set, owners.flatMap((owner) => removeRows(byOwner, owner))]));
  }

  #waitingRows(): ReadonlyMap<NftSet, Map<ServiceKey, number[]>> | undefined {
    if (!this.#tables.some(([, { pending }]) => pending.count > ELEMENTS_AT_ONCE)) return undefined;
    if (!this.#tables.every(([, { pending }]) => pending.isOnlyNew)) return undefined;
    const waiting = new Map<NftSet, Map<ServiceKey, number[]>>();
    for (const [set, { pending }] of this.#tables) {
      const byOwner = new Map<ServiceKey, number[]>();
      for (const [row, owner] of pending.rows) {
        if (owner === undefined) return undefined;
        const rows = byOwner.get(owner);
        if (rows === undefined) byOwner.set(owner, [row]);
        else rows.push(row);
      }
      waiting.set(set, byOwner);
    }
    return waiting;
  }
}

function removeRows(byOwner: Map<ServiceKey, number[]>, owner: ServiceKey): readonly number[] {
  const rows = byOwner.get(owner) ?? [];
  byOwner.delete(owner);
  return rows;
}

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
