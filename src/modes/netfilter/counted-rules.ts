/** Rules whose packets are reported: where each is in its chain. Pure. */
import type { PacketCount } from '../mode.ts';
import { type ChainKey, splitChainKey } from './names.ts';
import type { Chain, Rule } from './rules.ts';

/** Where a rule is whose packets are reported. */
export interface CountedRule {
  readonly what: PacketCount['what'];
  readonly table: string;
  readonly chain: string;
  readonly index: number;
  /** Rules of the chain. With another number it is not as it was written. */
  readonly of: number;
}

/** Where these rules are in these chains; none for a rule that is not there. */
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
