/** Chains and jumps as a view (`proxy/modes/view.ts`). Pure. */
import type { RulesView } from '../view.ts';
import type { Jump } from './jumps.ts';
import { BUILT_IN, type ChainKey, chainKey } from './names.ts';
import { type Chain, ownerInComment, type Rule } from './rules.ts';

export interface ViewedRules {
  readonly chains: ReadonlyMap<ChainKey, Chain>;
  /** In the order of the kernel within each built-in chain. */
  readonly jumps: Iterable<Jump>;
  /** Policies other than ACCEPT, by `table CHAIN`. */
  readonly policies: ReadonlyMap<string, string>;
}

/** The jumps are grouped when a built-in chain is first asked for. */
export function rulesView({ chains, jumps, policies }: ViewedRules): RulesView {
  let byChain: Map<ChainKey, Rule[]> | undefined;
  return {
    chain(table, name) {
      const key = chainKey(table, name);
      if (!BUILT_IN.has(name)) return chains.get(key);
      byChain ??= grouped(jumps);
      return byChain.get(key) ?? [];
    },
    policy: (chain) => (policies.get(`filter ${chain}`) === 'DROP' ? 'drop' : 'accept'),
  };
}

function grouped(jumps: Iterable<Jump>): Map<ChainKey, Rule[]> {
  const byChain = new Map<ChainKey, Rule[]>();
  for (const { table, chain, text } of jumps) {
    const key = chainKey(table, chain);
    const rules = byChain.get(key) ?? [];
    rules.push({ text, owner: undefined });
    byChain.set(key, rules);
  }
  return byChain;
}

/** Each jump is inserted at the top of its chain, so the last one comes first (`iptables/jumps.ts`). */
export function inKernelOrder(jumps: ReadonlyMap<string, Jump>): Jump[] {
  return [...jumps.values()].reverse();
}

/** The Service of the rules that only one of two versions of a chain has; undefined when several have some, or none has. */
export function ownerOfChange(chain: Chain, other: Chain): string | undefined {
  const texts = new Set(other.map(({ text }) => text));
  const owners = new Set(chain.filter(({ text }) => !texts.has(text)).map(ownerOfRule));
  const [owner] = owners;
  return owners.size === 1 ? owner : undefined;
}

export function ownerOfRule({ owner, text }: Rule): string | undefined {
  return owner ?? ownerInComment(text);
}
