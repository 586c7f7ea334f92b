/** The text that iptables-restore reads and iptables-save prints, and the portions of very many new chains. Pure. */

import { targetOf } from './jumps.ts';
import type { Chain, Table } from './rules.ts';

/** One table's part of a restore. It is committed as a whole. */
export interface TableBlock {
  readonly table: Table;
  /** Chains to create, or to flush if they exist, with their rules. */
  readonly chains: readonly { readonly name: string; readonly rules: Chain }[];
  /** Rules to put at the top of chains that are not ours. */
  readonly inserts: readonly { readonly chain: string; readonly text: string }[];
  /** Rules to delete from chains that are not ours. */
  readonly deletes: readonly { readonly chain: string; readonly text: string }[];
  /** Chains to delete; they are also in `chains`, without rules. */
  readonly drops: readonly string[];
}

/** A line of restore input, with its table, chain and owner. */
export interface RestoreLine {
  readonly text: string;
  readonly table: Table;
  readonly chain: string | undefined;
  readonly owner: string | undefined;
}

/** The input of `iptables-restore --noflush`, made line by line: the whole text is never in memory. */
export function* restoreLines(blocks: Iterable<TableBlock>): Generator<RestoreLine> {
  for (const block of blocks) {
    const { table } = block;
    const plain = (text: string, chain?: string): RestoreLine => ({ text, table, chain, owner: undefined });
    yield plain(`*${table}`);
    for (const { name } of block.chains) yield plain(`:${name} - [0:0]`, name);
    for (const { name, rules } of block.chains) {
      for (const { text, owner } of rules) yield { text: `-A ${name} ${text}`, table, chain: name, owner };
    }
    for (const { chain, text } of block.deletes) yield plain(`-D ${chain} ${text}`, chain);
    for (const { chain, text } of block.inserts) yield plain(`-I ${chain} 1 ${text}`, chain);
    for (const chain of block.drops) yield plain(`-X ${chain}`, chain);
    yield plain('COMMIT');
  }
}

/** The same input as plain text lines. */
export function* restoreTexts(blocks: Iterable<TableBlock>): Generator<string> {
  for (const line of restoreLines(blocks)) yield line.text;
}

/**
 * iptables-nft keeps chains in a list sorted by name and walks it for each new chain. In descending order each chain is put
 * at the head. Any other order takes three times as long at 10,000 chains (docs/iptables.md).
 */
export function byNameDown(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? 1 : -1;
}

export function isEmptyBlock(block: TableBlock): boolean {
  return block.chains.length + block.inserts.length + block.deletes.length + block.drops.length === 0;
}

/** The chains of one table as saved, built-in chains included: name → rules without `-A CHAIN`. */
export type SavedTable = ReadonlyMap<string, readonly string[]>;

const INCOMPATIBLE = /^# Table `\S+' is incompatible/;

/**
 * Reads the output of iptables-save line by line. It knows chain lines, rule lines, comments and COMMIT. Any other line throws
 * SyntaxError, because a misread table must not count as an empty one (invariant 2).
 */
export class SaveReader {
  readonly tables = new Map<string, Map<string, string[]>>();
  /** Policies other than ACCEPT, by `table CHAIN`. */
  readonly policies = new Map<string, string>();
  #current: Map<string, string[]> | undefined;
  #table = '';

  read(line: string): void {
    // iptables-save omits a table that holds native nft rules: it prints this comment and succeeds.
    if (INCOMPATIBLE.test(line)) {
      throw new SyntaxError(`iptables-save cannot show a table that another program wrote with nft: ${line.slice(2)}`);
    }
    if (line === '' || line.startsWith('#')) return;
    const current = this.#current;
    if (line.startsWith('*')) {
      // A second part would replace what the first one has.
      if (current !== undefined || this.tables.has(line.slice(1)))
        throw new SyntaxError(`iptables-save printed the beginning of a table within a table, or twice: ${line}`);
      this.#current = new Map();
      this.#table = line.slice(1);
      this.tables.set(this.#table, this.#current);
    } else if (line === 'COMMIT') {
      this.#current = undefined;
    } else if (current !== undefined && line.startsWith(':')) {
      this.#addChain(current, line);
    } else if (current !== undefined && line.startsWith('-A ')) {
      addRule(current, line);
    } else {
      throw new SyntaxError(`iptables-save printed a line that slicewire does not understand: ${line}`);
    }
  }

  /** Reads `:FORWARD DROP [0:0]`; the policy of a chain of ours is `-`. */
  #addChain(table: Map<string, string[]>, line: string): void {
    const [name = '', policy = ''] = line.slice(1).split(' ', 2);
    if (table.has(name)) throw new SyntaxError(`iptables-save printed a chain twice: ${line}`);
    table.set(name, []);
    if (policy !== '-' && policy !== 'ACCEPT') this.policies.set(`${this.#table} ${name}`, policy);
  }

  /** Throws SyntaxError when the text ended before a table's COMMIT. */
  end(): ReadonlyMap<string, SavedTable> {
    if (this.#current !== undefined) throw new SyntaxError('the output of iptables-save ends before COMMIT');
    return this.tables;
  }
}

function addRule(table: Map<string, string[]>, line: string): void {
  const end = line.indexOf(' ', 3);
  const chain = end < 0 ? line.slice(3) : line.slice(3, end);
  const rules = table.get(chain);
  if (rules === undefined)
    throw new SyntaxError(`iptables-save printed a rule of a chain that it did not list: ${line}`);
  rules.push(end < 0 ? '' : line.slice(end + 1));
}

// Cuts many new chains into restores of bounded size.
//
// iptables-nft is worse than linear in the chains of one restore, in time and in memory: 10,000 Services of 5 endpoints
// took 6.7 s and 174 MB as one restore, and 2.6 s and 8 MB in portions. Nothing refers to a new chain,
// so no packet meets it before a later restore leads to it: no packet sees a half-written state.

/** Lines of one restore; fewer take no less time. */
export const PORTION_LINES = 3000;

export interface NewChain {
  readonly table: Table;
  readonly name: string;
  readonly rules: Chain;
}

/** Chains whose level is computed before the event loop runs again. */
const CHAINS_AT_ONCE = 4000;

/**
 * Each chain comes after all chains that it refers to. A portion has at most `lines` lines, unless one chain has more.
 * Yields undefined where the event loop should run.
 */
export function* portionsOf(chains: readonly NewChain[], lines = PORTION_LINES): Generator<TableBlock | undefined> {
  const levels = yield* levelsOf(chains);
  yield undefined;
  const ordered = chains
    .map((chain, i) => ({ ...chain, level: levels[i] ?? 0 }))
    .sort((a, b) => (a.table === b.table ? a.level - b.level || byNameDown(a, b) : a.table < b.table ? -1 : 1));
  yield undefined;
  let block: NewChain[] = [];
  let size = 0;
  for (const chain of ordered) {
    const own = linesOf(chain);
    if (block[0] !== undefined && (size + own > lines || block[0].table !== chain.table)) {
      yield blockOf(block);
      block = [];
      size = 0;
    }
    block.push(chain);
    size += own;
  }
  if (block.length > 0) yield blockOf(block);
}

function blockOf(chains: readonly NewChain[]): TableBlock {
  const table = chains[0]?.table ?? 'nat';
  return { table, chains: [...chains].sort(byNameDown), inserts: [], deletes: [], drops: [] };
}

/** Lines that a restore needs for a chain. */
export function linesOf({ rules }: NewChain): number {
  return rules.length + 1;
}

/** The depth of the chains below each chain, within the given ones. Chains in the kernel have no loops. */
function* levelsOf(chains: readonly NewChain[]): Generator<undefined, readonly number[]> {
  const places = new Map<Table, Map<string, number>>();
  for (const [i, { table, name }] of chains.entries()) {
    const names = places.get(table) ?? new Map<string, number>();
    places.set(table, names.set(name, i));
  }
  const levels: number[] = chains.map(() => UNKNOWN);
  const levelOf = (i: number): number => {
    const { table, rules } = chains[i] as NewChain;
    const known = levels[i] ?? UNKNOWN;
    if (known !== UNKNOWN) return known;
    const names = places.get(table);
    let level = 0;
    for (const { text } of rules) {
      const target = targetOf(text);
      const below = target === '' ? undefined : names?.get(target);
      if (below !== undefined) level = Math.max(level, levelOf(below) + 1);
    }
    levels[i] = level;
    return level;
  };
  for (const i of chains.keys()) {
    levelOf(i);
    if (i % CHAINS_AT_ONCE === CHAINS_AT_ONCE - 1) yield undefined;
  }
  return levels;
}

const UNKNOWN = -1;
