/** The text that iptables-restore reads and iptables-save prints. */
import type { Chain, Table } from './rules.ts';

/** One table's part of a restore: it is committed as a whole. */
export interface TableBlock {
  readonly table: Table;
  /** Chains to create, or to empty when they exist, with their rules. */
  readonly chains: readonly { readonly name: string; readonly rules: Chain }[];
  /** Rules to put at the top of chains that are not ours. */
  readonly inserts: readonly { readonly chain: string; readonly text: string }[];
  /** Rules to delete from chains that are not ours. */
  readonly deletes: readonly { readonly chain: string; readonly text: string }[];
  /** Chains to delete; they are among `chains`, with no rules. */
  readonly drops: readonly string[];
}

/** A line of restore input, and what it belongs to. */
export interface RestoreLine {
  readonly text: string;
  readonly table: Table;
  readonly chain: string | undefined;
  readonly owner: string | undefined;
}

/** The input of `iptables-restore --noflush`, made line by line: it is never in memory as a whole. */
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

/** The same as plain lines. */
export function* restoreTexts(blocks: Iterable<TableBlock>): Generator<string> {
  for (const line of restoreLines(blocks)) yield line.text;
}

/**
 * iptables-nft keeps chains in a list sorted by name and walks it for each new one: named from the last to the first,
 * each is put at its head. In any order it takes three times as long at 10,000 chains (docs/iptables.md).
 */
export function byNameDown(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? 1 : -1;
}

export function isEmptyBlock(block: TableBlock): boolean {
  return block.chains.length + block.inserts.length + block.deletes.length + block.drops.length === 0;
}

/** Chains of one table as saved: name → rules without `-A CHAIN`, built-in chains included. */
export type SavedTable = ReadonlyMap<string, readonly string[]>;

const INCOMPATIBLE = /^# Table `\S+' is incompatible/;

/**
 * Reads what iptables-save prints, a line at a time. Chain lines, rule lines, comments and COMMIT are known; anything
 * else throws, for a misread table must not be taken for an empty one (invariant 2).
 */
export class SaveReader {
  readonly tables = new Map<string, Map<string, string[]>>();
  #current: Map<string, string[]> | undefined;

  read(line: string): void {
    // A table that holds native nft rules is left out by iptables-save, with this comment and success.
    if (INCOMPATIBLE.test(line)) {
      throw new SyntaxError(`iptables-save cannot show a table that another program wrote with nft: ${line.slice(2)}`);
    }
    if (line === '' || line.startsWith('#')) return;
    const current = this.#current;
    if (line.startsWith('*')) {
      this.#current = new Map();
      this.tables.set(line.slice(1), this.#current);
    } else if (line === 'COMMIT') {
      this.#current = undefined;
    } else if (current !== undefined && line.startsWith(':')) {
      current.set(line.slice(1, line.indexOf(' ')), []);
    } else if (current !== undefined && line.startsWith('-A ')) {
      addRule(current, line);
    } else {
      throw new SyntaxError(`iptables-save printed a line that is not understood: ${line}`);
    }
  }

  /** Throws when the text ended before a table's COMMIT. */
  end(): ReadonlyMap<string, SavedTable> {
    if (this.#current !== undefined) throw new SyntaxError('what iptables-save printed ends before COMMIT');
    return this.tables;
  }
}

function addRule(table: Map<string, string[]>, line: string): void {
  const end = line.indexOf(' ', 3);
  const chain = end < 0 ? line.slice(3) : line.slice(3, end);
  const rules = table.get(chain);
  if (rules === undefined) throw new SyntaxError(`iptables-save printed a rule of a chain it did not name: ${line}`);
  rules.push(end < 0 ? '' : line.slice(end + 1));
}
