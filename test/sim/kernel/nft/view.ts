/** A table as it was read as a view, through which packets walk. */

import type { Family } from '../../../../src/base/address.ts';
import { type NftElement, type NftState, type ReadChain, TABLE } from '../../../../src/kernel/nftables-kernel.ts';
import { isKnownSet, setNamed } from '../../../../src/proxy/modes/nftables/table-layout.ts';
import type { ElementView, FamilyView, TableView } from '../../../../src/proxy/modes/view.ts';

const VIEWS = new WeakMap<NftState, FamilyView>();

/** The same object for the same state. */
export function viewOfState(state: NftState, family: Family): FamilyView {
  const known = VIEWS.get(state);
  if (known !== undefined) return known;
  const view = { family, table: tableOf(state) };
  VIEWS.set(state, view);
  return view;
}

function tableOf({ chains, sets }: NftState): TableView {
  const elements = new Map([...sets].map(([name, all]) => [name, new Map(all.map((one) => [one.key, owned(one)]))]));
  const priority = ([, { hook }]: readonly [string, ReadChain]) => hook?.priority ?? 0;
  return {
    name: TABLE,
    hooks: (type, hook) =>
      [...chains]
        .filter(([, chain]) => chain.hook?.type === type && chain.hook.hook === hook)
        .sort((a, b) => priority(a) - priority(b))
        .map(([name]) => name),
    chain: (name) => chains.get(name)?.rules,
    set: (name) => (sets.has(name) && isKnownSet(name) ? setNamed(name) : undefined),
    element: (set, key) => elements.get(set)?.get(key),
    elements: (set) => elements.get(set)?.values() ?? [],
  };
}

function owned(element: NftElement): ElementView {
  return { ...element, owner: undefined };
}
