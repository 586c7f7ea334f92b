/** All chains of a family in iptables as a view (`proxy/modes/view.ts`): those of another proxy, and what other programs have around them. */
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { RulesView } from '../view.ts';
import { readChain, readTables } from './observe.ts';
import type { Chain } from './rules.ts';

/** Throws when the read fails, and SyntaxError when its output is not understood. */
export async function everyChain(tools: IptablesTools, signal: AbortSignal): Promise<RulesView> {
  const { tables, policies } = await readTables(tools, signal);
  const read = new Map<readonly string[], Chain>();
  return {
    chain(table, name) {
      const rules = tables.get(table)?.get(name);
      if (rules === undefined) return undefined;
      const known = read.get(rules) ?? readChain(rules);
      read.set(rules, known);
      return known;
    },
    policy: (chain) => (policies.get(`filter ${chain}`) === 'DROP' ? 'drop' : 'accept'),
  };
}
