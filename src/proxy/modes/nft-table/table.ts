/** One family's table: reads, plans and writes it, and keeps its state. */

import type { Family } from '../../../base/address.ts';
import type { Latin1Bytes, NftKernel, NftPart, NftSet, NftTouched } from '../../../kernel/nftables-kernel.ts';
import type { TableRecord } from '../../../kernel/ruleset-record.ts';
import type { Drift } from '../../model/drift.ts';
import type { ServiceKey } from '../../model/objects.ts';
import type { FamilyReport } from '../families.ts';
import type { FamilyInspection } from '../inspection.ts';
import type { Heard, SetAside } from '../mode.ts';
import { applyTransactions } from './apply.ts';
import { Batches } from './batches.ts';
import { DelayedRemoval, type DelayedRemovalOptions } from './delayed-removal.ts';
import { tableInspection } from './inspect.ts';
import type { TableLayout } from './layout.ts';
import { planTable, type TablePlan, type Transaction } from './plan.ts';
import { RememberedTable } from './remembered.ts';
import { correctTable, isHooked, TableState } from './state.ts';

export interface TableOptions extends DelayedRemovalOptions {
  readonly layout: TableLayout;
  /** Sets whose elements stay as they are. */
  readonly untouched: readonly NftSet[];
  /** What agents left; without it the table is read at the start. */
  readonly record?: TableRecord | undefined;
}

const NOTHING_TOUCHED: NftTouched = { chains: new Set(), elements: new Map() };

export class NftTable {
  readonly state: TableState;
  readonly inspection: FamilyInspection;
  readonly #kernel: NftKernel;
  readonly #options: TableOptions;
  readonly #idle: DelayedRemoval;
  readonly #parts: Batches;
  /** Takes in what is desired. */
  readonly remembered: RememberedTable;
  #isWaiting = false;
  /** A probe found changes of another program. The table must be read again, even without a later write. */
  #hasDrift = false;
  /** Other programs touched objects of the table, which their notices name. */
  #isTouched = false;

  constructor(family: Family, kernel: NftKernel, options: TableOptions) {
    this.state = new TableState(family, options.layout);
    this.#kernel = kernel;
    this.#options = options;
    this.#idle = new DelayedRemoval(options);
    this.#parts = new Batches(this.state, options.layout);
    this.remembered = new RememberedTable(this.state, options.record);
    this.inspection = tableInspection({ state: this.state, kernel, ...options });
  }

  /** A deletion must wait. */
  get isWaiting(): boolean {
    return this.#isWaiting || this.#idle.size > 0;
  }

  /** The number of lookups of each element of a set, with its Service. Throws when they cannot be read. */
  async lookups(
    set: NftSet,
  ): Promise<readonly { readonly key: Latin1Bytes; readonly owner: ServiceKey; readonly count: number }[]> {
    const counts = await this.#kernel.counts(this.state.family, set.name);
    return [...counts].flatMap(([key, count]) => {
      const owner = this.state.elementsOf(set).desired.get(key)?.owner;
      return owner === undefined ? [] : [{ key, owner, count }];
    });
  }

  /**
   * Read the table. Returns the changes of other programs as text; undefined if nobody wrote since the last reading, which is
   * checked first; `as left` if an agent left it as it is desired. Throws when the table cannot be read; then nothing is known.
   */
  async observe(): Promise<readonly Drift[] | undefined | 'as left'> {
    try {
      if (this.state.isKnown && !this.#hasDrift && this.#kernel.isUnchanged(this.state.family)) return undefined;
      if (await this.remembered.adopt()) return 'as left';
      const part = await this.#readTouched();
      const found = part === undefined ? await this.#kernel.read(this.state.family) : undefined;
      this.remembered.changes();
      if (part !== undefined) return correctTable(this.state, part);
      this.#hasDrift = false;
      return this.state.observe(found);
    } catch (error) {
      this.remembered.forget();
      throw error;
    }
  }

  /** What the notices of other programs' transactions say; see `KernelProbe.heard`. Throws when the kernel does not answer. */
  async heard(): Promise<Heard> {
    if (!this.state.isKnown) return { kind: 'nothing' };
    const touched = await this.#kernel.touched?.(this.state.family);
    if (touched === undefined && !this.#kernel.isUnchanged(this.state.family)) return { kind: 'unknown' };
    const { by, isWhole = false, chains, elements } = touched ?? NOTHING_TOUCHED;
    if (!isWhole && chains.size === 0 && elements.size === 0) {
      if (!this.#hasDrift) await this.remembered.keep();
      return { kind: 'nothing', by };
    }
    // Else the sync reads all of the table: it was touched, so that reading is not in vain.
    this.#isTouched = !isWhole && !hasRanges({ elements }, this.#options.layout);
    return { kind: 'something', by };
  }

  /** Reads what was touched until now; undefined where all must be read. */
  async #readTouched(): Promise<NftPart | undefined> {
    const isTouched = this.#isTouched;
    this.#isTouched = false;
    if (!isTouched || !this.state.isKnown || this.#hasDrift) return undefined;
    const touched = await this.#kernel.touched?.(this.state.family);
    if (touched === undefined || touched.isWhole === true || hasRanges(touched, this.#options.layout)) return undefined;
    return await this.#kernel.readPart?.(this.state.family, touched);
  }

  /** Throws when nothing is known. `mayBePart`: of very many new elements, a part may be planned (`TablePlan.isPart`). */
  plan(setAside: SetAside, mayBePart: boolean): TablePlan {
    const { state } = this;
    const { layout, untouched } = this.#options;
    const due = this.#idle.begin();
    const part = mayBePart ? this.#parts.next(setAside) : undefined;
    // Before the last part nothing is written that must follow the elements of all Services, such as what refuses other ports.
    const isDue = (set: NftSet) =>
      part === undefined || layout.afterFrontend.has(set) || layout.neededFirst.includes(set);
    const elements = [...state.elements]
      .filter(([set]) => !untouched.includes(set) && isDue(set))
      .map(([set, tracker]) => {
        const delta = tracker.delta(part?.get(set));
        return [set, layout.lasting.includes(set) ? due(set.name, delta) : delta] as const;
      });
    const [chains, sets] = [due('chain', state.chains.delta(), isHooked), due('set', state.sets.delta())];
    const { room } = this.#kernel;
    const pending = { family: state.family, layout, hasTable: state.hasTable, chains, sets, elements, room };
    return { ...planTable(pending, setAside), isPart: part !== undefined };
  }

  /** Write a plan. `isMistaken`: another program changed the table since it was read. */
  async apply({ transactions, isPart = false }: TablePlan, signal: AbortSignal): Promise<FamilyReport> {
    const { family } = this.state;
    try {
      const target = { family, kernel: this.#kernel, wrote: (done: Transaction) => this.remembered.wrote(done) };
      const { isWaiting, isLost, ...report } = await applyTransactions(transactions, target, signal);
      this.#isWaiting = isWaiting;
      if (isLost) this.remembered.forget();
      else if (!this.#hasDrift && !isPart) await this.remembered.keepSoon();
      return report;
    } catch (error) {
      // It is unknown which transactions were committed.
      this.remembered.forget();
      throw error;
    }
  }

  /** Whether the written table is installed. If another program wrote anything, the table is read to find out. */
  async stands(): Promise<boolean> {
    if (this.remembered.mayBeAsLeft) return true;
    const answer = await this.#kernel.presence(this.state.family);
    if (answer !== 'unclear') return answer === 'yes';
    this.#hasDrift = this.state.driftFrom(await this.#kernel.read(this.state.family)).length > 0;
    return !this.#hasDrift;
  }

  /** Remove the table; returns a line if it existed. */
  async cleanup(): Promise<readonly string[]> {
    if ((await this.#kernel.read(this.state.family)) === undefined) return [];
    const [refusal] = await this.#kernel.commit(this.state.family, [{ kind: 'delete-table' }]);
    if (refusal !== undefined) throw new Error(`${this.state.family} table: ${refusal.cause}`);
    return [`${this.state.family} nftables table`];
  }
}

/** A range is two elements of the kernel: such a set is read as a whole. */
function hasRanges({ elements }: Pick<NftTouched, 'elements'>, { setNamed }: TableLayout): boolean {
  return elements.keys().some((name) => setNamed(name)?.hasRanges === true);
}
