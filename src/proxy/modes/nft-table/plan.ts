/**
 * The writes of one family's table, as transactions: the kernel commits each as a whole, and a packet sees all or nothing of
 * it. First new objects, to which nothing leads yet, then the elements and the changed rules (all of a Service together), last the removal
 * of unused objects. Pure.
 */

import type { Family } from '../../../base/address.ts';
import type { NftSet, NftWrite, ReadChain } from '../../../kernel/nftables-kernel.ts';
import type { SkippedStep, Step } from '../../reconcile/step.ts';
import type { Delta } from '../../reconcile/tracker.ts';
import type { SetAside } from '../mode.ts';
import {
  type ChangeGroup,
  changeGroups,
  type ElementChange,
  objectStep,
  type PendingGroups,
  rulesText,
} from './groups.ts';
import type { NftChain } from './layout.ts';

export interface PendingTable extends PendingGroups {
  readonly hasTable: boolean;
  readonly chains: Delta<string, NftChain, ReadChain>;
  readonly sets: Delta<string, NftSet>;
  /** Limit of the bytes of a transaction; undefined for none. */
  readonly room?: number | undefined;
}

export interface Transaction {
  readonly writes: readonly NftWrite[];
  /** The objects in the kernel after its success. */
  readonly chains: readonly (readonly [string, NftChain | undefined])[];
  readonly sets: readonly (readonly [string, NftSet | undefined])[];
  readonly elements: readonly ElementChange[];
  /** The keys of its steps. */
  readonly steps: readonly string[];
  /** All that follow need its objects. */
  readonly isFoundation?: boolean;
  /** It deletes objects that may still be in use: before 6.2 the kernel releases a chain some time after its last element. */
  readonly mayWait?: boolean;
}

export interface TablePlan {
  readonly family: Family;
  readonly steps: readonly Step[];
  readonly transactions: readonly Transaction[];
  /** More is pending than is planned. */
  readonly isPart?: boolean;
  /** Changes that wait for a Service that is set aside. */
  readonly waiting: readonly SkippedStep[];
}

/** Limit of the changes of a transaction, unless one Service has more: building and committing it blocks the event loop. */
const MAX_CHANGES = 5000;
/** Limit of the chains, rules and sets of a transaction. The kernel takes longer for them than for elements, and nothing leads to them yet. */
const MAX_OBJECTS = 1000;
/** Bytes of the largest change of an element (deletion, and addition of an IPv6 element with its verdict), and of the largest object (a long rule). */
const BYTES_A_CHANGE = 250;
const BYTES_AN_OBJECT = 1500;

export function planTable(pending: PendingTable, setAside: SetAside): TablePlan {
  const { groups, waiting } = changeGroups(pending, setAside);
  const { room = Number.POSITIVE_INFINITY } = pending;
  const limit = (objects: number, bytes: number) => Math.max(1, Math.min(objects, Math.floor(room / bytes)));
  const wanted = { ...pending, chains: withoutAside(pending.chains, setAside) };
  const first = foundation(wanted, limit(MAX_OBJECTS, BYTES_AN_OBJECT));
  const last = setAside.size === 0 ? demolition(pending) : [];
  const built = first.length === 0 ? [] : objectSteps(wanted, 'create');
  const gone = last.length === 0 ? [] : objectSteps(pending, 'remove');
  const keysOf = (steps: readonly Step[]) => steps.map(({ key }) => key);
  return {
    family: pending.family,
    transactions: [
      // The steps of these objects end with the last of their transactions.
      ...first.map((one, i) => (i === first.length - 1 ? { ...one, steps: keysOf(built) } : one)),
      ...packed(groups, limit(MAX_CHANGES, BYTES_A_CHANGE)),
      ...last.map((one) => ({ ...one, steps: keysOf(gone) })),
    ],
    steps: [...built, ...gone, ...groups.flatMap(({ steps }) => steps)],
    waiting,
  };
}

/** New chains of a Service that is set aside are left out: the kernel may refuse their rules, and nothing leads there. */
function withoutAside(chains: PendingTable['chains'], setAside: SetAside): PendingTable['chains'] {
  if (setAside.size === 0) return chains;
  const isAside = ({ owner }: NftChain) => owner !== undefined && setAside.has(owner);
  return { ...chains, create: new Map([...chains.create].filter(([, chain]) => !isAside(chain))) };
}

/** A part of a transaction: writes, and the object that they complete. */
interface Piece {
  readonly writes: readonly NftWrite[];
  readonly chain?: readonly [string, NftChain];
  readonly set?: readonly [string, NftSet];
}

/**
 * The table, the sets, and the chains with their rules, before an element leads to them. All chains are created empty before
 * the first rule, which may jump to any of them. Adding an existing chain changes nothing, so a transaction may end anywhere.
 */
function foundation({ hasTable, chains, sets }: PendingTable, limit: number): Transaction[] {
  const changedSets = [...sets.update].map(([name, { to }]) => [name, to] as const);
  const pieces: Piece[] = [
    ...(hasTable ? [] : [{ writes: [{ kind: 'add-table' } as const] }]),
    ...[...sets.create, ...changedSets].map((set) => ({ writes: [{ kind: 'add-set', set: set[1] } as const], set })),
    ...[...chains.create].map(([chain, { hook }]) => ({ writes: [{ kind: 'add-chain', chain, hook } as const] })),
    ...[...chains.create].map((chain) => ({ writes: rulesOf(...chain), chain })),
  ];
  return inParts(pieces, limit, ({ writes }) => writes.length).map((part) => ({
    writes: part.flatMap(({ writes }) => writes),
    chains: part.flatMap(({ chain }) => (chain === undefined ? [] : [chain])),
    sets: part.flatMap(({ set }) => (set === undefined ? [] : [set])),
    elements: [],
    steps: [],
    isFoundation: true,
  }));
}

function rulesOf(chain: string, { rules }: NftChain): NftWrite[] {
  return rules.map((rule) => ({ kind: 'add-rule', chain, rule }) as const);
}

/** Chains and sets to which nothing leads any more. */
function demolition({ chains, sets }: PendingTable): Transaction[] {
  if (chains.remove.size + sets.remove.size === 0) return [];
  const writes: NftWrite[] = [];
  for (const chain of chains.remove.keys()) writes.push({ kind: 'flush-chain', chain });
  for (const chain of chains.remove.keys()) writes.push({ kind: 'delete-chain', chain });
  for (const set of sets.remove.keys()) writes.push({ kind: 'delete-set', set });
  const gone = <T>(map: ReadonlyMap<string, T>) => [...map.keys()].map((name) => [name, undefined] as const);
  return [{ writes, chains: gone(chains.remove), sets: gone(sets.remove), elements: [], steps: [], mayWait: true }];
}

/** A rule counts as some elements, by its bytes. */
const CHANGES_A_RULE = BYTES_AN_OBJECT / BYTES_A_CHANGE;

function packed(groups: readonly ChangeGroup[], limit: number): Transaction[] {
  const sizeOf = ({ chains, changes }: ChangeGroup) =>
    chains.reduce((sum, { to }) => sum + (to.rules.length + 1) * CHANGES_A_RULE, changes.length);
  return inParts(groups, limit, sizeOf).map(changesTransaction);
}

/** Parts in order, each with as many items as fit into one transaction. */
function inParts<T>(all: readonly T[], limit: number, sizeOf: (one: T) => number): T[][] {
  const parts: T[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const one of all) {
    const more = sizeOf(one);
    if (size + more > limit) {
      parts.push([]);
      size = 0;
    }
    parts.at(-1)?.push(one);
    size += more;
  }
  return parts;
}

/** Deletions come before additions: a key with a new value is deleted and added. */
function changesTransaction(groups: readonly ChangeGroup[]): Transaction {
  const changes = groups.flatMap((group) => group.changes);
  const chains = groups.flatMap((group) => group.chains);
  const bySet = Map.groupBy(changes, ({ set }) => set);
  const writes = chains.flatMap(({ name, to }): NftWrite[] => [
    { kind: 'flush-chain', chain: name },
    ...rulesOf(name, to),
  ]);
  for (const [set, ofSet] of bySet) {
    const elements = ofSet.flatMap(({ from }) => (from ? [from] : []));
    if (elements.length > 0) writes.push({ kind: 'delete-elements', set, elements });
  }
  for (const [set, ofSet] of bySet) {
    const elements = ofSet.flatMap(({ to }) => (to ? [to] : []));
    if (elements.length > 0) writes.push({ kind: 'add-elements', set, elements });
  }
  return {
    writes,
    chains: chains.map(({ name, to }) => [name, to]),
    sets: [],
    elements: changes,
    steps: groups.flatMap(({ steps }) => steps.map(({ key }) => key)),
  };
}

/** The steps of the table, its sets, and chains that are new or gone. */
function objectSteps({ family, chains, sets, hasTable }: PendingTable, which: 'create' | 'remove'): Step[] {
  const none = () => [];
  const [ofChains, ofSets] = [chains[which], sets[which]];
  const sign = which === 'create' ? '+' : '-';
  return [
    ...(which === 'create' && !hasTable ? [objectStep(family, 'table', which, none)] : []),
    ...[...ofSets.keys()].map((name) => objectStep(family, `set ${name}`, which, none)),
    ...[...ofChains].map(([name, chain]) => objectStep(family, `chain ${name}`, which, () => rulesText(sign, chain))),
  ];
}
