/** The table of another proxy in nftables as a view (`proxy/modes/view.ts`). Pure. */
import type { Family } from '../../../base/address.ts';
import type { AnyTable, Hook, Latin1Bytes, NftElement, ReadRule } from '../../../kernel/nftables-kernel.ts';
import type { CalledChain, TableView } from '../view.ts';
import { nftText } from './nft-text.ts';
import { calledChains } from './table-view.ts';

/** The Services of its elements are not known. Its rules have their text in the language of nft. */
export function anyTableView(name: string, { chains, sets, elements }: AnyTable, family: Family): TableView {
  const hooks = new Map<Hook['hook'], readonly CalledChain[]>();
  const rules = new Map<string, readonly ReadRule[]>();
  const byKey = new Map<string, ReadonlyMap<Latin1Bytes, NftElement>>();
  const elementsOf = (set: string) => {
    const known = byKey.get(set);
    if (known !== undefined) return known;
    const found = new Map((elements.get(set) ?? []).map((one) => [one.key, one]));
    byKey.set(set, found);
    return found;
  };
  return {
    name,
    // A table may have a chain for each endpoint, and every packet asks.
    called(hook) {
      const known = hooks.get(hook) ?? calledChains(chains, hook);
      hooks.set(hook, known);
      return known;
    },
    chain(chain) {
      const known = rules.get(chain);
      if (known !== undefined) return known;
      const read = chains.get(chain)?.rules.map(({ text, expressions }) => ({
        text: `${nftText(expressions, family)}${text === '' ? '' : ` comment "${text}"`}`,
        expressions,
      }));
      if (read !== undefined) rules.set(chain, read);
      return read;
    },
    set: (set) => sets.get(set),
    element(set, key) {
      const found = elementsOf(set).get(key);
      return found && { ...found, owner: undefined };
    },
    *elements(set) {
      for (const one of elements.get(set) ?? []) yield { ...one, owner: undefined };
    },
  };
}
