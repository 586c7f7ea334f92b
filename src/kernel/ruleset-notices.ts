/**
 * The kernel's notices of the transactions of nftables, one after another: the program that committed each, and the objects that it touched.
 * One transaction makes one generation of the ruleset, so a series without a gap has everything that happened between two generations.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Family } from '../base/address.ts';

/** The program that committed a transaction. */
export interface Committer {
  /** In the first namespace of processes. */
  readonly pid: number;
  /** The name of its thread, at most 15 bytes. */
  readonly name: string;
  /** The program that started it, where it was seen while it ran: `bash`. */
  readonly startedBy?: string | undefined;
}

/** `nft, pid 4711, started by bash` */
export function committerText({ pid, name, startedBy }: Committer): string {
  return `${name}, pid ${pid}${startedBy === undefined ? '' : `, started by ${startedBy}`}`;
}

/** The objects of one table that were touched. */
export interface TouchedTable {
  /** Whether too much was touched to be named: the table or a set was created or deleted, or very many chains changed. */
  readonly isWhole: boolean;
  readonly chains: ReadonlySet<string>;
  /** Sets of which very many elements were touched, so that these are not named: a flush of a map. */
  readonly sets: ReadonlySet<string>;
  /** Keys of elements by set, as strings of Latin-1. */
  readonly elements: ReadonlyMap<string, ReadonlySet<string>>;
}

export interface Commit extends Committer {
  readonly generation: number;
  /** The number of the socket that committed it; see `NetlinkTransport.port`. */
  readonly port: number;
  /** By `tableKey`; undefined where messages about it were lost. */
  readonly tables: ReadonlyMap<string, TouchedTable> | undefined;
}

export function tableKey(family: Family, table: string): string {
  return `${family} ${table}`;
}

/** The notices of one network namespace. */
export interface RulesetNotices {
  /** Begins to listen, and reads the notices that have arrived. A process that may not listen gets none. */
  listen(): void;
  /**
   * The transactions that made the generations after `from` up to `to`, in their order; undefined where a notice is missing. The notice of a
   * new transaction may still come.
   */
  between(from: number, to: number): readonly Commit[] | undefined;
  /** The last transaction that was heard; undefined for none. */
  readonly last: Commit | undefined;
  /**
   * Calls soon after each transaction that is not ours, and after lost messages; also from within `listen` and `between`, which may hear of one.
   * The result ends the calls.
   */
  onCommit(call: () => void): () => void;
  close(): void;
}

/** The generation after this one (nf_tables_api.c, nft_base_seq_inc). */
export function generationAfter(generation: number): number {
  return (generation + 1) >>> 0 || 1;
}

/** Milliseconds between two reads for a notice that is late, and the number of reads. */
const LATE_PAUSE_MS = 2;
const MAX_READS = 100;
/** The number of reads where no notice has ever come: most likely none will. */
const MAX_READS_WHEN_SILENT = 10;

/**
 * As `between`, but waits for a notice that is late. The kernel shows the new generation before it sends the notice, and on a busy machine the
 * committing program may lose the processor in between.
 */
export async function commitsBetween(
  notices: Pick<RulesetNotices, 'between' | 'last'>,
  from: number,
  to: number,
): Promise<readonly Commit[] | undefined> {
  for (let reads = 1; ; reads++) {
    const commits = notices.between(from, to);
    const heard = notices.last?.generation;
    const limit = heard === undefined ? MAX_READS_WHEN_SILENT : ((to - heard) | 0) > 0 ? MAX_READS : 0;
    if (commits !== undefined || reads >= limit) return commits;
    await pause(LATE_PAUSE_MS);
  }
}

/** The objects of one table that several transactions touched; undefined where they are not known. */
export function touchedIn(commits: readonly Commit[], table: string): TouchedTable | undefined {
  const chains = new Set<string>();
  const sets = new Set<string>();
  const elements = new Map<string, Set<string>>();
  let isWhole = false;
  for (const { tables } of commits) {
    if (tables === undefined) return undefined;
    const touched = tables.get(table);
    if (touched === undefined) continue;
    isWhole ||= touched.isWhole;
    for (const chain of touched.chains) chains.add(chain);
    for (const set of touched.sets) sets.add(set);
    for (const [set, keys] of touched.elements) elements.set(set, (elements.get(set) ?? new Set()).union(keys));
  }
  for (const set of sets) elements.delete(set);
  return { isWhole, chains, sets, elements };
}

export function isUntouched({ isWhole, chains, sets, elements }: TouchedTable): boolean {
  return !isWhole && chains.size === 0 && sets.size === 0 && elements.size === 0;
}
