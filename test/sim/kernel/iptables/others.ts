/** Rules of other programs beside ours: what they are, and what such programs do to ours. */
import { FAMILIES, type Family } from '../../../../src/base/address.ts';
import { FIREWALL } from '../../../../src/proxy/modes/netfilter/names.ts';
import type { Table } from '../../../../src/proxy/modes/netfilter/rules.ts';
import { isOursOrSource } from '../../../../src/proxy/modes/virtual-servers/source-chain.ts';
import type { SimIptables, Writer } from './iptables.ts';
import { targetOf } from './restore.ts';
import { type Chains, isBuiltIn, TABLES } from './rule-store.ts';

/** All rules and chains of others, as text. Jumps into our chains are ours, and so is our part of KUBE-FIREWALL, which the kubelet has too. */
export function othersIn({ stores }: SimIptables): string {
  const lines: string[] = [];
  for (const [variant, store] of Object.entries(stores)) {
    for (const family of FAMILIES) {
      for (const table of TABLES) {
        for (const [chain, rules] of store.table(family, table) ?? []) {
          if (isOursOrSource(table, chain)) continue;
          const theirs = rules.filter((rule) => !isRuleOfOurs(table, chain, rule));
          const policy = isBuiltIn(table, chain) ? store.policy(family, table, chain) : '-';
          // The kernel has the built-in chains of every table that was used.
          const isAsMade = policy === 'ACCEPT' || chain === FIREWALL;
          if (theirs.length === 0 && isAsMade) continue;
          lines.push(`${variant} ${family} ${table} ${chain} ${policy}`, ...theirs.map((rule) => `  ${rule}`));
        }
      }
    }
  }
  return lines.join('\n');
}

function isRuleOfOurs(table: Table, chain: string, rule: string): boolean {
  const target = targetOf(rule) ?? '';
  if (chain === FIREWALL) return rule.includes('127.0.0.0/8');
  return target === FIREWALL || isOursOrSource(table, target);
}

/** A change of a table by a program other than the agent. */
export interface ForeignEdit {
  readonly family: Family;
  readonly table: Table;
  readonly writer: Writer;
  /** Changes the copies of the chains. */
  readonly edit: (chains: Map<string, readonly string[]>) => void;
  /** Arguments of the tool that does the same, after those of the table. */
  readonly args?: readonly string[];
}

/** Who writes, and where. */
export type ForeignPlace = Omit<ForeignEdit, 'edit' | 'args'>;

/** One commit of the variant that the command `iptables` has. */
export function editAs(iptables: SimIptables, { family, table, writer, edit, args }: ForeignEdit): void {
  const store = iptables.stores[iptables.variant];
  const before = store.used(family, table);
  const chains = new Map(before);
  edit(chains);
  // No new generation without a change.
  if (!sameTable(before, chains)) iptables.writeAs(writer, () => store.commit(family, table, chains));
  iptables.onEdit({ family, table, before, after: chains, args });
}

function sameTable(a: Chains, b: Chains): boolean {
  return a.size === b.size && [...a].every(([name, rules]) => b.get(name)?.join('\n') === rules.join('\n'));
}

/** `iptables -t TABLE -F`: all rules of all chains. */
export function flushTable(iptables: SimIptables, at: ForeignPlace): void {
  editAs(iptables, {
    ...at,
    args: ['-F'],
    edit: (chains) => {
      for (const name of chains.keys()) chains.set(name, []);
    },
  });
}

/** `iptables -t TABLE -F CHAIN`. Returns whether there is such a chain. */
export function flushChain(iptables: SimIptables, chain: string, at: ForeignPlace): boolean {
  if (!chainsOf(iptables, at).has(chain)) return false;
  editAs(iptables, { ...at, args: ['-F', chain], edit: (chains) => void chains.set(chain, []) });
  return true;
}

/** `iptables -t TABLE -D CHAIN NUMBER`. Returns whether there is such a rule. */
export function deleteRule(
  iptables: SimIptables,
  { chain, number }: { readonly chain: string; readonly number: number },
  at: ForeignPlace,
): boolean {
  const rules = chainsOf(iptables, at).get(chain);
  if (rules === undefined || number < 1 || number > rules.length) return false;
  const edit = (chains: Map<string, readonly string[]>) => void chains.set(chain, rules.toSpliced(number - 1, 1));
  editAs(iptables, { ...at, args: ['-D', chain, String(number)], edit });
  return true;
}

/** A chain of another program, and jumps to it from a built-in chain, at its beginning or its end. */
export function addForeignChain(
  iptables: SimIptables,
  {
    name,
    rules,
    from,
    isFirst,
  }: { readonly name: string; readonly rules: readonly string[]; readonly from: string; readonly isFirst: boolean },
  at: ForeignPlace,
): void {
  editAs(iptables, {
    ...at,
    edit: (chains) => {
      chains.set(name, rules);
      const before = chains.get(from) ?? [];
      const jump = `-j ${name}`;
      if (!before.includes(jump)) chains.set(from, isFirst ? [jump, ...before] : [...before, jump]);
    },
  });
}

/** The names of our chains. */
export function ourChains(iptables: SimIptables, family: Family, table: Table): readonly string[] {
  const chains = iptables.stores[iptables.variant].table(family, table) ?? new Map();
  return [...chains.keys()].filter((name) => isOursOrSource(table, name));
}

function chainsOf(iptables: SimIptables, { family, table }: Pick<ForeignEdit, 'family' | 'table'>): Chains {
  return iptables.stores[iptables.variant].used(family, table);
}
