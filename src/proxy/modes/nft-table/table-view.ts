/** A table of nftables as a view (`proxy/modes/view.ts`). Pure. */
import type {
  Hook,
  Latin1Bytes,
  NftElement,
  NftSet,
  ReadChain,
  ReadExpression,
} from '../../../kernel/nftables-kernel.ts';
import type { CalledChain, ElementView, TableView } from '../view.ts';
import type { OwnedElement } from './layout.ts';
import type { TableState } from './state.ts';

interface ViewedTable {
  readonly name: string;
  readonly chains: ReadonlyMap<string, ReadChain>;
  readonly sets: ReadonlyMap<string, NftSet>;
  readonly elements: (set: NftSet) => ReadonlyMap<Latin1Bytes, NftElement | OwnedElement> | undefined;
  readonly ownerOf: (set: NftSet, key: Latin1Bytes) => string | undefined;
}

/** Returns undefined until the table was read. */
export function believedTable(name: string, state: TableState): TableView | undefined {
  const [chains, sets] = [state.chains.applied, state.sets.applied];
  if (chains === undefined || sets === undefined) return undefined;
  return tableView({
    name,
    chains,
    sets,
    elements: (set) => state.elements.get(set)?.applied,
    ownerOf: (set, key) => ownerOf(state, set, key),
  });
}

export function desiredTable(name: string, state: TableState): TableView {
  return tableView({
    name,
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

export function seenTable(name: string, state: TableState, seen: SeenTable): TableView {
  return tableView({
    name,
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

function tableView({ name, chains, sets, elements, ownerOf: ownerAt }: ViewedTable): TableView {
  const at = (wanted: string) => {
    const set = sets.get(wanted);
    return set === undefined ? undefined : { set, found: elements(set) };
  };
  const view = (set: NftSet, entry: NftElement | OwnedElement): ElementView =>
    'owner' in entry && entry.owner !== undefined ? entry : { ...entry, owner: ownerAt(set, entry.key) };
  return {
    name,
    called: (hook) => calledChains(chains, hook),
    chain: (chain) => chains.get(chain)?.rules,
    set: (set) => sets.get(set),
    element(of, key) {
      const { set, found } = at(of) ?? {};
      const entry = found?.get(key);
      return set === undefined || entry === undefined ? undefined : view(set, entry);
    },
    *elements(of) {
      const { set, found } = at(of) ?? {};
      if (set !== undefined) for (const entry of found?.values() ?? []) yield view(set, entry);
    },
  };
}

/** See `TableView`. */
export function calledChains(
  chains: ReadonlyMap<string, { readonly hook?: Hook | undefined }>,
  at: Hook['hook'],
): readonly CalledChain[] {
  return [...chains]
    .flatMap(([name, { hook }]) => (hook?.hook === at ? [{ name, ...hook }] : []))
    .sort((a, b) => a.priority - b.priority)
    .map(({ name, type }) => ({ name, type }));
}

// One form for the expressions of a rule, whichever program wrote it: the nft tool saves and loads our rules in another form.

/**
 * We load a whole address, mask it and compare it; the nft tool loads only the bytes of the prefix, and compares these without a mask
 * (payload_expr_trim of nftables). Both are the latter here. Data that only the translation behind it uses may be in any words.
 */
export function canonical(expressions: readonly ReadExpression[]): readonly ReadExpression[] {
  const found: ReadExpression[] = [];
  for (let i = 0; i < expressions.length; i++) {
    const [prefix, two] = [prefixAt(expressions, i), translationAt(expressions, i) ?? interfaceAt(expressions, i)];
    if (prefix !== undefined) i += 2;
    else if (two !== undefined) i += 1;
    found.push(...(prefix ?? two ?? expressions.slice(i, i + 1)));
  }
  return found;
}

/** A lookup of an address and a port, and the translation to them, as if the data were in the first words. */
function translationAt(expressions: readonly ReadExpression[], at: number): ReadExpression[] | undefined {
  const [lookup, translate] = [expressions[at], expressions[at + 1]];
  if (lookup?.do !== 'lookup' || typeof lookup.to !== 'number' || translate?.do !== 'translate') return undefined;
  const { to } = lookup;
  return [
    { ...lookup, to: 0 },
    { ...translate, address: translate.address - to, port: translate.port - to },
  ];
}

/** The whole name of an interface with one zero at its end; the nft tool compares all 16 bytes (IFNAMSIZ). */
function interfaceAt(expressions: readonly ReadExpression[], at: number): ReadExpression[] | undefined {
  const [load, compare] = [expressions[at], expressions[at + 1]];
  if (load?.do !== 'load' || load.what !== 'input interface' || compare?.do !== 'compare') return undefined;
  return [load, { ...compare, value: compare.value.replace(/\0+$/, '\0') }];
}

/** A load, a mask of whole bytes and a comparison, in the form of the nft tool. */
function prefixAt(expressions: readonly ReadExpression[], at: number): ReadExpression[] | undefined {
  const [load, mask, compare] = [expressions[at], expressions[at + 1], expressions[at + 2]];
  if (load?.do !== 'load' || mask?.do !== 'mask' || compare?.do !== 'compare') return undefined;
  const { to, what } = load;
  const bytes = wholeBytes(mask.mask);
  if (mask.at !== to || compare.from !== to || /[^\0]/.test(mask.flip) || bytes === undefined) return undefined;
  if (compare.value.length !== mask.mask.length || /[^\0]/.test(compare.value.slice(bytes))) return undefined;
  if (bytes === mask.mask.length) return [load, compare];
  return [
    { do: 'load-part', what, bytes, to },
    { ...compare, value: compare.value.slice(0, bytes) },
  ];
}

/** The number of bytes that a mask keeps; undefined when it ends within a byte, or keeps none. */
function wholeBytes(mask: Latin1Bytes): number | undefined {
  const kept = /^\xff*/.exec(mask)?.[0].length ?? 0;
  const isRest = /^\0*$/.test(mask.slice(kept));
  return isRest && kept > 0 ? kept : undefined;
}
