/** A table as it was read as a view, through which packets walk. */

import type { Family } from '../../../../src/base/address.ts';
import { type NftElement, type NftState, TABLE } from '../../../../src/kernel/nftables-kernel.ts';
import { calledChains } from '../../../../src/proxy/modes/nft-table/table-view.ts';
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
  return {
    name: TABLE,
    called: (hook) => calledChains(chains, hook),
    chain: (name) => chains.get(name)?.rules,
    set: (name) => (sets.has(name) && isKnownSet(name) ? setNamed(name) : undefined),
    element: (set, key) => elements.get(set)?.get(key),
    elements: (set) => elements.get(set)?.values() ?? [],
  };
}

function owned(element: NftElement): ElementView {
  return { ...element, owner: undefined };
}
