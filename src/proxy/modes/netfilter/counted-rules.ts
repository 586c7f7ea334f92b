/** Rules whose packets are reported: where each is in its chain. Pure. */
import type { PacketCount } from '../mode.ts';
import { type ChainKey, splitChainKey } from './names.ts';
import type { Chain, Rule } from './rules.ts';

/** The position of a counted rule. */
export interface CountedRule {
  readonly what: PacketCount['what'];
  readonly table: string;
  readonly chain: string;
  readonly index: number;
  /** Number of rules of the chain. Another number means that another program changed the chain. */
  readonly of: number;
}

/** The positions of these rules in these chains; a missing rule has none. */
export function countedRules(
  chains: ReadonlyMap<ChainKey, Chain>,
  wanted: readonly (readonly [what: PacketCount['what'], at: ChainKey, rule: Rule])[],
): CountedRule[] {
  return wanted.flatMap(([what, at, rule]) => {
    const rules = chains.get(at) ?? [];
    const index = rules.indexOf(rule);
    return index < 0 ? [] : [{ what, ...splitChainKey(at), index, of: rules.length }];
  });
}
