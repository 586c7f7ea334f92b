/** Remove every chain and jump of a service proxy from one family: ours and kube-proxy's (reference 5.15). */
import type { IptablesTools } from '../../host/iptables-tools.ts';
import { isEmptyBlock, restoreLines, type TableBlock } from '../netfilter/restore-text.ts';
import type { Table } from '../netfilter/rules.ts';
import { JUMPS, jumpKey } from './jumps.ts';
import { splitChainKey } from './names.ts';
import { observeFamily } from './observe.ts';

const TABLES: readonly Table[] = ['filter', 'nat', 'mangle'];

/** Returns what was removed, a line each. KUBE-FIREWALL stays: it is the kubelet's as well. Throws when a read or write fails. */
export async function cleanupFamily(tools: IptablesTools, signal: AbortSignal): Promise<string[]> {
  const seen = await observeFamily(tools, false, signal);
  const jumps = JUMPS.filter((entry) => seen.jumps.has(jumpKey(entry)));
  const chains = [...seen.chains.keys()].map(splitChainKey);
  const blocks = TABLES.map((table): TableBlock => {
    const names = chains.filter((entry) => entry.table === table).map((entry) => entry.chain);
    return {
      table,
      chains: names.map((name) => ({ name, rules: [] })),
      inserts: [],
      deletes: jumps.filter((entry) => entry.table === table),
      drops: names,
    };
  }).filter((block) => !isEmptyBlock(block));
  if (blocks.length === 0) return [];
  await tools.restore(function* () {
    for (const line of restoreLines(blocks)) yield line.text;
  }, signal);
  return [
    ...jumps.map((entry) => `${tools.family} ${entry.table} ${entry.chain} to ${entry.target}`),
    ...chains.map((entry) => `${tools.family} ${entry.table} ${entry.chain}`),
  ];
}
