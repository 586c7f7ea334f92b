/**
 * The transactions of nftables as the kernel tells of them, one after another: who committed each, and which objects it touched. One
 * transaction makes one generation of the ruleset, so a series without a gap says all that happened between two generations.
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
  /** More than can be named: the table was created or deleted, or a set of it, or very many objects changed. */
  readonly isWhole: boolean;
  readonly chains: ReadonlySet<string>;
  /** Keys of elements by set, as strings of Latin-1. */
  readonly elements: ReadonlyMap<string, ReadonlySet<string>>;
}

export interface Commit extends Committer {
  readonly generation: number;
  /** The number of the socket that committed it; see `NetlinkTransport.port`. */
  readonly port: number;
  /** By `tableKey`; undefined: messages about it were lost. */
  readonly tables: ReadonlyMap<string, TouchedTable> | undefined;
}

export function tableKey(family: Family, table: string): string {
  return `${family} ${table}`;
}

/** What one network namespace tells. */
export interface RulesetNotices {
  /** Begin to listen, if it does not yet, and take in what was said. A process that may not listen does without. */
  listen(): void;
  /**
   * The transactions that made the generations after `from` until `to`, in their order; undefined where one was not heard, which may
   * still come when it has just been made.
   */
  between(from: number, to: number): readonly Commit[] | undefined;
  /** The last transaction that was heard; undefined for none. */
  readonly last: Commit | undefined;
  /** Calls soon after each transaction of another socket than our own, and after lost messages. The result ends it. */
  onCommit(call: () => void): () => void;
  close(): void;
}

/** The generation after this one (nf_tables_api.c, nft_base_seq_inc). */
export function generationAfter(generation: number): number {
  return (generation + 1) >>> 0 || 1;
}

/** Milliseconds between two questions for a notice that is late, and how often it is asked for. */
const LATE = 2;
const MAX_QUESTIONS = 100;
/** The same where nothing was heard at all: most likely nothing will be. */
const MAX_WHEN_SILENT = 10;

/**
 * As `between`, but waits for a notice that is late: the new generation shows before the kernel tells of its transaction, and on a busy
 * machine its program may lose the processor in between.
 */
export async function commitsBetween(
  notices: Pick<RulesetNotices, 'between' | 'last'>,
  from: number,
  to: number,
): Promise<readonly Commit[] | undefined> {
  for (let asked = 1; ; asked++) {
    const commits = notices.between(from, to);
    const heard = notices.last?.generation;
    const most = heard === undefined ? MAX_WHEN_SILENT : ((to - heard) | 0) > 0 ? MAX_QUESTIONS : 0;
    if (commits !== undefined || asked >= most) return commits;
    await pause(LATE);
  }
}

/** What several transactions touched in one table; undefined where that is not known. */
export function touchedIn(commits: readonly Commit[], table: string): TouchedTable | undefined {
  const chains = new Set<string>();
  const elements = new Map<string, Set<string>>();
  let isWhole = false;
  for (const { tables } of commits) {
    if (tables === undefined) return undefined;
    const touched = tables.get(table);
    if (touched === undefined) continue;
    isWhole ||= touched.isWhole;
    for (const chain of touched.chains) chains.add(chain);
    for (const [set, keys] of touched.elements) elements.set(set, (elements.get(set) ?? new Set()).union(keys));
  }
  return { isWhole, chains, elements };
}

export function isUntouched({ isWhole, chains, elements }: TouchedTable): boolean {
  return !isWhole && chains.size === 0 && elements.size === 0;
}
