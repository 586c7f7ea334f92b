/** Rules whose packets are reported: where each is in its chain, and how its counter is read. */
import type { ChainProbe } from '../../host/chain-probe.ts';
import type { IptablesTools } from '../../host/iptables-tools.ts';
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

/** Asks the probe, or the tools where it cannot tell. Throws when neither can. */
export async function readCounts(
  rules: readonly CountedRule[],
  { tools, probe }: { readonly tools: IptablesTools; readonly probe: ChainProbe | undefined },
  signal: AbortSignal,
): Promise<PacketCount[]> {
  const counts: PacketCount[] = [];
  for (const { what, table, chain, index, of } of rules) {
    const query = { table, chain, wait: 1 };
    const counters = await (probe?.counters?.(query, signal) ?? tools.counters(query, signal));
    const packets = counters.length === of ? counters[index] : undefined;
    if (packets !== undefined) counts.push({ what, family: tools.family, packets });
  }
  return counts;
}
