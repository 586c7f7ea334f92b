/**
 * Cuts many new chains into restores of bounded size. Pure.
 *
 * iptables-nft is worse than linear in the chains of one restore, in time and in memory: 10,000 Services of 5 endpoints
 * take 6.7 s and 174 MB as one, and 2.6 s and 8 MB in portions (docs/benchmarks.md). Nothing refers to a chain that is
 * new, so no packet meets it before a later restore leads there: what the portions wrote so far is never seen half done.
 */
import { targetOf } from './jumps.ts';
import { type ChainKey, chainKey } from './names.ts';
import { byNameDown, type TableBlock } from './restore-text.ts';
import type { Chain, Table } from './rules.ts';

/** Lines of one restore; fewer take no less time. */
export const PORTION_LINES = 3000;

export interface NewChain {
  readonly table: Table;
  readonly name: string;
  readonly rules: Chain;
}

/** In an order in which each chain comes after all that it refers to; of at most `lines` lines each, unless one chain has more. */
export function portionsOf(chains: readonly NewChain[], lines = PORTION_LINES): TableBlock[] {
  const levels = levelsOf(chains);
  const ordered = chains
    .map((chain) => ({ ...chain, level: levels.get(keyOf(chain)) ?? 0 }))
    .sort((a, b) => (a.table === b.table ? a.level - b.level || byNameDown(a, b) : a.table < b.table ? -1 : 1));
  const blocks: TableBlock[] = [];
  let block: NewChain[] = [];
  let size = 0;
  const close = () => {
    const [first] = block;
    if (first === undefined) return;
    blocks.push({ table: first.table, chains: block.sort(byNameDown), inserts: [], deletes: [], drops: [] });
    block = [];
    size = 0;
  };
  for (const chain of ordered) {
    const own = linesOf(chain);
    if (size + own > lines || block[0]?.table !== chain.table) close();
    block.push(chain);
    size += own;
  }
  close();
  return blocks;
}

/** Lines that a restore needs for a chain. */
export function linesOf({ rules }: NewChain): number {
  return rules.length + 1;
}

/** How many chains stand one below the other under each, counting only those given. The kernel has no loops of chains. */
function levelsOf(chains: readonly NewChain[]): ReadonlyMap<ChainKey, number> {
  const byKey = new Map(chains.map((chain) => [keyOf(chain), chain]));
  const levels = new Map<ChainKey, number>();
  const levelOf = (chain: NewChain): number => {
    const key = keyOf(chain);
    const known = levels.get(key);
    if (known !== undefined) return known;
    let level = 0;
    for (const { text } of chain.rules) {
      const below = byKey.get(chainKey(chain.table, targetOf(text)));
      if (below !== undefined) level = Math.max(level, levelOf(below) + 1);
    }
    levels.set(key, level);
    return level;
  };
  for (const chain of chains) levelOf(chain);
  return levels;
}

function keyOf({ table, name }: NewChain): ChainKey {
  return chainKey(table, name);
}
