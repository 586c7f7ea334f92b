/** Remove every chain and jump of a service proxy from one family: ours in every mode, and kube-proxy's. */
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import { targetOf } from './jumps.ts';
import { BUILT_IN } from './names.ts';
import { type IsOurs, readTables, TABLES } from './observe.ts';
import { isEmptyBlock, restoreTexts, type SavedTable, type TableBlock } from './restore-text.ts';
import type { Table } from './rules.ts';

/** Returns a line for each removed object. KUBE-FIREWALL stays: the kubelet uses it too. Throws when a read or write fails. */
export async function cleanupTables(tools: IptablesTools, isOurs: IsOurs, signal: AbortSignal): Promise<string[]> {
  const tables = await readTables(tools, signal);
  const blocks = TABLES.map((table) => cleanupBlock(table, tables.get(table) ?? new Map(), isOurs)).filter(
    (block) => !isEmptyBlock(block),
  );
  if (blocks.length === 0) return [];
  await tools.restore(() => restoreTexts(blocks), signal);
  return blocks.flatMap(({ table, deletes, drops }) => [
    ...deletes.map(({ chain, text }) => `${tools.family} ${table} ${chain} to ${targetOf(text)}`),
    ...drops.map((chain) => `${tools.family} ${table} ${chain}`),
  ]);
}

/** Our chains, and every rule of a built-in chain that leads to one of them, with its duplicates. */
function cleanupBlock(table: Table, saved: SavedTable, isOurs: IsOurs): TableBlock {
  const names = [...saved.keys()].filter((name) => isOurs(table, name));
  const going = new Set(names);
  const deletes: { chain: string; text: string }[] = [];
  for (const [chain, rules] of saved) {
    if (!BUILT_IN.has(chain)) continue;
    for (const text of rules) if (going.has(targetOf(text))) deletes.push({ chain, text });
  }
  return { table, chains: names.map((name) => ({ name, rules: [] })), inserts: [], deletes, drops: names };
}
