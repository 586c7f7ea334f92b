/** All chains of a family in iptables as views (`proxy/modes/view.ts`): those of a proxy, and what other programs have around them. */
import type { IptablesTools } from '../../../kernel/iptables-tools.ts';
import type { RulesView } from '../view.ts';
import { targetOf } from './jumps.ts';
import { BUILT_IN, isOurs } from './names.ts';
import { readChain, readTables } from './observe.ts';
import type { Chain, Rule, Table } from './rules.ts';

/** Throws when the read fails, and SyntaxError when its output is not understood. */
export async function everyChain(tools: IptablesTools, signal: AbortSignal): Promise<RulesView> {
  const { tables, policies } = await readTables(tools, signal);
  return {
    chain: kept((table, name) => {
      const rules = tables.get(table)?.get(name);
      return rules && readChain(rules);
    }),
    policy: (chain) => (policies.get(`filter ${chain}`) === 'DROP' ? 'drop' : 'accept'),
  };
}

/**
 * The chains of one proxy in place of those of another, among the rules of all other programs. Its jumps come first in each built-in
 * chain, because a proxy inserts them there.
 */
export function amongOthers(own: RulesView, all: RulesView): RulesView {
  return {
    chain: kept((table, name) => {
      if (!BUILT_IN.has(name))
        return own.chain(table, name) ?? (isOurs(table, name) ? undefined : all.chain(table, name));
      const others = all.chain(table, name)?.filter(({ text }) => !isOurs(table, targetOf(text)));
      return [...(own.chain(table, name) ?? []), ...(others ?? [])];
    }),
    policy: (chain) => all.policy(chain),
  };
}

/** The same without the rules and policies by which other programs filter. */
export function unfiltered(all: RulesView): RulesView {
  return {
    chain: kept((table, name) => {
      const rules = all.chain(table, name);
      if (table !== 'filter' || !BUILT_IN.has(name)) return rules;
      return rules?.filter(({ text }) => isOurs(table, targetOf(text)));
    }),
    policy: () => 'accept',
  };
}

/** Each chain is made once, and only when a packet comes to it. */
function kept(make: (table: Table, name: string) => Chain | undefined): RulesView['chain'] {
  const known = new Map<string, readonly Rule[] | undefined>();
  return (table, name) => {
    const key = `${table} ${name}`;
    if (!known.has(key)) known.set(key, make(table, name));
    return known.get(key);
  };
}
