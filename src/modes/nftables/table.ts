/** One family's table: what should be in it, what is, and the transactions between. */

import type { Bytes, NftKernel, NftSet, NftState } from '../../host/nftables-kernel.ts';
import type { Family } from '../../model/address.ts';
import { causeOf } from '../../model/cause.ts';
import type { ServiceKey } from '../../model/objects.ts';
import { type ApplyReport, failedReport } from '../../reconcile/step.ts';
import { type Delta, Tracker } from '../../reconcile/tracker.ts';
import type { SetAside } from '../mode.ts';
import { applyTransactions, type TableReport } from './apply.ts';
import type { NftChain } from './chains.ts';
import type { DesiredSink } from './desire.ts';
import { isKnownSet, SETS, setNamed } from './names.ts';
import { planTable, type TablePlan, type Transaction } from './plan.ts';
import { entryText } from './print.ts';
import type { Entry } from './render.ts';

const NONE: ReadonlyMap<Bytes, Entry> = new Map();
/** Elements of a set that another program changed are named up to so many; all of them are counted. */
const MOST_TOLD = 50;

function sameChain(a: NftChain, b: NftChain): boolean {
  return a.rules.length === b.rules.length && a.rules.every(({ text }, i) => text === b.rules[i]?.text);
}

function sameEntry(a: Entry, b: Entry): boolean {
  return a.data === b.data && a.end === b.end && a.isCounted === b.isCounted;
}

interface TableOptions {
  /** Sets whose elements stay as they are. */
  readonly left: readonly NftSet[];
  /**
   * Milliseconds for which a chain or set stays to which nothing leads any more, and the right of an endpoint to reach itself:
   * packets are on their way. They go through the chains of the state in which they began, of which the kernel keeps two, so that
   * a second change right after the first would empty them; and they are masqueraded some time after they were translated.
   */
  readonly keep: number;
}

export class FamilyTable implements DesiredSink {
  readonly family: Family;
  readonly #kernel: NftKernel;
  readonly #left: readonly NftSet[];
  readonly #keep: number;
  /** Since when nobody needs these chains, sets and elements, which are there. */
  #idle: ReadonlyMap<string, number> = new Map();
  readonly #chains = new Tracker<string, NftChain>(sameChain);
  readonly #sets = new Tracker<string, NftSet>((a, b) => a.name === b.name);
  /** Of each set whose elements are ours to write. */
  readonly #elements: ReadonlyMap<NftSet, Tracker<Bytes, Entry>> = new Map(
    Object.values(SETS).map((set) => [set, new Tracker<Bytes, Entry>(sameEntry)]),
  );
  #hasTable = false;
  #isWaiting = false;
  /** A look found what another program changed: it is read again, though nobody wrote since. */
  #hasDrift = false;

  constructor(family: Family, kernel: NftKernel, { left, keep }: TableOptions) {
    this.family = family;
    this.#kernel = kernel;
    this.#left = left;
    this.#keep = keep;
  }

  /** False until the kernel was read, and after a write whose outcome is not known. */
  get isKnown(): boolean {
    return this.#sets.applied !== undefined;
  }

  /** Something could not be deleted yet. */
  get isWaiting(): boolean {
    return this.#isWaiting || this.#idle.size > 0;
  }

  /** There is no table of ours; only when it was read. */
  get isEmpty(): boolean {
    return !this.#hasTable;
  }

  get compared(): number {
    const ofElements = [...this.#elements.values()].reduce((sum, { compared }) => sum + compared, 0);
    return this.#chains.compared + this.#sets.compared + ofElements;
  }

  /** Elements of a set that are believed to stand. */
  elements(set: NftSet): Iterable<Entry> {
    return this.#trackerOf(set).applied?.values() ?? [];
  }

  #trackerOf(set: NftSet): Tracker<Bytes, Entry> {
    const tracker = this.#elements.get(set);
    if (tracker === undefined) throw new RangeError(`${set.name} has no elements of ours`);
    return tracker;
  }

  /** How often the elements of a set were found that count, each with its Service. Throws when they cannot be read. */
  async lookups(
    set: NftSet,
  ): Promise<readonly { readonly key: Bytes; readonly owner: ServiceKey; readonly count: number }[]> {
    const counts = await this.#kernel.counts(this.family, set.name);
    return [...counts].flatMap(([key, count]) => {
      const owner = this.#trackerOf(set).desired.get(key)?.owner;
      return owner === undefined ? [] : [{ key, owner, count }];
    });
  }

  /** Rules and elements that are believed to stand. */
  get counts(): { readonly rules: number; readonly elements: number } {
    let rules = 0;
    for (const chain of this.#chains.applied?.values() ?? []) rules += chain.rules.length;
    const elements = [...this.#elements.values()].reduce((sum, { applied }) => sum + (applied?.size ?? 0), 0);
    return { rules, elements };
  }

  chain(name: string, chain: NftChain | undefined): void {
    this.#chains.desire(name, chain);
  }

  set(name: string, set: NftSet | undefined): void {
    this.#sets.desire(name, set);
  }

  element(set: NftSet, key: string, entry: Entry | undefined): void {
    this.#trackerOf(set).desire(key, entry);
  }

  /**
   * Read it; returns what another program changed, and undefined when nobody wrote since the last time, which is asked
   * first. Throws when it cannot be read; then nothing is known.
   */
  async observe(): Promise<readonly string[] | undefined> {
    const wasKnown = this.isKnown;
    try {
      if (wasKnown && !this.#hasDrift && this.#kernel.isUnchanged(this.family)) return undefined;
      const state = await this.#kernel.read(this.family);
      this.#hasDrift = false;
      const { chains, sets, elements } = observed(state);
      const drift = wasKnown ? this.#drift(chains, elements) : [];
      this.#hasTable = state !== undefined;
      this.#chains.observe(chains);
      this.#sets.observe(sets);
      for (const [set, tracker] of this.#elements) tracker.observe(elements.get(set) ?? NONE);
      return drift;
    } catch (error) {
      this.#forget();
      throw error;
    }
  }

  #drift(chains: ReadonlyMap<string, NftChain>, elements: ReadonlyMap<NftSet, ReadonlyMap<Bytes, Entry>>): string[] {
    const ofChains = this.#chains.driftFrom(chains).map((name) => `${this.family} chain ${name}`);
    const ofElements = [...this.#elements].flatMap(([set, tracker]) => {
      const found = elements.get(set) ?? NONE;
      return tracker.driftFrom(found).map((key, i) => {
        const entry = i < MOST_TOLD ? (found.get(key) ?? tracker.applied?.get(key)) : undefined;
        return `${this.family} ${set.name} ${entry === undefined ? '' : entryText(set, entry, this.family)}`;
      });
    });
    return [...ofChains, ...ofElements];
  }

  /** Throws when nothing is known. */
  plan(setAside: SetAside): TablePlan {
    const now = performance.now();
    const idle = new Map<string, number>();
    /** Of what goes: what nobody has needed for long enough. */
    const due = <T>(what: string, delta: Delta<string, T>): Delta<string, T> => {
      const isDue = (name: string) => {
        const since = this.#idle.get(`${what} ${name}`) ?? now;
        if (now - since >= this.#keep) return true;
        idle.set(`${what} ${name}`, since);
        return false;
      };
      return { ...delta, remove: new Map([...delta.remove].filter(([name]) => isDue(name))) };
    };
    const elements = [...this.#elements]
      .filter(([set]) => !this.#left.includes(set))
      .map(([set, tracker]) => {
        const delta = tracker.delta();
        return [set, set === SETS.hairpin ? due(set.name, delta) : delta] as const;
      });
    const [chains, sets] = [due('chain', this.#chains.delta()), due('set', this.#sets.delta())];
    this.#idle = idle;
    const { room } = this.#kernel;
    return planTable({ family: this.family, hasTable: this.#hasTable, chains, sets, elements, room }, setAside);
  }

  /**
   * Carry a plan out. Where the table is not what it was believed to be, it is read and planned once more: another program
   * changed it since it was read.
   */
  async apply(plan: TablePlan, signal: AbortSignal): Promise<ApplyReport> {
    try {
      const report = await this.#carryOut(plan, signal);
      if (!report.isStale) return report;
      const unread = await this.#unread(signal);
      if (unread !== undefined)
        return { ...unread, outcome: report.applied > 0 ? 'partial' : 'failed', applied: report.applied };
      const again = await this.#carryOut(this.plan(plan.setAside), signal);
      return { ...again, applied: report.applied + again.applied };
    } catch (error) {
      // What was written by then is not known.
      this.#forget();
      throw error;
    }
  }

  /** Read it; why that could not be done. The next sync reads it then: nothing is known. */
  async #unread(signal: AbortSignal): Promise<ApplyReport | undefined> {
    try {
      await this.observe();
      return undefined;
    } catch (error) {
      if (signal.aborted) throw error;
      const cause = `the table is not what it was believed to be, and cannot be read: ${causeOf(error)}`;
      return failedReport(`${this.family} nftables`, cause);
    }
  }

  async #carryOut({ transactions }: TablePlan, signal: AbortSignal): Promise<TableReport> {
    const target = { family: this.family, kernel: this.#kernel, wrote: (done: Transaction) => this.#wrote(done) };
    const report = await applyTransactions(transactions, target, signal);
    this.#isWaiting = report.isWaiting;
    if (report.isLost) this.#forget();
    return report;
  }

  #wrote({ chains, sets, elements }: Transaction): void {
    this.#hasTable = true;
    for (const [name, chain] of chains) this.#chains.wrote(name, chain);
    for (const [name, set] of sets) this.#sets.wrote(name, set);
    for (const { set, key, to } of elements) this.#trackerOf(set).wrote(key, to);
  }

  #forget(): void {
    this.#chains.forget();
    this.#sets.forget();
    for (const tracker of this.#elements.values()) tracker.forget();
  }

  /** Whether what was written stands; where another program wrote something, the table is read to see. */
  async stands(): Promise<boolean> {
    const said = await this.#kernel.stands(this.family);
    if (said !== 'unclear') return said === 'yes';
    const { chains, elements } = observed(await this.#kernel.read(this.family));
    this.#hasDrift = this.#drift(chains, elements).length > 0;
    return !this.#hasDrift;
  }

  /** Remove the table; returns what was removed. */
  async cleanup(): Promise<readonly string[]> {
    if ((await this.#kernel.read(this.family)) === undefined) return [];
    const [refusal] = await this.#kernel.commit(this.family, [{ kind: 'delete-table' }]);
    if (refusal !== undefined) throw new Error(`${this.family} table: ${refusal.cause}`);
    return [`${this.family} nftables table`];
  }
}

function observed(state: NftState | undefined) {
  const chains = new Map<string, NftChain>();
  const sets = new Map<string, NftSet>();
  const elements = new Map<NftSet, Map<Bytes, Entry>>();
  for (const [name, { rules }] of state?.chains ?? []) {
    chains.set(name, { rules: rules.map((text) => ({ text, expressions: [] })) });
  }
  for (const [name, found] of state?.sets ?? []) {
    if (!isKnownSet(name)) continue;
    sets.set(name, setNamed(name));
    const entries = found.map((element) => [element.key, { ...element, owner: undefined }] as const);
    elements.set(setNamed(name), new Map(entries));
  }
  return { chains, sets, elements };
}
