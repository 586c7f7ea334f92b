/** A table of nftables as a view (`proxy/modes/view.ts`). Pure. */
import type { Latin1Bytes, NftElement, NftSet, ReadChain } from '../../../kernel/nftables-kernel.ts';
import type { ElementView, TableView } from '../view.ts';
import type { OwnedElement } from './layout.ts';
import type { TableState } from './state.ts';

interface ViewedTable {
  readonly chains: ReadonlyMap<string, ReadChain>;
  readonly sets: ReadonlyMap<string, NftSet>;
  readonly elements: (set: NftSet) => ReadonlyMap<Latin1Bytes, NftElement | OwnedElement> | undefined;
  readonly ownerOf: (set: NftSet, key: Latin1Bytes) => string | undefined;
}

/** undefined: not read yet. */
export function believedTable(state: TableState): TableView | undefined {
  const [chains, sets] = [state.chains.applied, state.sets.applied];
  if (chains === undefined || sets === undefined) return undefined;
  return tableView({
    chains,
    sets,
    elements: (set) => state.elements.get(set)?.applied,
    ownerOf: (set, key) => ownerOf(state, set, key),
  });
}

export function desiredTable(state: TableState): TableView {
  return tableView({
    chains: state.chains.desired,
    sets: state.sets.desired,
    elements: (set) => state.elements.get(set)?.desired,
    ownerOf: () => undefined,
  });
}

/** A table as it was read for a question; sets that are not in the layout are left out. */
export interface SeenTable {
  readonly chains: ReadonlyMap<string, ReadChain>;
  readonly sets: ReadonlyMap<string, NftSet>;
  readonly elements: ReadonlyMap<NftSet, ReadonlyMap<Latin1Bytes, NftElement>>;
}

export function seenTable(state: TableState, seen: SeenTable): TableView {
  return tableView({
    ...seen,
    elements: (set) => seen.elements.get(set),
    ownerOf: (set, key) => ownerOf(state, set, key),
  });
}

/** The kernel does not store the Service of an element. */
export function ownerOf(state: TableState, set: NftSet, key: Latin1Bytes): string | undefined {
  const tracker = state.elements.get(set);
  return tracker?.desired.get(key)?.owner ?? tracker?.applied?.get(key)?.owner;
}

function tableView({ chains, sets, elements, ownerOf: ownerAt }: ViewedTable): TableView {
  const at = (name: string) => {
    const set = sets.get(name);
    return set === undefined ? undefined : { set, found: elements(set) };
  };
  const view = (set: NftSet, entry: NftElement | OwnedElement): ElementView =>
    'owner' in entry && entry.owner !== undefined ? entry : { ...entry, owner: ownerAt(set, entry.key) };
  return {
    hooks(type, hook) {
      const here = [...chains].filter(([, chain]) => chain.hook?.type === type && chain.hook.hook === hook);
      const priority = ([, chain]: readonly [string, ReadChain]) => chain.hook?.priority ?? 0;
      return here.sort((a, b) => priority(a) - priority(b)).map(([name]) => name);
    },
    chain: (name) => chains.get(name)?.rules,
    set: (name) => sets.get(name),
    element(name, key) {
      const { set, found } = at(name) ?? {};
      const entry = found?.get(key);
      return set === undefined || entry === undefined ? undefined : view(set, entry);
    },
    *elements(name) {
      const { set, found } = at(name) ?? {};
      if (set !== undefined) for (const entry of found?.values() ?? []) yield view(set, entry);
    },
  };
}
