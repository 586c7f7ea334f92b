/** Reads the counters of rules whose packets are reported. */
import type { ChainProbe } from '../../../kernel/chain-probe.ts';
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { PacketCount } from '../mode.ts';
import type { CountedRule } from './counted-rules.ts';

/** Asks the probe, or the tools where it cannot tell. Throws when neither can. */
export async function readCounts(
  rules: readonly CountedRule[],
  { tools, probe }: { readonly tools: IptablesTools; readonly probe?: ChainProbe | undefined },
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
