/** The tables of nftables in memory. Every transaction succeeds: a recording says what the kernel refused. */

import type { Family } from '../../base/address.ts';
import type { Hook, NftElement, NftKernel, NftRule, NftWrite } from '../../kernel/nftables-kernel.ts';

interface ReplayedChain {
  readonly hook?: Hook;
  readonly rules: readonly NftRule[];
}

interface ReplayedTable {
  readonly chains: Map<string, ReplayedChain>;
  /** Elements of sets by key and end. */
  readonly sets: Map<string, Map<string, NftElement>>;
}

export function tableKernel(): NftKernel {
  const tables = new Map<Family, ReplayedTable>();
  return {
    read: (family) => Promise.resolve(stateOf(tables.get(family))),
    inspect: (family) => Promise.resolve(stateOf(tables.get(family))),
    // A resync reads the table, as the recorded agent did.
    isUnchanged: () => false,
    counts: () => Promise.resolve(new Map()),
    // No packet passes, so nothing remembers a client.
    expirations: () => Promise.resolve(new Map()),
    lastWriter: () => undefined,
    commit(family, writes) {
      for (const write of writes) carryOut(tables, family, write);
      return Promise.resolve([]);
    },
    stands: (family) => Promise.resolve(tables.has(family) ? 'yes' : 'no'),
  };
}

function stateOf(table: ReplayedTable | undefined): Awaited<ReturnType<NftKernel['read']>> {
  if (table === undefined) return undefined;
  const sets = [...table.sets].map(([name, elements]) => [name, [...elements.values()]] as const);
  return { chains: new Map(table.chains), sets: new Map(sets) };
}

function carryOut(tables: Map<Family, ReplayedTable>, family: Family, write: NftWrite): void {
  const table = tables.get(family) ?? { chains: new Map(), sets: new Map() };
  const { chains, sets } = table;
  const chainOf = (name: string): ReplayedChain => chains.get(name) ?? { rules: [] };
  tables.set(family, table);
  switch (write.kind) {
    case 'add-table':
      break;
    case 'delete-table':
      tables.delete(family);
      break;
    case 'add-chain':
      chains.set(write.chain, { ...chainOf(write.chain), ...(write.hook === undefined ? {} : { hook: write.hook }) });
      break;
    case 'flush-chain':
      chains.set(write.chain, { ...chainOf(write.chain), rules: [] });
      break;
    case 'delete-chain':
      chains.delete(write.chain);
      break;
    case 'add-rule':
      chains.set(write.chain, { ...chainOf(write.chain), rules: [...chainOf(write.chain).rules, write.rule] });
      break;
    case 'add-set':
      sets.set(write.set.name, sets.get(write.set.name) ?? new Map());
      break;
    case 'delete-set':
      sets.delete(write.set);
      break;
    default:
      writeElements(sets.get(write.set.name), write);
  }
}

type ElementsWrite = Extract<NftWrite, { readonly elements: unknown }>;

function writeElements(found: Map<string, NftElement> | undefined, { kind, elements }: ElementsWrite): void {
  for (const element of elements) {
    if (kind === 'add-elements') found?.set(element.key + element.end, element);
    else found?.delete(element.key + element.end);
  }
}
