/** The table of another proxy in nftables as a view (`proxy/modes/view.ts`). Pure. */
import type { Family } from '../../../base/address.ts';
import type {
  AnyTable,
  Hook,
  Latin1Bytes,
  LookedUpTable,
  NftElement,
  ReadRule,
} from '../../../kernel/nftables-kernel.ts';
import type { CalledChain, ElementView, TableView } from '../view.ts';
import { nftText } from './nft-text.ts';
import { calledChains } from './table-view.ts';

/** The Services of its elements are not known. Its rules have their text in the language of nft. */
export function anyTableView(name: string, table: AnyTable, family: Family): TableView {
  const byKey = new Map<string, ReadonlyMap<Latin1Bytes, NftElement>>();
  const elementsOf = (set: string) => {
    const known = byKey.get(set);
    if (known !== undefined) return known;
    const found = new Map((table.elements.get(set) ?? []).map((one) => [one.key, one]));
    byKey.set(set, found);
    return found;
  };
  const hooks = new Map<Hook['hook'], readonly CalledChain[]>();
  const rules = new Map<string, readonly ReadRule[]>();
  return {
    name,
    // A table may have a chain for each endpoint, and every packet asks.
    called(hook) {
      const known = hooks.get(hook) ?? calledChains(table.chains, hook);
      hooks.set(hook, known);
      return known;
    },
    chain(chain) {
      const known = rules.get(chain);
      if (known !== undefined) return known;
      const found = table.chains.get(chain);
      if (found === undefined) return undefined;
      const read = inText(found.rules, family);
      rules.set(chain, read);
      return read;
    },
    set: (set) => table.sets.get(set),
    element: (set, key) => ofNoService(elementsOf(set).get(key)),
    *elements(set) {
      for (const one of table.elements.get(set) ?? []) yield { ...one, owner: undefined };
    },
  };
}

/** As `anyTableView`, of a table that is read where a packet passes. It is as the table is now. */
export function lookedUpView(name: string, table: LookedUpTable, family: Family): TableView {
  return {
    name,
    called: (hook) => calledChains(new Map([...table.hooks].map(([chain, one]) => [chain, { hook: one }])), hook),
    chain(chain) {
      const rules = table.rules(chain);
      const known = rules && TEXTS.get(rules);
      if (known !== undefined || rules === undefined) return known;
      const read = inText(rules, family);
      TEXTS.set(rules, read);
      return read;
    },
    set: (set) => table.set(set),
    element: (set, key) => ofNoService(table.element(set, key)),
    *elements(set) {
      for (const one of table.elements(set)) yield { ...one, owner: undefined };
    },
  };
}

/** Rules with their texts, while the table remembers the rules. */
const TEXTS = new WeakMap<readonly ReadRule[], readonly ReadRule[]>();

function inText(rules: readonly ReadRule[], family: Family): readonly ReadRule[] {
  return rules.map(({ text, expressions }) => ({
    text: `${nftText(expressions, family)}${text === '' ? '' : ` comment "${text}"`}`,
    expressions,
  }));
}

function ofNoService(found: NftElement | undefined): ElementView | undefined {
  return found && { ...found, owner: undefined };
}
