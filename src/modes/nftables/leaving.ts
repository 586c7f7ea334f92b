/** Tables of nftables that another proxy left, or this one in another mode: each goes as a whole, once it is not needed. */
import type { NftTables } from '../../host/nftables-kernel.ts';
import type { Family } from '../../model/address.ts';
import { causeOf } from '../../model/cause.ts';
import type { Observed } from '../../reconcile/observed.ts';
import {
  type ApplyReport,
  failedReport,
  mergeReports,
  NOTHING_TO_DO,
  type Plan,
  type Step,
} from '../../reconcile/step.ts';
import type { ModeWork } from '../../reconcile/work.ts';
import { cleanUp } from '../cleanup.ts';
import type { Mode, ObserveReport, RuleCount } from '../mode.ts';

export interface TableId {
  readonly family: Family;
  readonly table: string;
}

interface TablesPlan extends Plan {
  readonly tables: readonly TableId[];
}

export function leavingTables(kernel: NftTables, tables: readonly TableId[]): Mode {
  return new LeavingTables(kernel, tables) as Mode;
}

class LeavingTables implements Mode<TablesPlan> {
  readonly name = 'nftables';
  readonly readsApart = true;
  readonly isWaiting = false;
  readonly #kernel: NftTables;
  readonly #tables: readonly TableId[];
  /** undefined: not read yet. */
  #there: readonly TableId[] | undefined;

  constructor(kernel: NftTables, tables: readonly TableId[]) {
    this.#kernel = kernel;
    this.#tables = tables;
  }

  get isObserved(): boolean {
    return this.#there !== undefined;
  }

  /** Nothing that grows with anything. */
  get work(): ModeWork {
    return { rendered: 0, compared: 0, steps: 0 };
  }

  desire(): void {}

  settle(): void {}

  observe(): Promise<Observed<ObserveReport>> {
    try {
      this.#there = this.#tables.filter(({ family, table }) => this.#kernel.hasTable(family, table));
    } catch (error) {
      this.#there = undefined;
      return Promise.resolve({ kind: 'unknown', cause: causeOf(error) });
    }
    const isBare = this.#there.length === 0;
    return Promise.resolve({ kind: 'known', value: { isBare, drift: [], unread: [], udpFrontends: [] } });
  }

  refresh(): Promise<void> {
    return Promise.resolve();
  }

  plan(): TablesPlan {
    const tables = this.#there ?? [];
    return { tables, steps: tables.map(stepOf) };
  }

  apply({ tables }: TablesPlan, signal: AbortSignal): Promise<ApplyReport> {
    signal.throwIfAborted();
    // What there is now is read again.
    this.#there = undefined;
    return Promise.resolve(mergeReports(tables.map((id) => this.#remove(id))));
  }

  #remove(id: TableId): ApplyReport {
    try {
      this.#kernel.deleteTable(id.family, id.table);
      return { ...NOTHING_TO_DO, applied: 1 };
    } catch (error) {
      return failedReport(stepOf(id).key, causeOf(error));
    }
  }

  probe(): Promise<boolean> {
    return Promise.resolve(true);
  }

  ruleCounts(): readonly RuleCount[] {
    return [];
  }

  cleanup(signal: AbortSignal): Promise<readonly string[]> {
    const parts = this.#tables.map(({ family, table }) => {
      const name = `${family} nftables table ${table}`;
      const remove = () => {
        if (!this.#kernel.hasTable(family, table)) return [];
        this.#kernel.deleteTable(family, table);
        return [name];
      };
      return { name, remove: () => Promise.try(remove) };
    });
    return cleanUp(parts, signal);
  }
}

function stepOf({ family, table }: TableId): Step {
  return {
    key: `${family} nftables table ${table}`,
    action: 'remove',
    phase: 'remove rules',
    owner: undefined,
    concerns: () => [],
    lines: () => [],
  };
}
