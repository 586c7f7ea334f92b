/** The number of our rules in each table, and the number that the last write wrote, for kube-proxy's metrics of them. */
import type { Family } from '../../../base/address.ts';
import type { RuleCount } from '../mode.ts';
import { type ChainKey, splitChainKey } from './names.ts';
import type { Chain } from './rules.ts';

type ChainEntries = Iterable<readonly [ChainKey, Chain | undefined]>;

export class RuleTotals {
  readonly #family: Family;
  #last: ReadonlyMap<string, number> = new Map();

  constructor(family: Family) {
    this.#family = family;
  }

  /** Record the chains of a write. */
  writing(chains: ChainEntries): void {
    this.#last = rulesByTable(chains);
  }

  /** The counts of the installed chains. */
  counts(installed: ChainEntries = []): RuleCount[] {
    const last = this.#last;
    return [...rulesByTable(installed)].map(([table, total]) => {
      return { family: this.#family, table, total, last: last.get(table) ?? 0 };
    });
  }
}

function rulesByTable(chains: ChainEntries): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [key, chain] of chains) {
    const { table } = splitChainKey(key);
    counts.set(table, (counts.get(table) ?? 0) + (chain?.length ?? 0));
  }
  return counts;
}
