/** Answers to questions about the table of one family in nftables: views, and the differences from the desired table. */

import { type Address, addressBytes } from '../../../base/address.ts';
import { sameData } from '../../../base/equal.ts';
import { inPortions } from '../../../base/portions.ts';
import {
  type Latin1Bytes,
  type NftElement,
  type NftKernel,
  type NftSet,
  type NftState,
  type ReadChain,
  type ReadExpression,
  TABLE,
} from '../../../kernel/nftables-kernel.ts';
import { comparison, type Unlike } from '../../reconcile/compare.ts';
import type { FamilyInspection } from '../inspection.ts';
import type { FamilyView, TableView } from '../view.ts';
import { sameEntry } from './element-table.ts';
import type { OwnedElement, TableLayout } from './layout.ts';
import { entryText, keyText, ruleText } from './print.ts';
import { sameChain, type TableState } from './state.ts';
import { believedTable, canonical, desiredTable, ownerOf, type SeenTable, seenTable } from './table-view.ts';

export interface TableInspectionOptions {
  readonly state: TableState;
  readonly kernel: NftKernel;
  readonly layout: TableLayout;
  /** Sets whose elements stay as they are. */
  readonly untouched: readonly NftSet[];
}

export function tableInspection({ state, kernel, layout, untouched }: TableInspectionOptions): FamilyInspection {
  const { family } = state;
  const viewOf = (table: TableView): FamilyView => ({ family, table });
  return {
    get writes() {
      return writesOf(state);
    },
    believed() {
      const table = believedTable(TABLE, state);
      return table && viewOf(table);
    },
    desired: () => viewOf(desiredTable(TABLE, state)),
    isCertain: () => Promise.resolve(state.isKnown && kernel.isUnchanged(family)),
    async read(signal) {
      return viewOf(seenTable(TABLE, state, await seenIn(await kernel.inspect(family), layout, signal)));
    },
    async compared(signal) {
      const found = await kernel.inspect(family);
      const foreign = [...(found?.sets.keys() ?? [])].filter((name) => layout.setNamed(name) === undefined);
      return comparedTable(state, await seenIn(found, layout, signal), { foreign, untouched, lasting: layout.lasting });
    },
    remembered: ({ lists: sets }, client) => rememberedBy(kernel, state, { sets, client }),
    lastWriter: () => Promise.resolve(kernel.lastWriter()),
  };
}

function writesOf({ chains, sets, elements }: TableState): number {
  return [chains, sets, ...elements.values()].reduce((sum, { writes }) => sum + writes, 0);
}

async function rememberedBy(
  kernel: NftKernel,
  { family, sets: { applied } }: TableState,
  { sets, client }: { readonly sets: readonly string[]; readonly client: Address },
): Promise<ReadonlyMap<string, number>> {
  const left = new Map<string, number>();
  for (const name of sets) {
    if (applied?.get(name)?.isMemory !== true) continue;
    const seconds = (await kernel.expirations(family, name)).get(addressBytes(client));
    if (seconds !== undefined) left.set(name, seconds);
  }
  return left;
}

/** The read table, by names and keys. A large table takes some time. */
async function seenIn(found: NftState | undefined, layout: TableLayout, signal: AbortSignal): Promise<SeenTable> {
  const sets = new Map<string, NftSet>();
  const elements = new Map<NftSet, ReadonlyMap<Latin1Bytes, NftElement>>();
  for (const [name, all] of found?.sets ?? []) {
    const set = layout.setNamed(name);
    if (set === undefined) continue;
    const byKey = new Map<Latin1Bytes, NftElement>();
    await inPortions(all, (element) => byKey.set(element.key, element), signal);
    sets.set(name, set);
    elements.set(set, byKey);
  }
  return { chains: found?.chains ?? new Map(), sets, elements };
}

interface ComparedSets {
  /** Names of sets that no set of ours has. */
  readonly foreign: readonly string[];
  readonly untouched: readonly NftSet[];
  /** See `TableLayout`. */
  readonly lasting: readonly NftSet[];
}

/** One value for each chain, set and element; undefined when it is as desired. */
function* comparedTable(
  state: TableState,
  seen: SeenTable,
  { foreign, untouched, lasting }: ComparedSets,
): Generator<Unlike | undefined> {
  const { family } = state;
  yield* comparison({
    tracker: state.chains,
    found: seen.chains,
    same: isSameChain,
    isRight: sameChain,
    nameOf: (name) => `chain ${name}`,
    linesOf,
    ownerOf: () => undefined,
    waits: (name) => seen.chains.get(name)?.hook === undefined,
  });
  yield* comparison({
    tracker: state.sets,
    found: seen.sets,
    same: (a, b) => a.name === b.name,
    nameOf: (name) => `set ${name}`,
    linesOf: () => [],
    ownerOf: () => undefined,
    waits: isIdle,
  });
  for (const name of foreign) yield foreignSet(name);
  for (const [set, tracker] of state.elements) {
    if (untouched.includes(set)) continue;
    yield* comparison<Latin1Bytes, OwnedElement, NftElement>({
      tracker,
      found: seen.elements.get(set) ?? new Map(),
      same: sameEntry,
      nameOf: (_, entry) => `${set.name} ${keyText(set, entry, family)}`,
      linesOf: (entry) => [entryText(set, entry, family)],
      refusedAs: (_, entry) => `${set.name} ${entryText(set, entry, family)}`,
      ownerOf: (key, wanted) => wanted?.owner ?? ownerOf(state, set, key),
      waits: () => lasting.includes(set),
    });
  }
}

/** An unused chain or set stays for a moment, because packets may still be on their way through it (`DelayedRemovalOptions`). */
const isIdle = () => true;

function isSameEffect(a: readonly ReadExpression[], b: readonly ReadExpression[]): boolean {
  return sameData(a, b) || sameData(canonical(a), canonical(b));
}

function isSameChain(a: ReadChain, b: ReadChain): boolean {
  if (a.rules.length !== b.rules.length || !sameData(a.hook, b.hook)) return false;
  return a.rules.every((rule, i) => {
    const other = b.rules[i];
    return rule === other || (rule.text === other?.text && isSameEffect(rule.expressions, other.expressions));
  });
}

function linesOf({ hook, rules }: ReadChain): string[] {
  const head = hook === undefined ? [] : [`hook ${hook.hook}, type ${hook.type}, priority ${hook.priority}`];
  return [...head, ...rules.map(ruleText)];
}

function foreignSet(name: string): Unlike {
  const object = `set ${name}`;
  const of = { object, refusedAs: object, owner: undefined, isPending: false, isWaiting: false, isRepaired: false };
  return { ...of, kind: 'foreign', wanted: [], found: [] };
}
