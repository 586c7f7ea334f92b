/** Tracks slicewire's tables of nftables between two readings, by the generation of the ruleset and by the notices of transactions. */
import type { Family } from '../base/address.ts';
import type { LeftTable, NftTouched, TableLabels, TablePresence } from './nftables-kernel.ts';
import {
  type Commit,
  type Committer,
  commitsBetween,
  generationAfter,
  isUntouched,
  type RulesetNotices,
  type TouchedTable,
  tableKey,
  touchedIn,
} from './ruleset-notices.ts';

/** The largest share of the time in which `presence` has the table read. */
const READING_SHARE = 0.01;
/** Milliseconds after which the table is read in any case: a long reading may have waited for a busy machine. */
const MAX_REST_MS = 120_000;

/** The table when it was last read or written. */
interface TableGeneration {
  readonly handle: bigint;
  /** The generation of the ruleset then; undefined when another program wrote meanwhile. */
  readonly generation: number | undefined;
  /** Time of the clock `performance`, in milliseconds, from which the table may be read only to check it. */
  readonly due: number;
  /** See `TableLabels`. */
  readonly label?: string | undefined;
}

export interface SeenOptions {
  readonly table: string;
  /** The generation of the ruleset now. */
  readonly generation: () => number;
  /** The handle of the table now; undefined when there is none. */
  readonly handle: (family: Family) => bigint | undefined;
  readonly notices: RulesetNotices;
  /** The port of the socket that writes. */
  readonly port: number | undefined;
}

/** The objects that others touched up to a generation. */
interface TouchedSince {
  readonly touched: TouchedTable;
  /** The last program that touched the table, or otherwise the last that wrote. */
  readonly by: Committer | undefined;
  readonly generation: number;
}

export class SeenTables implements TableLabels {
  readonly #options: SeenOptions;
  readonly #seen = new Map<Family, TableGeneration>();
  /** The generation that our last transaction made; undefined when another program may have written before it. */
  #own: number | undefined;

  constructor(options: SeenOptions) {
    this.#options = options;
  }

  /** Whether our last transaction made this generation. */
  isOwn(generation: number): boolean {
    return generation === this.#own;
  }

  /** The table was read; `began`: when, on the clock `performance`. undefined: there is none. */
  read(family: Family, found: Pick<TableGeneration, 'handle' | 'generation'> | undefined, began: number): void {
    if (found === undefined) {
      this.#seen.delete(family);
      return;
    }
    // Only these are kept, so that the objects that were read become garbage.
    const { handle, generation } = found;
    const now = performance.now();
    const due = now + Math.min((now - began) / READING_SHARE, MAX_REST_MS);
    this.#seen.set(family, { handle, generation, due });
  }

  isUnchanged(family: Family): boolean {
    return this.#seen.get(family)?.generation === this.#options.generation();
  }

  presence(family: Family): TablePresence {
    const handle = this.#options.handle(family);
    const seen = this.#seen.get(family);
    if (handle === undefined || handle !== seen?.handle) return 'no';
    if (seen.generation === this.#options.generation()) return 'yes';
    return performance.now() >= seen.due ? 'unclear' : 'resting';
  }

  /** Our transaction moved the generation by one, and nothing else changed. `before`: the generation that it named. */
  wrote(family: Family, before: number | undefined): void {
    const generation = before === undefined ? undefined : generationAfter(before);
    this.#own = generation;
    for (const [of, seen] of this.#seen) {
      const label = of === family ? undefined : seen.label;
      const isMoved = before !== undefined && seen.generation === before;
      if (isMoved || of === family) this.#seen.set(of, { ...seen, label, ...(isMoved ? { generation } : {}) });
    }
    if (this.#seen.has(family)) return;
    const handle = this.#options.handle(family);
    if (handle !== undefined) this.#seen.set(family, { handle, generation, due: 0 });
  }

  /** See `NftKernel.touched`. */
  async touched(family: Family): Promise<NftTouched | undefined> {
    const changes = await this.#changes(family);
    if (changes === undefined) return undefined;
    if (isUntouched(changes.touched)) this.#isKnownAt(family, changes.generation);
    return { ...changes.touched, by: changes.by };
  }

  /**
   * Records that the touched objects are known, of which a reading began in a generation of the ruleset. Returns false when further ones were
   * touched, or any since the reading began, or the table is another one.
   */
  async hasRead(family: Family, known: NftTouched, began: number): Promise<boolean> {
    const changes = await this.#changes(family);
    if (changes === undefined || changes.touched.isWhole || !isWithin(changes.touched, known)) return false;
    const later = await this.#changes(family, began);
    if (later === undefined || !isUntouched(later.touched)) return false;
    if (this.#options.handle(family) !== this.#seen.get(family)?.handle) return false;
    this.#isKnownAt(family, later.generation, { label: undefined });
    return true;
  }

  label(family: Family, digest: string): void {
    const seen = this.#seen.get(family);
    if (seen !== undefined) this.#seen.set(family, { ...seen, label: digest });
  }

  get labelled(): ReadonlyMap<Family, LeftTable> {
    const tables = new Map<Family, LeftTable>();
    for (const [family, { handle, generation, label }] of this.#seen) {
      if (label !== undefined && generation !== undefined) tables.set(family, { handle, generation, digest: label });
    }
    return tables;
  }

  isAsLeft(family: Family, { handle, generation }: LeftTable): boolean {
    return this.#options.generation() === generation && this.#options.handle(family) === handle;
  }

  believe(family: Family, { handle, generation, digest }: LeftTable): void {
    this.#seen.set(family, { handle, generation, due: 0, label: digest });
  }

  #isKnownAt(family: Family, generation: number, change: Pick<TableGeneration, 'label'> = {}): void {
    const seen = this.#seen.get(family);
    if (seen !== undefined) this.#seen.set(family, { ...seen, ...change, generation });
  }

  /** Since a generation, which is that of the last reading or write by default. undefined where notices are missing. */
  async #changes(family: Family, from = this.#seen.get(family)?.generation): Promise<TouchedSince | undefined> {
    const { generation: generationNow, notices, port, table } = this.#options;
    if (from === undefined) return undefined;
    const generation = generationNow();
    const commits = await commitsBetween(notices, from, generation);
    if (commits === undefined) return undefined;
    const ofOthers = commits.filter((commit: Commit) => commit.port !== port);
    const key = tableKey(family, table);
    const touched = touchedIn(ofOthers, key);
    return (
      touched && { touched, generation, by: ofOthers.findLast(({ tables }) => tables?.has(key)) ?? ofOthers.at(-1) }
    );
  }
}

function isWithin({ chains, sets, elements }: TouchedTable, known: NftTouched): boolean {
  if (!chains.isSubsetOf(known.chains) || !sets.isSubsetOf(known.sets)) return false;
  return elements
    .entries()
    .every(([set, keys]) => known.sets.has(set) || keys.isSubsetOf(known.elements.get(set) ?? new Set()));
}
