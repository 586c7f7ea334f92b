/** The chains of ours, and the built-in chains, that transactions of nftables touched. Pure. */

import type { Family } from '../../../base/address.ts';
import { type Commit, tableKey, touchedIn } from '../../../kernel/ruleset-notices.ts';
import { BUILT_IN, type ChainKey, chainKey } from './names.ts';
import { type IsOurs, TABLES } from './observe.ts';

export interface WhoseChains {
  readonly family: Family;
  readonly isOurs: IsOurs;
  /** See `TablesOptions`. */
  readonly shared: ReadonlySet<ChainKey>;
}

/** undefined: that is not known, or too much to name. */
export function touchedChains(
  commits: readonly Commit[],
  { family, isOurs, shared }: WhoseChains,
): readonly ChainKey[] | undefined {
  const keys: ChainKey[] = [];
  for (const table of TABLES) {
    const touched = touchedIn(commits, tableKey(family, table));
    if (touched === undefined || touched.isWhole) return undefined;
    for (const chain of touched.chains) {
      const key = chainKey(table, chain);
      if (BUILT_IN.has(chain) || isOurs(table, chain) || shared.has(key)) keys.push(key);
    }
  }
  return keys;
}
