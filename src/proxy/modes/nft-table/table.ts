/** One family's table: reads, plans and writes it, keeps its state, and finds the Service of each refusal (invariant 4). */
import type { Family } from '../../../base/address.ts';
import { causeOf } from '../../../base/cause.ts';
import { breath } from '../../../base/clock.ts';
import type {
  Latin1Bytes,
  NftKernel,
  NftPart,
  NftRefusal,
  NftSet,
  NftTouched,
} from '../../../kernel/nftables-kernel.ts';
import { type Committer, isUntouched } from '../../../kernel/ruleset-notices.ts';
import type { TableRecord } from '../../../kernel/ruleset-record.ts';
import type { Drift } from '../../model/drift.ts';
import type { ServiceKey } from '../../model/objects.ts';
import { type FailedStep, NOTHING_TO_DO } from '../../reconcile/step.ts';
import type { FamilyReport } from '../families.ts';
import type { FamilyInspection } from '../inspection.ts';
import type { Heard, SetAside } from '../mode.ts';
import { ownKey, sharedKey } from './groups.ts';
import { tableInspection } from './inspect.ts';
import type { OwnedElement, TableLayout } from './layout.ts';
import { Batches, DelayedRemoval, type DelayedRemovalOptions } from './pending.ts';
import { planTable, type TablePlan, type Transaction } from './plan.ts';
import { entryText } from './print.ts';
import { RememberedTable } from './remembered.ts';
import { correctTable, isHooked, TableState } from './state.ts';

interface TableOptions extends DelayedRemovalOptions {
  readonly layout: TableLayout;
  /** Sets whose elements stay as they are. */
  readonly untouched: readonly NftSet[];
  /** Record of the table that an agent left; without it the table is read at the start. */
  readonly record?: TableRecord | undefined;
}

const NOTHING_TOUCHED: NftTouched = { isWhole: false, chains: new Set(), sets: new Set(), elements: new Map() };

export class NftTable {
  readonly state: TableState;
  readonly inspection: FamilyInspection;
  readonly #kernel: NftKernel;
  readonly #options: TableOptions;
  readonly #removals: DelayedRemoval;
  readonly #batches: Batches;
  /** Receives the desired objects. */
  readonly remembered: RememberedTable;
  #isWaiting = false;
  /** A probe or a write found changes of another program. The table must be read again, even without a later write. */
  #hasDrift = false;
  /** The program that made the believed state a mistaken one, as a write found. */
  metBy: Committer | undefined;
  /** Other programs touched objects of the table, which their notices name. */
  #isTouched = false;
  /** Grows where a reading begins, and where transactions begin and end. */
  #turns = 0;

  constructor(family: Family, kernel: NftKernel, options: TableOptions) {
    this.state = new TableState(family, options.layout);
    this.#kernel = kernel;
    this.#options = options;
    this.#removals = new DelayedRemoval(options);
    this.#batches = new Batches(this.state, options.layout, options.untouched);
    this.remembered = new RememberedTable(this.state, options.record);
    this.inspection = tableInspection({ state: this.state, kernel, ...options });
  }

  /** A deletion must wait. */
  get isWaiting(): boolean {
    return this.#isWaiting || this.#removals.size > 0;
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
   * Read the table. Returns the changes of other programs, or undefined if no program wrote since the last reading, which is
   * checked first, or `as left` if an agent left the table as it is desired. When it cannot be read this throws, and nothing is known.
   */
  async observe(): Promise<readonly Drift[] | undefined | 'as left'> {
    try {
      if (this.state.isKnown && !this.#hasDrift && this.#kernel.isUnchanged(this.state.family)) return undefined;
      this.#turns += 1;
      if (await this.remembered.adopt()) return 'as left';
      this.metBy = this.#hasDrift ? (await this.#kernel.touched?.(this.state.family))?.by : undefined;
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

  /** See `KernelProbe.heard`. Throws when the kernel does not answer. */
  async heard(): Promise<Heard> {
    if (!this.state.isKnown) return { kind: 'nothing' };
    // The notices since then do not name the program that made it.
    if (this.#hasDrift) return { kind: 'something' };
    const known = await this.#kernel.touched?.(this.state.family);
    if (known === undefined && !this.#kernel.isUnchanged(this.state.family)) return { kind: 'unknown' };
    const touched = known ?? NOTHING_TOUCHED;
    const { by } = touched;
    if (isUntouched(touched)) {
      await this.remembered.keep();
      return { kind: 'nothing', by };
    }
    // Otherwise the sync reads the whole table: it was touched, so the reading is not in vain.
    this.#isTouched = areReadAlone(touched, this.#options.layout);
    return { kind: 'something', by };
  }

  /** Reads the touched objects; undefined when all must be read. */
  async #readTouched(): Promise<NftPart | undefined> {
    const isTouched = this.#isTouched;
    this.#isTouched = false;
    if (!isTouched || !this.state.isKnown || this.#hasDrift) return undefined;
    const touched = await this.#kernel.touched?.(this.state.family);
    if (touched === undefined || !areReadAlone(touched, this.#options.layout)) return undefined;
    return await this.#kernel.readPart?.(this.state.family, touched);
  }

  /** Throws when nothing is known. With `mayBePart` a part of very many new elements may be planned (`TablePlan.isPart`). */
  plan(setAside: SetAside, mayBePart: boolean): TablePlan {
    const { state } = this;
    const { layout, untouched } = this.#options;
    const withoutWaiting = this.#removals.begin();
    if (!mayBePart) this.#batches.forget();
    const part = mayBePart ? this.#batches.next(setAside) : undefined;
    const isWritten = (set: NftSet) => part === undefined || part.has(set) || layout.neededFirst.includes(set);
    const elements = [...state.elements]
      .filter(([set]) => !untouched.includes(set) && isWritten(set))
      .map(([set, tracker]) => {
        const delta = tracker.delta(part?.get(set));
        return [set, layout.lasting.includes(set) ? withoutWaiting(set.name, delta) : delta] as const;
      });
    const chains = withoutWaiting('chain', state.chains.delta(), isHooked);
    const sets = withoutWaiting('set', state.sets.delta());
    const { room } = this.#kernel;
    const pending = { family: state.family, layout, hasTable: state.hasTable, chains, sets, elements, room };
    return { ...planTable(pending, setAside), isPart: part !== undefined };
  }

  /** Write a plan. The report is `isMistaken` when another program changed the table since it was read. */
  async apply({ transactions, isPart = false, waiting }: TablePlan, signal: AbortSignal): Promise<FamilyReport> {
    const { family } = this.state;
    this.#turns += transactions.length;
    try {
      const target = { family, kernel: this.#kernel, wrote: (done: Transaction) => this.remembered.wrote(done) };
      const { isWaiting, isLost, ...written } = await applyTransactions(transactions, target, signal);
      const report = { ...written, skipped: waiting };
      this.#isWaiting = isWaiting;
      if (report.isMistaken === true) {
        // A refused transaction changed nothing: what is believed shows what another program did.
        this.#hasDrift = true;
        this.remembered.changes();
      } else if (isLost) this.remembered.forget();
      else if (!this.#hasDrift && !isPart) await this.remembered.keepSoon();
      return report;
    } catch (error) {
      // It is unknown which transactions were committed.
      this.remembered.forget();
      throw error;
    } finally {
      this.#turns += transactions.length;
    }
  }

  /** Whether the written table is installed. If another program wrote anything, only a reading of the table shows it. */
  async isInstalled(): Promise<boolean> {
    if (this.remembered.mayBeAsLeft) return true;
    if (this.#hasDrift) return false;
    const answer = await this.#kernel.presence(this.state.family);
    if (answer !== 'unclear') return answer !== 'no';
    this.#hasDrift = this.state.driftFrom(await this.#kernel.read(this.state.family)).length > 0;
    return !this.#hasDrift;
  }

  /** See `KernelProbe.mayDiffer`. */
  async mayDiffer(): Promise<boolean> {
    return !this.remembered.mayBeAsLeft && (await this.#kernel.presence(this.state.family)) === 'resting';
  }

  /** See `KernelProbe.differs`. */
  async differs(): Promise<boolean | undefined> {
    const turns = this.#turns;
    const found = await this.#kernel.inspect(this.state.family);
    if (this.#turns !== turns || !this.state.isKnown) return undefined;
    this.#hasDrift ||= this.state.driftFrom(found).length > 0;
    return this.#hasDrift;
  }

  /** Remove the table; returns a line if it existed. */
  async cleanup(): Promise<readonly string[]> {
    if ((await this.#kernel.read(this.state.family)) === undefined) return [];
    const [refusal] = await this.#kernel.commit(this.state.family, [{ kind: 'delete-table' }]);
    if (refusal !== undefined) throw new Error(`${this.state.family} table: ${refusal.cause}`);
    return [`${this.state.family} nftables table`];
  }
}

/** Whether the touched objects can be read without the rest of the table. The kernel has two elements for a range, so these cannot be read alone. */
function areReadAlone({ isWhole, elements }: NftTouched, { setNamed }: TableLayout): boolean {
  return !isWhole && elements.keys().every((name) => setNamed(name)?.hasRanges !== true);
}

/** Where transactions are committed, and the function that records each success. */
interface WriteTarget {
  readonly family: Family;
  readonly kernel: NftKernel;
  readonly wrote: (transaction: Transaction) => void;
}

interface TableReport extends FamilyReport {
  /** A deletion must wait. */
  readonly isWaiting: boolean;
  /** The table's state is unknown, because a write got no answer or the table was not as believed. */
  readonly isLost: boolean;
}

/** A refused transaction changes nothing, and the others go on, unless it is one that all others need. */
async function applyTransactions(
  transactions: readonly Transaction[],
  target: WriteTarget,
  signal: AbortSignal,
): Promise<TableReport> {
  const failed: FailedStep[] = [];
  let applied = 0;
  let [isWaiting, isLost, isMistaken] = [false, false, false];
  for (const [i, transaction] of transactions.entries()) {
    if (i > 0) await breath();
    signal.throwIfAborted();
    try {
      const refusals = await target.kernel.commit(target.family, transaction.writes);
      if (refusals.length === 0) {
        target.wrote(transaction);
        applied += transaction.steps.length;
      } else if (transaction.mayWait === true && refusals.every(({ blame }) => blame === 'use')) isWaiting = true;
      else failed.push(...refusals.map((refusal) => failure(target.family, transaction, refusal)));
      isMistaken = refusals.some(({ blame }) => blame === 'environment');
      isLost = isMistaken;
    } catch (error) {
      isLost = true;
      failed.push({ ...whole(target.family), blame: 'environment', cause: causeOf(error) });
    }
    const isNeeded = transaction.isFoundation === true && failed.length > 0;
    if (isLost || isNeeded || failed.some(({ key }) => key === whole(target.family).key)) break;
  }
  const states = { isWaiting, isLost, isMistaken };
  if (failed.length === 0) return { ...NOTHING_TO_DO, applied, ...states };
  return { outcome: applied > 0 ? 'partial' : 'failed', applied, failed, skipped: [], ...states };
}

function whole(family: Family): Pick<FailedStep, 'key' | 'family' | 'kind' | 'owner' | 'line'> {
  return { key: `${family} nftables`, family, kind: 'rules', owner: undefined, line: undefined };
}

function failure(family: Family, { writes, chains }: Transaction, refusal: NftRefusal): FailedStep {
  const { write, element, cause } = refusal;
  const blame = refusal.blame === 'content' ? 'content' : 'environment';
  const what = writes[write];
  if (what === undefined) return { ...whole(family), blame, cause };
  if ('chain' in what) {
    const line = `${what.kind} ${what.chain}`;
    const owner = new Map(chains).get(what.chain)?.owner;
    const of = owner === undefined || blame === 'environment' ? {} : { key: ownKey(family, owner), owner, line };
    return { ...whole(family), ...of, blame, cause: `${cause}: ${line}` };
  }
  if (!('elements' in what)) return { ...whole(family), blame, cause: `${cause}: ${what.kind}` };
  const entry = (element === undefined ? undefined : what.elements[element]) as OwnedElement | undefined;
  if (entry === undefined) return { ...whole(family), blame, cause: `${cause}: ${what.kind} ${what.set.name}` };
  const line = `${what.set.name} ${entryText(what.set, entry, family)}`;
  // No Service is to blame for a change by another program.
  if (blame === 'environment') return { ...whole(family), line, blame, cause: `${cause}: ${line}` };
  const { owner } = entry;
  const key =
    owner === undefined ? sharedKey(family, { set: what.set, from: entry, to: entry }) : ownKey(family, owner);
  return { ...whole(family), key, owner, line, blame, cause: `${cause}: ${line}` };
}
