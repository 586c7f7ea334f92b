/** Answers to questions about the rules of one family in iptables: views, and the differences from the desired rules. */

import type { Address } from '../../../base/address.ts';
import { sinceLastSeen } from '../../../kernel/recent-lists.ts';
import { comparison, type Unlike } from '../../reconcile/compare.ts';
import type { FamilyInspection, LastWriter } from '../inspection.ts';
import type { KernelSettings } from '../kernel-settings.ts';
import type { FamilyView, RulesView } from '../view.ts';
import { type FamilyRules, readRules, wantedJumps } from './family-rules.ts';
import { inKernelOrder, type Jump, misplacedJumps } from './jumps.ts';
import { type ChainKey, chainKey, isServiceChain, splitChainKey } from './names.ts';
import type { ObservedTables } from './observe.ts';
import { jumpsOf } from './plan.ts';
import { type Chain, sameChain } from './rules.ts';
import { ownerOfChange, ownerOfRule, rulesView } from './rules-view.ts';

/** The inspection of a family whose objects are rules and the settings that these need. */
export function rulesInspection(tables: FamilyRules, settings: Pick<KernelSettings, 'compare'>): FamilyInspection {
  const { family } = tables.options.tools;
  const viewOf = (rules: RulesView): FamilyView => ({ family, rules });
  return {
    get writes() {
      return tables.options.tools.writes;
    },
    believed: () => {
      const rules = believedRules(tables);
      return rules && viewOf(rules);
    },
    desired: () => viewOf(desiredRules(tables)),
    isCertain: async () => tables.isKnown && !(await tables.changeDetector.mayDiffer()),
    read: async (signal) => viewOf(await rulesNow(tables, signal)),
    async compared(signal) {
      const [seen, ofSettings] = [await readRules(tables, signal), await settings.compare()];
      return (function* () {
        yield* comparedRules(tables, seen);
        yield* ofSettings;
      })();
    },
    remembered: ({ lists }, client) => rememberedInLists(tables, lists, client),
    lastWriter: () => lastWriterOf(tables),
  };
}

/** Seconds for which each list still remembers the client: the time that its rule names, without the time that has passed. */
export async function rememberedInLists(
  { trackers }: FamilyRules,
  lists: readonly string[],
  client: Address,
): Promise<ReadonlyMap<string, number>> {
  const since = await sinceLastSeen(lists, client);
  const left = new Map<string, number>();
  if (since.size === 0) return left;
  for (const chain of trackers.chains.applied?.values() ?? []) {
    for (const { text } of chain) {
      const [, seconds, list = ''] = / --rcheck --seconds (\d+) .*?--name (\S+) /.exec(text) ?? [];
      const passed = since.get(list);
      if (passed !== undefined && Number(seconds) > passed) left.set(list, Number(seconds) - passed);
    }
  }
  return left;
}

/** The program that writes for us is `iptables-restore`, so the generation shows whether the write is ours. Legacy tables have no last writer. */
export async function lastWriterOf({
  options: { probe },
  changeDetector: standing,
}: FamilyRules): Promise<LastWriter | undefined> {
  const writer = await probe?.lastWriter?.();
  if (writer === undefined) return undefined;
  const { pid, name, generation } = writer;
  return { pid, name, isUs: standing.isOwnGeneration(generation) };
}

/** Returns undefined until the rules were read. */
export function believedRules({ trackers, besides: { policies, order } }: FamilyRules): RulesView | undefined {
  const { chains, jumps } = { chains: trackers.chains.applied, jumps: trackers.jumps.applied };
  if (chains === undefined || jumps === undefined) return undefined;
  // Jumps of a write that was not complete are in no order that was recorded: they are inserted at the top.
  const written = [...jumps.keys()].filter((key) => !order.includes(key)).reverse();
  return rulesView({ chains, jumps: [...written, ...order].flatMap((key) => jumps.get(key) ?? []), policies });
}

export function desiredRules({ trackers, besides: { policies } }: FamilyRules): RulesView {
  return rulesView({ chains: trackers.chains.desired, jumps: inKernelOrder(trackers.jumps.desired), policies });
}

/** Throws when the rules cannot be read. */
export async function rulesNow(tables: FamilyRules, signal: AbortSignal): Promise<RulesView> {
  const { chains, jumps, policies } = await readRules(tables, signal);
  return rulesView({ chains, jumps: jumps.values(), policies });
}

/** One value for each chain and jump; undefined when it is as desired. */
export function* comparedRules(tables: FamilyRules, seen: ObservedTables): Generator<Unlike | undefined> {
  const { trackers, options } = tables;
  const { shared = new Set<ChainKey>() } = options;
  yield* comparison({
    tracker: trackers.chains,
    found: seen.chains,
    same: sameChain,
    nameOf: (key) => chainName(key),
    refusedAs: (key) => key,
    linesOf: (chain) => chain.map(({ text }) => text),
    ownerOf: ownerOfChain,
    // The kubelet has these chains too.
    mayStay: (key) => shared.has(key),
  });
  yield* comparison({
    tracker: trackers.jumps,
    found: seen.jumps,
    same: (a, b) => a.text === b.text,
    nameOf: (_, entry) => jumpName(entry),
    refusedAs: (_, { table, chain, target }) => `${table} ${chain} to ${target}`,
    linesOf: ({ text }) => [text],
    ownerOf: () => undefined,
  });
  yield* misplacedJumpsOf(tables, seen);
}

/** `nat chain KUBE-SVC-XPGD46QRK7WJZT7O` */
function chainName(key: ChainKey): string {
  const { table, chain } = splitChainKey(key);
  return `${table} chain ${chain}`;
}

/** `nat chain PREROUTING, jump to KUBE-SERVICES` */
function jumpName({ table, chain, target }: Jump): string {
  return `${chainName(chainKey(table, chain))}, jump to ${target}`;
}

/** The Service of the rules that differ, or the Service that has the chain for itself. */
function ownerOfChain(key: ChainKey, wanted: Chain = [], found: Chain = []): string | undefined {
  const isOfService = isServiceChain(splitChainKey(key).chain);
  const all = [...wanted, ...found];
  if (isOfService) return all.map(ownerOfRule).find((owner) => owner !== undefined);
  const [more, less] = [ownerOfChange(wanted, found), ownerOfChange(found, wanted)];
  return more === undefined || less === undefined || more === less ? (more ?? less) : undefined;
}

/** Our jumps that are in another order than desired. A plan repairs exactly these. */
function* misplacedJumpsOf(tables: FamilyRules, { jumps }: ObservedTables): Generator<Unlike> {
  const wantedOf = wantedJumps(tables);
  const isKnown = tables.trackers.jumps.applied !== undefined;
  const believed = isKnown ? misplacedJumps(wantedOf, tables.besides.order) : [];
  for (const { table, chain, wanted, found } of misplacedJumps(wantedOf, jumps.keys())) {
    const texts = (of: readonly Jump[]) => of.map(({ text }) => text);
    const before = believed.find((one) => one.table === table && one.chain === chain)?.found;
    yield {
      object: `${chainName(chainKey(table, chain))}, jumps`,
      owner: undefined,
      kind: 'order',
      wanted: texts(wanted),
      found: texts(found),
      isPending: before !== undefined && isSameOrder(before, found),
      isWaiting: false,
      isRepaired: true,
      refusedAs: jumpsOf(table, chain),
    };
  }
}

function isSameOrder(a: readonly Jump[], b: readonly Jump[]): boolean {
  return a.length === b.length && a.every((entry, i) => entry === b[i]);
}
