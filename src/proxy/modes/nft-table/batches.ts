/**
 * Very many new elements are planned and written in parts: a plan of all would need as much memory as the table, and would hold the
 * event loop for as long as it takes. Pure.
 */
import type { NftSet } from '../../../kernel/nftables-kernel.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { SetAside } from '../mode.ts';
import type { ElementTable } from './element-table.ts';
import type { TableLayout } from './layout.ts';
import type { TableState } from './state.ts';

/** Elements of one set that are planned at once: some 20 ms. */
const ELEMENTS_AT_ONCE = 2500;

/** Rows of elements by set. */
export type Batch = ReadonlyMap<NftSet, readonly number[]>;

export class Batches {
  readonly #tables: readonly (readonly [NftSet, ElementTable])[];
  /** What waits in each set, by Service; undefined: not looked at. It counts as long as nothing but our writes changes the sets. */
  #waiting: ReadonlyMap<NftSet, Map<ServiceKey, number[]>> | undefined;
  #version = 0;

  constructor({ elements }: TableState, { afterFrontend }: TableLayout) {
    this.#tables = [...elements].filter(([set]) => afterFrontend.has(set));
  }

  /**
   * All elements of some Services, which are planned without the others; undefined: all that is left is planned at once. Only where
   * all that is pending is new and has an owner: then no Service takes over a frontend of another one.
   */
  next(setAside: SetAside): Batch | undefined {
    const version = this.#tables.reduce((sum, [, table]) => sum + table.pending.version, 0);
    if (this.#waiting === undefined || version !== this.#version) this.#waiting = this.#look();
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
    return new Map([...waiting].map(([set, byOwner]) => [set, owners.flatMap((owner) => taken(byOwner, owner))]));
  }

  #look(): ReadonlyMap<NftSet, Map<ServiceKey, number[]>> | undefined {
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

function taken(byOwner: Map<ServiceKey, number[]>, owner: ServiceKey): readonly number[] {
  const rows = byOwner.get(owner) ?? [];
  byOwner.delete(owner);
  return rows;
}
