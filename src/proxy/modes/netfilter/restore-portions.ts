/**
 * Cuts many new chains into restores of bounded size. Pure.
 *
 * iptables-nft is worse than linear in the chains of one restore, in time and in memory: 10,000 Services of 5 endpoints
 * take 6.7 s and 174 MB as one restore, and 2.6 s and 8 MB in portions (docs/benchmarks.md). Nothing refers to a new chain,
 * so no packet meets it before a later restore leads to it: no packet sees a half-written state.
 */
import { targetOf } from './jumps.ts';
import { byNameDown, type TableBlock } from './restore-text.ts';
import type { Chain, Table } from './rules.ts';

/** Lines of one restore; fewer take no less time. */
export const PORTION_LINES = 3000;

export interface NewChain {
  readonly table: Table;
  readonly name: string;
  readonly rules: Chain;
}

/** Chains whose level is computed between two breaths of the event loop. */
const CHAINS_A_BREATH = 4000;

/**
 * Each chain comes after all chains that it refers to. A portion has at most `lines` lines, unless one chain has more.
 * Yields undefined to let the event loop breathe.
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
    if (i % CHAINS_A_BREATH === CHAINS_A_BREATH - 1) yield undefined;
  }
  return levels;
}

const UNKNOWN = -1;
