/** Rules whose packets are counted for metrics: their positions in the chains, and how the counters are read. */
import type { ChainProbe } from '../../host/chain-probe.ts';
import type { IptablesTools } from '../../host/iptables-tools.ts';
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

/** Asks the probe, or the tools if the probe has no answer. Throws when the tools fail. */
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
